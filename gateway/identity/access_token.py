"""Whether an access token holds (RFC 9068 §4, RFC 8725 §3).

Enters: the text of a token, the issuers of the plane by ``iss``, the time; then the issuer's keys. Leaves: a
``Principal``. ``read`` makes every check but the signature, cheap before dear, so that a token for somebody else costs
no cryptography and no look-up of keys; ``PresentedToken.proved_by`` makes that one. It fetches nothing: an issuer that
is not configured is not asked, wherever a token points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.identity import claims, compact_jws, confirmation, token_purpose
from gateway.identity.presented_token import PresentedToken
from gateway.identity.refusal import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.identity.issuer import AccessTokenIssuer
    from gateway.identity.key_set import KeySet
    from gateway.identity.principal import Principal

NO_TYPE = "absent"
"""The ``token_type`` of an issuer that writes no ``typ`` at all: then there must be none."""


def verify(token: str, issuers: Mapping[str, AccessTokenIssuer], keys: Mapping[str, KeySet], now: float) -> Principal:
    """Verify a token whose issuer's keys (by caller) are at hand. Raises ``Malformed(CREDENTIAL_INVALID)``."""
    presented = read(token, issuers, now)
    return presented.proved_by(keys[presented.issuer.caller])


def read(token: str, issuers: Mapping[str, AccessTokenIssuer], now: float) -> PresentedToken:
    """Check all that can be checked without a key. Raises ``Malformed(CREDENTIAL_INVALID)``."""
    jws = compact_jws.parse(token)
    told = jws.claims
    named = told.get("iss")
    issuer = issuers.get(named) if type(named) is str else None
    if issuer is None:
        raise invalid("iss is no issuer of this plane")
    if jws.header.algorithm not in issuer.algorithms:
        raise invalid("alg is not one of the issuer's algorithms")
    expected = None if issuer.token_type == NO_TYPE else issuer.token_type
    if media_type(jws.header.media_type) != media_type(expected):
        raise invalid("typ is not the issuer's token type")
    expires_at = claims.expiry(told, now, issuer.clock_skew_s)
    claims.check_begun(told, now, issuer.clock_skew_s)
    if not 0 < expires_at - claims.moment(told, "iat") <= issuer.longest_lifetime_s:
        raise invalid("exp is not within the longest lifetime after iat")
    if not claims.names_audience(told, issuer.audience):
        raise invalid("aud does not name this plane")
    token_purpose.check_access_token(told)
    bound_to = confirmation.read(told, issuer.sender)
    # RFC 9068 §2.2 requires iss, exp, aud, sub, client_id, iat and jti; its client_id is whichever claim the policy
    # names as the client's, because Keycloak writes azp under this type too.
    if media_type(issuer.token_type) == "application/at+jwt":
        claims.name(told, "jti")
    client, subject = claims.name(told, issuer.client_claim), claims.name(told, "sub")
    return PresentedToken(issuer, client, subject, expires_at, bound_to, jws)


def media_type(typ: str | None) -> str | None:
    """Write a ``typ`` out as the media type that it stands for.

    RFC 7515 §4.1.9: "application/" is put before a value without a slash. Media types are compared without regard to
    case (RFC 2045 §5.1), and RFC 9068 itself spells "at+jwt" in its text and "at+JWT" in its example.
    """
    if typ is None:
        return None
    lowered = typ.lower()
    return lowered if "/" in lowered else f"application/{lowered}"
