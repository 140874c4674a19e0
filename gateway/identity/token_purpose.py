"""What a set of claims was made for: an access token, or something else.

Enters: the claims of a token, signed or told by its issuer. Leaves: nothing, or ``Malformed(CREDENTIAL_INVALID)``. An
issuer signs many things with one key, and each is refused here that is not an access token (RFC 8725 §3.11-3.12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.identity.refusal import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

# Marks of ID tokens (OpenID Connect Core §2, §3.3.2.11), logout and security event tokens (RFC 8417 §2.2) and DPoP
# proofs (RFC 9449 §4.2): all are signed with the same keys and none is an access token.
_FOREIGN_MARKS = frozenset({"nonce", "at_hash", "c_hash", "s_hash", "events", "htm", "htu", "ath"})
# Keycloak and Cognito sign ID, refresh and access tokens under one ``typ`` and tell them apart by a claim, which Hydra
# names too when it is asked.
_TELLING_CLAIMS: Mapping[str, frozenset[str]] = {
    "typ": frozenset({"bearer"}),
    "token_use": frozenset({"access", "access_token"}),
}


def check_access_token(told: Mapping[str, Any]) -> None:
    """Refuse what was made to be something else than an access token."""
    if not _FOREIGN_MARKS.isdisjoint(told):
        raise invalid("a claim marks an ID token, an event or a proof")
    for claim, expected in _TELLING_CLAIMS.items():
        if claim in told and (type(told[claim]) is not str or told[claim].lower() not in expected):
            raise invalid(f"{claim} does not say that it is an access token")
