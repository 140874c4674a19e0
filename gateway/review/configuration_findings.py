"""What policies and settings say for themselves, before anything outside is asked.

Enters: the planes, compiled, and what the settings name. Leaves: findings of the layer ``configuration``, and of the
layer ``tunnel`` those about deadlines that Cloudflare's edge does not wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.dialects.registry import FACTS
from gateway.identity.issuer import CloudflareAccess
from gateway.review.diagnosis import Finding, Layer, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gateway.policy.model import Deadlines, Endpoint, Plane
    from gateway.review.surroundings import Surroundings

EDGE_S: Final = 100.0
"""Seconds after which Cloudflare's edge gives up an answer of which no byte has come (error 524)."""


def unusable(problems: Iterable[str]) -> Iterator[Finding]:
    """Say why ``serve`` would not start."""
    for problem in problems:
        do = "'vllm-gateway serve' would not start; all else is looked at when this holds"
        yield Finding(Layer.CONFIGURATION, Verdict.BROKEN, "", problem.removesuffix("."), do)


def configuration(site: Surroundings) -> Iterator[Finding]:
    """Say what is in force, and what a policy or setting says in vain."""
    served = ", ".join(f"{plane.name} ({plane.listener})" for plane in site.planes)
    yield Finding(Layer.CONFIGURATION, Verdict.OK, "", f"settings and policies hold: {served}")
    for plane in site.closed:
        yield _warning(
            plane.source,
            f"the plane {plane.name!r} stays closed: its listener has no address",
            f"set GATEWAY_LISTENERS__{_upper(plane.listener)}, or move the file out of GATEWAY_POLICIES",
        )
    for plane in site.planes:
        for key in plane.not_enforced:
            yield _warning(plane.source, f"{key} is stated, and not enforced by this version", "do not rely on it")
    used = {model.engine for plane in site.planes for model in plane.models.values()}
    for name, engine in site.engines.items():
        if name not in used:
            yield _warning(engine.variable, "no model of a policy uses this engine", "remove it, or add the model")
    for variable in site.idle:
        yield _warning(variable, "no caller of a policy has an issuer of this name", "remove it, or mend the name")


def behind_cloudflare(plane: Plane) -> bool:
    """Tell by a policy that its callers come through Cloudflare."""
    return plane.edge is not None or any(isinstance(trust, CloudflareAccess) for trust in plane.callers.values())


def edge_deadlines(planes: Sequence[Plane], settings: Deadlines, keep_alive_s: float) -> Iterator[Finding]:
    """Warn of planes behind Cloudflare whose whole answers may take longer than its edge waits."""
    for plane in planes:
        long = [(endpoint, _total(endpoint, settings)) for endpoint in _answering(plane)]
        late = [(endpoint.name, total) for endpoint, total in long if total >= EDGE_S]
        if late:
            named = ", ".join(f"{name} {total:g} s" for name, total in late)
            yield Finding(
                Layer.TUNNEL,
                Verdict.WARNING,
                f"plane {plane.name}",
                f"a call without a stream may take longer than Cloudflare's edge waits (100 s, error 524): {named}",
                "let callers stream; where nobody does: 'deadlines: {total: 95s}' for the endpoint in "
                f"{plane.source}, or GATEWAY_DEADLINES__TOTAL=95s, so that they get 504 with an id instead of a page",
            )
        if keep_alive_s == 0 or keep_alive_s >= EDGE_S:
            yield Finding(
                Layer.TUNNEL,
                Verdict.WARNING,
                f"plane {plane.name}",
                "silent streams get no comment before Cloudflare's edge gives them up (100 s, error 524)",
                "set GATEWAY_SSE_KEEP_ALIVE=15s",
            )


def _answering(plane: Plane) -> Iterator[Endpoint]:
    """Give the endpoints that make an engine write an answer."""
    for methods in plane.endpoints.values():
        yield from (endpoint for endpoint in methods.values() if FACTS[endpoint.dialect].generates)


def _total(endpoint: Endpoint, settings: Deadlines) -> float:
    total = endpoint.deadlines.total if endpoint.deadlines.total is not None else settings.total
    return EDGE_S if total is None else total


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def _warning(subject: str, saw: str, do: str) -> Finding:
    return Finding(Layer.CONFIGURATION, Verdict.WARNING, subject, saw, do)
