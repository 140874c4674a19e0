"""What issuers' answers mean: whether their keys are there and fit, and whether their clock and ours agree.

Enters: a key set, an answer about a token that does not exist, or why there is none; the ``Date`` of an answer and our
time. Leaves: findings of the layer ``identity``. No token is verified.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from gateway.identity.cloudflare_access import CLOCK_SKEW_S
from gateway.identity.issuer import AccessTokenIssuer
from gateway.review.diagnosis import Finding, Layer, Verdict
from gateway.review.json_reading import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.identity.issuer import CloudflareAccess
    from gateway.identity.key_set import KeySet
    from gateway.inquiry import Reply
    from gateway.reasons import Unavailable

_ROUNDING_S: Final = 2


def subject_of(caller: str, issuer: str) -> str:
    """Name an issuer in findings."""
    return f"{caller} at {issuer}"


def unavailable(subject: str, variable: str, failure: Unavailable) -> Finding:
    """Say why nobody who comes by this issuer can be let in."""
    return Finding(
        Layer.IDENTITY,
        Verdict.BROKEN,
        subject,
        failure.detail,
        f"can this host reach it over https (name, firewall, proxy, authority)? {variable}__JWKS_URL or the policy's "
        "issuer; callers get 503 keys-unavailable meanwhile",
    )


def keys(subject: str, trust: AccessTokenIssuer | CloudflareAccess, found: KeySet) -> Iterator[Finding]:
    """Judge the keys of an issuer by what the policy accepts."""
    algorithms = sorted({alg for _, alg in found.keys})
    fit = sorted({kid or "without a kid" for kid, alg in found.keys if alg in _accepted(trust)})
    if not fit:
        yield Finding(
            Layer.IDENTITY,
            Verdict.BROKEN,
            subject,
            f"its keys are for {', '.join(algorithms)}, and the policy accepts {', '.join(sorted(_accepted(trust)))}",
            f"write what the issuer signs with under trust.callers.{trust.caller}.access_token.algorithms",
        )
        return
    named = "1 key" if len(fit) == 1 else f"{len(fit)} keys"
    yield Finding(Layer.IDENTITY, Verdict.OK, subject, f"{named} for {', '.join(algorithms)}")
    for refused in found.refused:
        if "private" in refused:
            do = "have it replaced at once: whoever saw it can make tokens"
            yield Finding(Layer.IDENTITY, Verdict.WARNING, subject, refused, do)


def introspected(subject: str, variable: str, answer: bytes) -> Finding:
    """Judge what an issuer said about a token that does not exist (RFC 7662 §2.2)."""
    active = read(answer).get("active")
    if active is False:
        return Finding(Layer.IDENTITY, Verdict.OK, subject, "answers about opaque tokens")
    saw = "calls a token good that does not exist" if active is True else "answers about tokens in no known form"
    do = f"{variable}__INTROSPECTION_URL must be the endpoint of RFC 7662"
    return Finding(Layer.IDENTITY, Verdict.BROKEN, subject, saw, do)


def no_introspection(subject: str, variable: str, failure: Unavailable) -> Finding:
    """Say why opaque tokens cannot be checked."""
    do = f"{variable}__CLIENT_ID and __CLIENT_SECRET_FILE, __INTROSPECTION_URL; can this host reach it?"
    return Finding(Layer.IDENTITY, Verdict.BROKEN, subject, failure.detail, do)


def clock(subject: str, trust: AccessTokenIssuer | CloudflareAccess, reply: Reply, now: float) -> Iterator[Finding]:
    """Compare an issuer's clock with ours, by what is forgiven."""
    skew_s = trust.clock_skew_s if isinstance(trust, AccessTokenIssuer) else CLOCK_SKEW_S
    try:
        behind = parsedate_to_datetime(reply.fields.get("date", "")).timestamp() - now
    except ValueError:
        return
    if abs(behind) <= max(skew_s / 2, _ROUNDING_S):
        return
    wrong = behind > skew_s
    direction = "behind" if behind > 0 else "ahead of"
    effect = "new tokens are refused as not valid yet" if wrong else "tokens seem to expire at another time"
    yield Finding(
        Layer.IDENTITY,
        Verdict.BROKEN if wrong else Verdict.WARNING,
        subject,
        f"this host's clock is {abs(behind):.0f} s {direction} the issuer's, and {skew_s} s are forgiven: {effect}",
        "set this host's clock (timedatectl, chrony)",
    )


def _accepted(trust: AccessTokenIssuer | CloudflareAccess) -> frozenset[str]:
    return trust.algorithms if isinstance(trust, AccessTokenIssuer) else frozenset({"RS256"})
