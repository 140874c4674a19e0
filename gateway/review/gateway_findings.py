"""What the gateway's own answers mean: whether it listens, refuses what it must refuse, and is ready.

Enters: replies of its listeners. Leaves: findings of the layer ``gateway``. An answer is the gateway's where
``Proxy-Status`` names it (RFC 9209 §2); anything else came from somewhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.inquiry import Failure
from gateway.reasons import Reason
from gateway.review.diagnosis import Finding, Layer, Verdict, told
from gateway.review.json_reading import items, member, read
from gateway.review.model_findings import thought_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from gateway.inquiry import Reply
    from gateway.policy.model import Plane
    from gateway.review.surroundings import ListenerAt

FORBIDDEN: Final = (
    ("POST", "/invocations"),
    ("POST", "/sleep"),
    ("POST", "/wake_up"),
    ("POST", "/collective_rpc"),
    ("POST", "/update_weights"),
    ("POST", "/scale_elastic_ep"),
    ("POST", "/adapters"),
    ("GET", "/server_info"),
    ("GET", "/metrics"),
    ("GET", "/v1/realtime"),
    ("GET", "/v1//models"),
    ("GET", "/v1/%6dodels"),
)
"""What an engine would do for anybody, and other spellings of what it does: asked for without a credential."""

_OK, _UNAVAILABLE, _LEAST_ERROR, _TOO_MANY = 200, 503, 400, 429
_UNAUTHORIZED = (401, 403)
_NAME: Final = "vllm-gateway"


def made_here(reply: Reply) -> bool:
    """Tell whether the gateway itself made an answer."""
    return reply.fields.get("proxy-status", "").split(";")[0].strip() == _NAME


def reason_of(reply: Reply) -> str:
    """Give the reason of an answer that the gateway made."""
    return told(reply.fields.get("proxy-status", "").rpartition('details="')[2].split('"')[0], 40)


def listener(subject: str, at: ListenerAt, reply: Reply) -> Finding:
    """Tell whether the gateway answers on a listener, by what it says to nobody in particular."""
    if reply.failure in {Failure.REFUSED, Failure.NO_SOCKET}:
        do = "is 'vllm-gateway serve' running, with these settings? its log says 'listening'"
        return _found(Verdict.BROKEN, subject, reply.why, do)
    if reply.failure is not None:
        do = f"{at.variable}; is it the gateway that listens there, with TLS where {_tls(at.variable)} says so? its log"
        return _found(Verdict.BROKEN, subject, reply.why, do)
    if not made_here(reply):
        saw = f"{reply.status}, and not from the gateway: something else listens there"
        return _found(Verdict.BROKEN, subject, saw, f"{at.variable} and who has that port (ss -ltnp)")
    if reason_of(reply) == Reason.HOST_NOT_SERVED:
        do = f"the running gateway has other settings than these: {at.variable.replace('LISTENERS', 'HOSTS')}"
        return _found(Verdict.BROKEN, subject, "does not serve the host name of its own settings", do)
    return _found(Verdict.OK, subject, f"answers {reply.status} {reason_of(reply)} to nobody")


def refusals(subject: str, replies: Mapping[tuple[str, str], Reply]) -> Iterator[Finding]:
    """Tell whether each of ``FORBIDDEN`` was refused by the gateway, and by nobody behind it."""
    passed = {
        f"{method} {target}": reply
        for (method, target), reply in replies.items()
        if not (made_here(reply) and reply.status >= _LEAST_ERROR)
    }
    if not passed:
        refused = f"refuses by itself all {len(replies)} paths that only an engine would answer"
        yield _found(Verdict.OK, subject, refused)
    for what, reply in passed.items():
        saw = reply.why if reply.failure else f"{reply.status}, and not from the gateway"
        do = "close this listener: what answers there is not the gateway alone"
        yield _found(Verdict.BROKEN, subject, f"{what}: {saw}", do)


def readiness(
    subject: str, reply: Reply, planes: Iterable[Plane], broken: AbstractSet[str] = frozenset()
) -> Iterator[Finding]:
    """Read ``/readyz``: what the running process knows, against what was found here.

    ``broken``: callers and engines that are known to be broken, and so are not ready there either.
    """
    value = read(reply.body)
    known = value.get("planes")
    if reply.failure is not None or reply.status not in {_OK, _UNAVAILABLE} or not isinstance(known, dict):
        saw = reply.why if reply.failure else f"/readyz says {reply.status}, in no form of the gateway's"
        do = "is 'vllm-gateway serve' running, with these settings? GATEWAY_LISTENERS__OPS, GATEWAY_HOSTS__OPS"
        yield _found(Verdict.BROKEN, subject, saw, do)
        return
    if value.get("ready") is True:
        yield _found(Verdict.OK, subject, "is ready")
    for problem in items(value.get("problems")):
        yield _found(Verdict.BROKEN, subject, told(str(problem)), "see the ledger, or wait for the end of the drain")
    for plane in planes:
        told_of = known.get(plane.name)
        if not isinstance(told_of, dict):
            do = "restart it with these settings, or look at its log for 'policies not reloaded'"
            yield _found(Verdict.WARNING, subject, f"the running gateway has no plane {plane.name!r}", do)
            continue
        if told_of.get("policy") != plane.digest:
            saw = f"the running gateway has another text of the policy {plane.name!r} than {plane.source}"
            do = "its log says 'policies not reloaded' with the problems, or it reads other files"
            yield _found(Verdict.WARNING, subject, saw, do)
        yield from _not_ready(subject, plane.name, told_of, broken)


def visited(subject: str, plane: Plane, dialect: str, reply: Reply) -> Finding:
    """Read the answer to one real request that came through the gateway; ``dialect`` may be that of a list."""
    if reply.failure is not None:
        return _found(Verdict.BROKEN, subject, reply.why, "the gateway's log; is the deadline too short? --within")
    request = f"request {told(reply.fields.get('x-request-id', 'without an id'), 40)}"
    if reply.status == _OK:
        if thought_in(read(reply.body), dialect) and not _thinks_by_default(plane, dialect):
            do = "see the model's lines above; the gateway passes on what a model thinks"
            return _found(
                Verdict.WARNING, subject, f"answered, and thought although nobody asked it to ({request})", do
            )
        return _found(Verdict.OK, subject, f"answered in {reply.seconds * 1000:.0f} ms ({request})")
    code = told(str(member(read(reply.body), "error", "code")), 40)
    saw = f"{reply.status} {code} ({request})"
    if reply.status in _UNAUTHORIZED:
        do = "'detail' of its audit record says which check failed; 'vllm-gateway token … --for POLICY' tries a token"
        return _found(Verdict.BROKEN, subject, saw, do)
    if reply.status == _TOO_MANY:
        return _found(Verdict.WARNING, subject, saw, "this client is at its limits: 'vllm-gateway usage'")
    return _found(Verdict.BROKEN, subject, saw, "'reason' and 'detail' of its audit record; the lines above")


def _thinks_by_default(plane: Plane, dialect: str) -> bool:
    return any(
        endpoint.parameters is not None and endpoint.parameters.thinking.default_enabled
        for methods in plane.endpoints.values()
        for endpoint in methods.values()
        if endpoint.dialect == dialect
    )


def _not_ready(subject: str, plane: str, value: Mapping[str, Any], broken: AbstractSet[str]) -> Iterator[Finding]:
    """Name the callers and engines of a plane that the running gateway holds for not ready."""
    for kind, word, do in (
        (
            "callers",
            "detail",
            "is the gateway's way to the issuer the same as from here? its log: 'key set not refreshed'",
        ),
        (
            "engines",
            "state",
            "where it answers from here: does the gateway run elsewhere, or may it not use the socket?",
        ),
    ):
        parts = value.get(kind)
        for name, part in (parts if isinstance(parts, dict) else {}).items():
            if member(part, "ready") is False and name not in broken:
                said = told(str(member(part, word)))
                yield _found(
                    Verdict.BROKEN, subject, f"plane {plane}: {kind[:-1]} {told(name, 40)} is not ready: {said}", do
                )


def _tls(variable: str) -> str:
    return f"{variable.replace('LISTENERS', 'TLS')}__CERT"


def _found(verdict: Verdict, subject: str, saw: str, do: str = "") -> Finding:
    return Finding(Layer.GATEWAY, verdict, subject, saw, do)
