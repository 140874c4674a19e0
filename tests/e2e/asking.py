"""Requests that must be refused, or must go through, with a look at what reached the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.site import HI

if TYPE_CHECKING:
    from gateway.simulator.record import Recorded
    from tests.e2e.raw_http import Answer
    from tests.e2e.site import Site


def refused(site: Site, data: bytes, status: int = 404, code: str = "no-such-endpoint") -> Answer:
    """Send a request that must be refused without a trace at the engine."""
    before = len(site.reached())
    answer = site.ask(data)
    assert (answer.status, answer.code) == (status, code)
    assert len(site.reached()) == before
    return answer


def forwarded(site: Site, data: bytes) -> Recorded:
    """Send a request that must go through, and give what reached the engine."""
    before = len(site.reached())
    answer = site.ask(data)
    assert answer.status == 200, answer.body
    (seen,) = site.reached()[before:]
    return seen


def sent_body(site: Site, **body: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON values)
    """Ask for a chat that must go through, and give the body that reached the engine."""
    value = forwarded(site, site.request(body={**HI, **body})).json
    assert isinstance(value, dict)
    return value


def unsalted(body: dict[str, Any]) -> dict[str, Any]:
    """Give a body that reached the engine without its salt, which it must have."""
    assert len(body["cache_salt"]) == 43
    return {name: value for name, value in body.items() if name != "cache_salt"}
