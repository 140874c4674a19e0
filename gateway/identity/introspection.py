"""What an issuer says of an opaque token, judged (RFC 7662 §2.2).

Enters: the octets of its answer, the issuer as the policy states it, the time. Leaves: a ``Principal``; for a token
that does not hold ``Malformed(CREDENTIAL_INVALID)``; for an answer that is none ``Unavailable(KEYS_UNAVAILABLE)``,
because what a caller sent must not be called invalid when nobody knows. ``active`` alone is not believed: an issuer
answers for every resource that asks. It asks nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.identity import claims, token_purpose
from gateway.identity.confirmation import check_unbound
from gateway.identity.principal import CredentialKind, Principal
from gateway.identity.refusal import invalid
from gateway.reasons import Malformed, Reason, Unavailable
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.identity.issuer import IntrospectionIssuer

CLOCK_SKEW_S = 30
"""How far the issuer's clock may be ahead of ours. Its ``exp`` is taken as it stands: it says itself what is active."""

_BAD_GATEWAY = 502


def judge(answer: bytes, issuer: IntrospectionIssuer, now: float) -> tuple[Principal, str | None]:
    """Give who a token speaks for, with its ``jti`` if it has one.

    Raises ``Malformed(CREDENTIAL_INVALID)`` and ``Unavailable(KEYS_UNAVAILABLE)``.
    """
    told = _read(answer)
    if told["active"] is not True:
        raise invalid("the issuer says that the token is not active")
    if told.get("iss", issuer.issuer) != issuer.issuer:
        raise invalid("iss is another issuer")
    if not claims.names_audience(told, issuer.audience):
        raise invalid("aud does not name this plane")
    expires_at = claims.expiry(told, now, 0) if "exp" in told else None
    claims.check_begun(told, now, CLOCK_SKEW_S)
    _check_type(told)
    token_purpose.check_access_token(told)
    check_unbound(told)
    principal = Principal(
        caller=issuer.caller,
        kind=CredentialKind.INTROSPECTION,
        id=claims.name(told, "client_id"),
        subject=claims.name(told, "sub") if "sub" in told else None,
        groups=claims.groups(told, issuer.groups_claim),
        scopes=claims.scopes(told, "scope"),
        expires_at=expires_at,
    )
    return principal, claims.token_id(told)


def _read(answer: bytes) -> dict[str, Any]:
    """Read an answer in which nothing is ambiguous."""
    try:
        told = strict_json.loads(answer)
    except Malformed:
        raise _unusable("is not one strict JSON object") from None
    if "active" not in told:
        raise _unusable("does not say whether the token is active")
    return told


def _check_type(told: Mapping[str, Any]) -> None:
    """Refuse refresh tokens and tokens of other schemes; the type is optional and knows no case (RFC 6749 §5.1)."""
    kind = told.get("token_type", "bearer")
    if type(kind) is not str or kind.lower() != "bearer":
        raise invalid("token_type does not say that it is a bearer token")


def _unusable(what: str) -> Unavailable:
    return Unavailable(Reason.KEYS_UNAVAILABLE, f"the issuer's answer {what}", status=_BAD_GATEWAY)
