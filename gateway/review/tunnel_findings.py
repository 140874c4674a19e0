"""What comes back from the public address: the gateway's own answer, or a page of whatever stands before it.

Enters: replies to requests from outside in, without a credential. Leaves: findings of the layer ``tunnel``. Statuses
and numbers are those of Cloudflare's edge and of cloudflared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.inquiry import Failure
from gateway.reasons import Reason
from gateway.review.diagnosis import Finding, Layer, Verdict, told
from gateway.review.gateway_findings import made_here, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.inquiry import Reply

_NUMBER = re.compile(rb"[Ee]rror(?: code:?)?[\s:]*(?:<[^>]{0,80}>\s*)*(1[0-9]{3})\b")
_NO_TUNNEL: Final = (
    "no cloudflared is connected: journalctl -u cloudflared; where UDP 7844 is closed, 'protocol: http2' in its config"
)
_STEPS: Final[Mapping[Failure, tuple[str, str]]] = {
    Failure.NO_NAME: ("DNS", "make its record: cloudflared tunnel route dns TUNNEL NAME"),
    Failure.TLS: (
        "TLS",
        "the edge's certificate does not cover this name: a name two levels below the zone needs its own",
    ),
}
_PAGES: Final[Mapping[int, tuple[str, str]]] = {
    502: (
        "cloudflared does not reach its origin",
        "'service' of its config must be the address of the plane's listener, and the gateway must be up",
    ),
    520: ("the origin answered with no HTTP", "'service' of cloudflared's config: scheme and port"),
    521: ("the origin refuses connections", "the edge goes past the tunnel: the DNS record must lead to the tunnel"),
    522: ("no connection to the origin in time", "the edge goes past the tunnel, or a firewall drops it"),
    523: ("no route to the origin", "the DNS record must lead to the tunnel"),
    524: ("the origin took longer than 100 s", "what takes so long? let callers stream; 'deadlines: {total: 95s}'"),
    525: ("the TLS handshake with the origin failed", "'service' of cloudflared's config: http or https?"),
    526: ("the origin's certificate is not believed", "'originRequest.caPool' of cloudflared's config"),
    530: ("no tunnel is connected, or the origin's name is unknown", _NO_TUNNEL),
}
_NUMBERS: Final[Mapping[int, tuple[str, str]]] = {
    1016: ("the origin's name cannot be resolved", "the DNS record leads to no tunnel: cloudflared tunnel route dns"),
    1033: ("no tunnel is connected", _NO_TUNNEL),
}
_REDIRECTS = range(300, 400)
_FORBIDDEN, _TOO_MANY = 403, 429


def is_cloudflare(reply: Reply) -> bool:
    """Tell whether an answer came through Cloudflare."""
    return "cf-ray" in reply.fields or reply.fields.get("server", "").lower() == "cloudflare"


def reached(url: str, reply: Reply) -> Finding:
    """Tell whether the gateway answers at its public address, and if not, who does."""
    if reply.failure is not None:
        step, do = _STEPS.get(reply.failure, ("connection", "is the name this service's, and the network up?"))
        return _found(Verdict.BROKEN, url, f"{step}: {reply.why}", do)
    if made_here(reply):
        if reason_of(reply) == Reason.HOST_NOT_SERVED:
            do = "list the name in GATEWAY_HOSTS__<LISTENER>, or mend 'httpHostHeader' of cloudflared"
            return _found(Verdict.BROKEN, url, "the gateway does not serve this host name (421)", do)
        request = told(reply.fields.get("x-request-id", ""), 40)
        return _found(
            Verdict.OK, url, f"the gateway answers {reply.status} {reason_of(reply)} to nobody (request {request})"
        )
    ray = f", ray {told(reply.fields['cf-ray'], 40)}" if "cf-ray" in reply.fields else ""
    number = _NUMBER.search(reply.body[:65536])
    known = _NUMBERS.get(int(number[1])) if number else None
    if known is None and (is_cloudflare(reply) or reply.status in _PAGES):
        known = _PAGES.get(reply.status)
    if known is not None:
        numbered = f" with {int(number[1])}" if number else ""
        return _found(Verdict.BROKEN, url, f"{reply.status}{numbered}, a page of the edge{ray}: {known[0]}", known[1])
    if _is_login(reply):
        saw = f"{reply.status}: Cloudflare Access answers before the gateway, as it should for nobody{ray}"
        return _found(Verdict.WARNING, url, saw, "nothing behind it was looked at: ask with a service token of Access")
    if is_cloudflare(reply) and reply.status in {_FORBIDDEN, _TOO_MANY}:
        do = "the firewall or bot rules of the zone: SDKs must not get a challenge"
        return _found(Verdict.BROKEN, url, f"{reply.status}, refused by the edge{ray}", do)
    saw = f"{reply.status}, neither from the gateway nor a page of the edge that is known"
    return _found(Verdict.BROKEN, url, saw, "who answers for this name? its DNS record, and the rules of the tunnel")


def refused(url: str, replies: Mapping[tuple[str, str], Reply]) -> Iterator[Finding]:
    """Tell whether no other way leads from outside to an engine."""
    for (method, target), reply in replies.items():
        if reply.failure is None and not made_here(reply):
            do = (
                "a rule of the tunnel leads past the gateway: its ingress must have one service for the whole host name"
            )
            yield _found(Verdict.BROKEN, url, f"{method} {target}: {reply.status}, and not from the gateway", do)


def _is_login(reply: Reply) -> bool:
    """Tell whether Access asks who it is."""
    leads = reply.fields.get("location", "")
    return (reply.status in _REDIRECTS and ".cloudflareaccess.com/" in leads) or "cf-access-domain" in reply.fields


def _found(verdict: Verdict, subject: str, saw: str, do: str = "") -> Finding:
    return Finding(Layer.TUNNEL, verdict, subject, saw, do)
