"""Who calls: from the credential of a request to a ``Principal``, for one plane.

Enters: a compiled plane, the key sets of the app; then credentials. Leaves: a ``Principal``, or ``Malformed`` and
``Unavailable`` as the verifiers raise them. One instance lives as long as its plane: a new policy gets a new one with
an empty cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.identity import access_token, api_key
from gateway.identity.issuer import AccessTokenIssuer
from gateway.identity.principal import CredentialKind, Principal
from gateway.identity.refusal import invalid
from gateway.identity.token_cache import TokenCache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.adapters.key_sets import KeySets
    from gateway.identity.credential import Credential
    from gateway.policy.model import Plane


def issuers_of(plane: Plane) -> Mapping[str, str]:
    """Give the issuers whose keys a plane needs, by caller: what ``KeySets.keep`` is told of all planes together."""
    return {name: trust.issuer for name, trust in plane.callers.items() if isinstance(trust, AccessTokenIssuer)}


class Authenticator:
    """Verifies the credentials of one plane. ``key_sets`` keeps the keys of its issuers already."""

    def __init__(self, plane: Plane, key_sets: KeySets) -> None:
        keys = {key.sha256: client.caller for client in plane.clients.values() for key in client.keys}
        self._edge = plane.edge is not None
        self._key_principals = {
            sha256: Principal(caller, CredentialKind.API_KEY, sha256) for sha256, caller in keys.items()
        }
        trusted = [trust for trust in plane.callers.values() if isinstance(trust, AccessTokenIssuer)]
        self._issuers = {trust.issuer: trust for trust in trusted}
        self._keys = {trust.caller: key_sets.of(trust.caller) for trust in trusted}
        self._key_sets = key_sets
        self._generation = key_sets.generation
        self._cache = TokenCache()

    def known(self, credential: Credential, now: float) -> Principal | None:
        """Give the principal of a key of the policy or of a token verified before; ``None`` says: ``identify`` it."""
        if self._edge:
            return None
        if credential.kind is CredentialKind.API_KEY:
            return self._key_principals.get(credential.sha256 or "")
        self._forget_if_keys_changed()
        return self._cache.get(credential.text, now)

    async def identify(self, credential: Credential, now: float) -> Principal:
        """Verify a credential. Raises ``Malformed(CREDENTIAL_INVALID)`` or ``Unavailable(KEYS_UNAVAILABLE)``."""
        if self._edge:
            # A lock that is written in the policy and not turned is worse than none: nobody passes.
            raise invalid("trust.edge is not served by this version")
        if credential.kind is CredentialKind.API_KEY:
            return self._key_principal(credential)
        if credential.kind is not CredentialKind.ACCESS_TOKEN:
            raise invalid(f"callers of the kind {credential.kind.value} are not served by this version")
        presented = access_token.read(credential.text, self._issuers, now)
        keys = await self._keys[presented.issuer.caller].keys_for(presented.key_id)
        principal = presented.proved_by(keys)
        self._forget_if_keys_changed()
        self._cache.put(credential.text, principal)
        return principal

    def _forget_if_keys_changed(self) -> None:
        """Forget all proofs after any change of keys: a key may have been withdrawn because somebody stole it."""
        if self._generation != self._key_sets.generation:
            self._cache.clear()
            self._generation = self._key_sets.generation

    def _key_principal(self, credential: Credential) -> Principal:
        principal = self._key_principals.get(credential.sha256 or "")
        if principal is not None:
            return principal
        if api_key.has_valid_checksum(credential.text):
            raise invalid("a key of the gateway's form that the policy does not hold")
        if credential.text.startswith(api_key.PREFIX):
            raise invalid("a key with a wrong checksum: mistyped or cut off")
        raise invalid("neither a token of an issuer nor a key of the policy")
