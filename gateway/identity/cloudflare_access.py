"""Whether an assertion of Cloudflare Access holds: the field ``Cf-Access-Jwt-Assertion``.

Enters: the text of an assertion, the Access applications that the plane trusts, the time; then the team's keys. Leaves:
a ``Principal``. All applications of a team share one pair of keys, so the audience tag alone tells them apart. A person
is known by ``sub``, a service token by its ``common_name``; an e-mail address is no identity. It fetches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.identity import claims, compact_jws
from gateway.identity.access_token import media_type
from gateway.identity.presented_token import PresentedToken
from gateway.identity.refusal import invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gateway.identity.issuer import CloudflareAccess

CLOCK_SKEW_S = 30
"""How far Cloudflare's clock may differ from ours."""

_ALGORITHM = "RS256"


def read(assertion: str, applications: Collection[CloudflareAccess], now: float) -> PresentedToken:
    """Check all that can be checked without a key. Raises ``Malformed(CREDENTIAL_INVALID)``."""
    jws = compact_jws.parse(assertion)
    told = jws.claims
    application = _addressed(told, applications)
    if jws.header.algorithm != _ALGORITHM or media_type(jws.header.media_type) != "application/jwt":
        raise invalid("an assertion has alg RS256 and typ JWT")
    if jws.header.key_id is None:
        raise invalid("an assertion names its key")
    # "org" is the session of the whole team, which says nothing about this application.
    if told.get("type") != "app":
        raise invalid("type does not say that it is for an application")
    expires_at = claims.expiry(told, now, CLOCK_SKEW_S)
    claims.check_begun(told, now, CLOCK_SKEW_S)
    if expires_at <= claims.moment(told, "iat"):
        raise invalid("exp is not after iat")
    identity = _identity(told)
    return PresentedToken(application, identity, identity, expires_at, None, jws)


def _addressed(told: Mapping[str, Any], applications: Collection[CloudflareAccess]) -> CloudflareAccess:
    """Find the one application that an assertion is meant for."""
    of_team = [application for application in applications if application.issuer == told.get("iss")]
    if not of_team:
        raise invalid("iss is no Access team of this plane")
    meant = [application for application in of_team if claims.names_audience(told, application.audience)]
    if len(meant) != 1:
        raise invalid("aud names two Access applications of this plane" if meant else "aud names no application here")
    return meant[0]


def _identity(told: Mapping[str, Any]) -> str:
    """Give the immutable id: of a person, or of the service token where ``sub`` is an empty text.

    The empty text itself would be one person whom all service tokens share.
    """
    return claims.name(told, "common_name" if told.get("sub") == "" else "sub")
