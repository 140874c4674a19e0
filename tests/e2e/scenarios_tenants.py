"""The cases of the corpus that are stories about two clients of one engine; see ``scenarios``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.site import HI, KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.e2e.site import Site


def timing_007(site: Site) -> None:
    """Let two clients send one prompt: the engine is given no way to answer one from what the other has left.

    That it then finds each client's own prompts again, and nobody else's, is shown by ``tests/vllm``.
    """
    tokens = [site.issuer.token(), KEYS["KEY-ABC"], site.issuer.token()]
    before = len(site.reached())
    answers = [site.chat(token=token) for token in tokens]
    assert [answer.status for answer in answers] == [200] * 3
    bodies: list[dict[str, Any]] = [request.json for request in site.reached()[before:]]
    first, other, again = (body["cache_salt"] for body in bodies)
    assert first == again != other
    assert all(len(salt) == 43 and salt.replace("-", "a").replace("_", "a").isalnum() for salt in (first, other))
    assert [body["messages"] for body in bodies] == [HI["messages"]] * 3
    for answer in answers:
        assert "set cache_salt" in site.record(answer)["changes"]
        assert not any("salt" in name or "salt" in value for name, value in answer.headers)
    assert first.encode() not in site.audit()


SCENARIOS: Mapping[str, Callable[[Site], None]] = {"timing-007": timing_007}
