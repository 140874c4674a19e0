"""A signed token whose claims are right and whose signature is yet to be verified.

Enters: what ``access_token.read`` or ``cloudflare_access.read`` found; then the issuer's keys. Leaves: a ``Principal``,
which only a signature that fits can give. It is no ``Principal`` itself and leads to no answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.identity import claims
from gateway.identity.principal import Principal
from gateway.identity.refusal import invalid

if TYPE_CHECKING:
    from gateway.identity.compact_jws import CompactJws
    from gateway.identity.confirmation import Confirmation
    from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess
    from gateway.identity.key_set import KeySet


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """A token that claims the right things: who vouches for whom, until when (Unix time in seconds), with which key."""

    issuer: AccessTokenIssuer | CloudflareAccess
    id: str
    subject: str
    expires_at: float
    bound_to: Confirmation | None
    jws: CompactJws = field(repr=False)

    @property
    def key_id(self) -> str | None:
        """The key that is said to have signed it: an opaque text to look up, and nothing else (RFC 8725 §3.10)."""
        return self.jws.header.key_id

    @property
    def token_id(self) -> str | None:
        """The ``jti``, which a list of revoked tokens may name."""
        return claims.token_id(self.jws.claims)

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
            kind=issuer.kind,
            id=self.id,
            subject=self.subject,
            groups=claims.groups(told, issuer.groups_claim),
            scopes=claims.scopes(told, issuer.scopes_claim),
            expires_at=self.expires_at,
            bound_to=self.bound_to,
        )
