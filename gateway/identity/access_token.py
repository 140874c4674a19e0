"""Whether an access token holds (RFC 9068 §4, RFC 8725 §3).

Enters: the text of a token, the issuers of the plane by ``iss``, the time; then the issuer's keys. Leaves: a
``Principal``. ``read`` makes every check but the signature, cheap before dear, so that a token for somebody else costs
no cryptography and no look-up of keys; ``PresentedToken.proved_by`` makes that one. It fetches nothing: an issuer that
is not configured is not asked, wherever a token points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.identity import claims, compact_jws
from gateway.identity.principal import CredentialKind, Principal
from gateway.identity.refusal import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.identity.compact_jws import CompactJws
    from gateway.identity.issuer import AccessTokenIssuer
    from gateway.identity.key_set import KeySet

# Marks of ID tokens (OpenID Connect Core §2, §3.3.2.11), logout and security event tokens (RFC 8417 §2.2) and DPoP
# proofs (RFC 9449 §4.2): all are signed with the same keys and none is an access token (RFC 8725 §3.11-3.12).
_FOREIGN_MARKS = frozenset({"nonce", "at_hash", "c_hash", "s_hash", "events", "htm", "htu", "ath"})
# Keycloak and Cognito sign ID, refresh and access tokens under one ``typ`` and tell them apart by a claim.
_TELLING_CLAIMS: Mapping[str, str] = {"typ": "bearer", "token_use": "access"}


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """A token that claims the right things and has yet to be proved. It is no ``Principal`` and leads to no answer."""

    issuer: AccessTokenIssuer
    client: str
    subject: str
    expires_at: float
    jws: CompactJws = field(repr=False)

    @property
    def key_id(self) -> str | None:
        """The key that is said to have signed it: an opaque text to look up, and nothing else (RFC 8725 §3.10)."""
        return self.jws.header.key_id

    @property
    def token_id(self) -> str | None:
        """The ``jti``, which a list of revoked tokens may name."""
        value = self.jws.claims.get("jti")
        return value if type(value) is str else None

    def proved_by(self, keys: KeySet) -> Principal:
        """Verify the signature with the issuer's keys. Raises ``Malformed(CREDENTIAL_INVALID)``."""
        header, told, signing_input, signature = self.jws
        key = keys.find(header.key_id, header.algorithm)
        if key is None:
            raise invalid("the issuer has no key of this kid for this alg")
        if not key.verifies(signing_input, signature):
            raise invalid("the signature does not fit")
        issuer = self.issuer
        return Principal(
            caller=issuer.caller,
            kind=CredentialKind.ACCESS_TOKEN,
            id=self.client,
            subject=self.subject,
            groups=claims.groups(told, issuer.groups_claim),
            scopes=claims.scopes(told, issuer.scopes_claim),
            expires_at=self.expires_at,
        )


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
    if media_type(jws.header.media_type) != media_type(issuer.token_type):
        raise invalid("typ is not the issuer's token type")
    _check_time(told, issuer, now)
    if not claims.names_audience(told, issuer.audience):
        raise invalid("aud does not name this plane")
    _check_purpose(told)
    # RFC 9068 §2.2 requires iss, exp, aud, sub, client_id, iat and jti; its client_id is whichever claim the policy
    # names as the client's, because Keycloak writes azp under this type too.
    if media_type(issuer.token_type) == "application/at+jwt":
        claims.name(told, "jti")
    return PresentedToken(
        issuer, claims.name(told, issuer.client_claim), claims.name(told, "sub"), claims.moment(told, "exp"), jws
    )


def media_type(typ: str | None) -> str | None:
    """Write a ``typ`` out as the media type that it stands for.

    RFC 7515 §4.1.9: "application/" is put before a value without a slash. Media types are compared without regard to
    case (RFC 2045 §5.1), and RFC 9068 itself spells "at+jwt" in its text and "at+JWT" in its example.
    """
    if typ is None:
        return None
    lowered = typ.lower()
    return lowered if "/" in lowered else f"application/{lowered}"


def _check_time(told: Mapping[str, Any], issuer: AccessTokenIssuer, now: float) -> None:
    """Check ``exp``, ``iat`` and ``nbf`` (RFC 7519 §4.1.4-4.1.6), allowing for the difference of clocks."""
    expires, issued, skew = claims.moment(told, "exp"), claims.moment(told, "iat"), issuer.clock_skew_s
    if now >= expires + skew:
        raise invalid("exp has passed")
    if issued > now + skew:
        raise invalid("iat lies in the future")
    if not 0 < expires - issued <= issuer.longest_lifetime_s:
        raise invalid("exp is not within the longest lifetime after iat")
    if "nbf" in told and claims.moment(told, "nbf") > now + skew:
        raise invalid("nbf lies in the future")


def _check_purpose(told: Mapping[str, Any]) -> None:
    """Refuse what was signed to be something else than a bearer token."""
    if not _FOREIGN_MARKS.isdisjoint(told):
        raise invalid("a claim marks an ID token, an event or a proof")
    for claim, expected in _TELLING_CLAIMS.items():
        if claim in told and (type(told[claim]) is not str or told[claim].lower() != expected):
            raise invalid(f"{claim} does not say that it is an access token")
    # RFC 9449 §7.1-7.2, RFC 8705 §3: who steals a bound token must not be able to use it without the proof.
    if "cnf" in told:
        raise invalid("the token is bound to a key (cnf) and came without proof of it")
