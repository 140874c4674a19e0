"""The doctor's way through the gateway itself and what stands before it: listeners, readiness, tunnel.

Enters: ``Surroundings``. Leaves: findings, told one by one. All questions but the visitor's are without a credential.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.registry import FACTS
from gateway.policy.warm_up import asked
from gateway.review import gateway_findings as findings
from gateway.review import tunnel_findings
from gateway.review.configuration_findings import behind_cloudflare, edge_deadlines
from gateway.review.diagnosis import Finding, Layer, Verdict
from gateway.review.json_reading import items, member, read
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from gateway.inquiry import Ask, Reply
    from gateway.policy.model import Endpoint, Plane
    from gateway.review.surroundings import ListenerAt, Surroundings, Visitor

    Tell = Callable[[Finding], None]

TOKENS = 16
_OUTSIDE = (("POST", "/invocations"), ("GET", "/metrics"))
_OK = 200
_ASKABLE = ("openai-chat", "anthropic-messages", "openai-responses", "openai-embeddings")


async def gateway_round(site: Surroundings, broken: AbstractSet[str], tell: Tell) -> frozenset[str]:
    """Look at the gateway itself. Gives the names of the planes that can be asked.

    ``broken``: engines and callers of which that is known already, so that the gateway is not blamed for them.
    """
    answering: set[str] = set()
    for plane in site.planes:
        if await _listener(site, plane, site.listeners[plane.listener], tell):
            answering.add(plane.name)
    if site.ops is None:
        saw = "there is no ops listener, so what the running process knows cannot be said"
        do = "set GATEWAY_LISTENERS__OPS=127.0.0.1:9090"
        tell(Finding(Layer.GATEWAY, Verdict.NOT_TRIED, "", saw, do))
    else:
        reply = await site.ops.ask("GET", "/readyz", within_s=site.look_s)
        for finding in findings.readiness(f"ops at {site.ops.address}", reply, site.planes, broken):
            tell(finding)
    if site.visitor is not None:
        await _visit(site, site.visitor, answering, tell)
    return frozenset(answering)


async def tunnel_round(site: Surroundings, answering: frozenset[str], tell: Tell) -> None:
    """Look at the gateway from outside in, and at what the edge makes of long answers."""
    fronted: Sequence[Plane] = [plane for plane in site.planes if behind_cloudflare(plane)]
    if site.public is None:
        saw = "nothing was asked from outside in"
        tell(Finding(Layer.TUNNEL, Verdict.NOT_TRIED, "", saw, "give --public-url https://… to look at it"))
    elif not answering:
        tell(Finding(Layer.TUNNEL, Verdict.NOT_TRIED, site.public_url, f"behind the broken {Layer.GATEWAY}"))
    else:
        reply = await site.public("GET", "/v1/models", within_s=site.look_s)
        finding = tunnel_findings.reached(site.public_url, reply)
        tell(finding)
        if finding.verdict is Verdict.OK:
            replies = await _each(site.public, _OUTSIDE, site.look_s)
            for refusal in tunnel_findings.refused(site.public_url, replies):
                tell(refusal)
        if tunnel_findings.is_cloudflare(reply):
            fronted = [plane for plane in site.planes if plane.public or behind_cloudflare(plane)] or site.planes
    for finding in edge_deadlines(fronted, site.deadlines, site.keep_alive_s):
        tell(finding)


async def _listener(site: Surroundings, plane: Plane, at: ListenerAt, tell: Tell) -> bool:
    """Look at one listener; tell whether the gateway answers there."""
    subject = f"{plane.name} at {at.address}"
    if at.closed:
        tell(Finding(Layer.GATEWAY, Verdict.NOT_TRIED, subject, at.closed))
        return False
    finding = findings.listener(subject, at, await at.ask("GET", "/v1/models", within_s=site.look_s))
    tell(finding)
    if finding.verdict is Verdict.BROKEN:
        return False
    for refusal in findings.refusals(subject, await _each(at.ask, findings.FORBIDDEN, site.look_s)):
        tell(refusal)
    return True


async def _each(ask: Ask, what: Sequence[tuple[str, str]], within_s: float) -> dict[tuple[str, str], Reply]:
    """Ask several things of nobody's; a POST has an empty object as its body."""
    return {
        (method, target): await ask(method, target, within_s=within_s, body=b"{}" if method == "POST" else b"")
        for method, target in what
    }


async def _visit(site: Surroundings, visitor: Visitor, answering: set[str], tell: Tell) -> None:
    """Send what a caller would: the list of models, and one small question to the first that it may use."""
    plane = next(plane for plane in site.planes if plane.name == visitor.plane)
    subject = f"{plane.name} with the given credential"
    if plane.name not in answering:
        tell(Finding(Layer.GATEWAY, Verdict.NOT_TRIED, subject, "the gateway does not answer there"))
        return
    aliases = list(plane.models)
    if any(endpoint.dialect == "openai-models" for endpoint in plane.endpoints.get(b"/v1/models", {}).values()):
        listed = await visitor.ask("GET", "/v1/models", within_s=site.look_s)
        tell(findings.visited(f"{subject}: GET /v1/models", plane, "openai-models", listed))
        if listed.status != _OK:
            return
        names = [member(entry, "id") for entry in items(read(listed.body).get("data"))]
        aliases = [name for name in names if isinstance(name, str) and name in plane.models]
    for endpoint, body in _questions(plane, aliases):
        target = endpoint.path.decode("ascii")
        reply = await visitor.ask(endpoint.method, target, within_s=site.within_s, body=strict_json.dumps(body))
        about = f"{subject}: {endpoint.method} {target} ({body['model']})"
        tell(findings.visited(about, plane, endpoint.dialect, reply))
        return


def _questions(plane: Plane, aliases: Sequence[str]) -> list[tuple[Endpoint, dict[str, Any]]]:
    """Give small questions that fit a model and an endpoint, the likeliest first."""
    found: list[tuple[Endpoint, dict[str, Any]]] = []
    for dialect in _ASKABLE:
        facts = FACTS[dialect]
        for methods in plane.endpoints.values():
            for endpoint in methods.values():
                fitting = [name for name in aliases if (plane.models[name].most_tokens is not None) == facts.generates]
                if endpoint.dialect == dialect and fitting:
                    short = dict.fromkeys(facts.answer_tokens[:1], TOKENS)
                    found.append((endpoint, {"model": fitting[0], **asked(dialect), **short}))
    return found
