"""Who calls: from the credential of a request to a ``Principal``, for one plane.

Enters: a compiled plane, and what outlives it: the key sets, the introspector, the list of revoked tokens; then
credentials. Leaves: a ``Principal``, or ``Malformed`` and ``Unavailable`` as the verifiers raise them. A new policy
gets a new one with empty caches.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from gateway.identity import access_token, api_key, cloudflare_access
from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess, IntrospectionIssuer
from gateway.identity.principal import CredentialKind, Principal
from gateway.identity.refusal import invalid
from gateway.identity.token_cache import TokenCache
from gateway.policy.compile_trust import EDGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.adapters.introspection import Introspector
    from gateway.adapters.key_sets import KeySets
    from gateway.adapters.revoked_file import RevokedFile
    from gateway.identity.credential import Credential
    from gateway.identity.presented_token import PresentedToken
    from gateway.policy.model import Plane

BEARER = b"Bearer "
"""The one spelling of the scheme by which a field is recognized as it is; any other is read first."""

_ACCESS_TOKEN = CredentialKind.ACCESS_TOKEN  # looked up once: nearly every request brings one


def signers_of(plane: Plane) -> Mapping[str, AccessTokenIssuer | CloudflareAccess]:
    """Give those whose keys a plane needs, by caller: what ``KeySets.keep`` is told of all planes together."""
    trusted = dict(plane.callers) if plane.edge is None else {**plane.callers, EDGE: plane.edge}
    return {name: trust for name, trust in trusted.items() if isinstance(trust, AccessTokenIssuer | CloudflareAccess)}


class Authenticator:
    """Verifies the credentials of one plane. ``key_sets`` keeps the keys of its issuers already."""

    def __init__(self, plane: Plane, key_sets: KeySets, introspector: Introspector, revoked: RevokedFile) -> None:
        keys = {key.sha256: client.caller for client in plane.clients.values() for key in client.keys}
        self._key_principals = {
            sha256: Principal(caller, CredentialKind.API_KEY, sha256) for sha256, caller in keys.items()
        }
        callers = plane.callers.values()
        self._edge = plane.edge
        self._issuers = {trust.issuer: trust for trust in callers if isinstance(trust, AccessTokenIssuer)}
        self._applications = [trust for trust in callers if isinstance(trust, CloudflareAccess)]
        self._asked = next((trust for trust in callers if isinstance(trust, IntrospectionIssuer)), None)
        self._keys = {caller: key_sets.of(caller) for caller in signers_of(plane)}
        self._key_sets = key_sets
        self._introspector = introspector
        self._revoked = revoked
        self._keys_seen, self._list_seen = key_sets.generation, revoked.generation
        # One for each kind: an assertion that was verified as one is no access token.
        self._tokens, self._assertions, self._locks = TokenCache(BEARER), TokenCache(), TokenCache()
        self.known_fields = self._tokens.proofs.keys()

    def recognize(self, field: bytes, now: float) -> Principal | None:
        """Give the principal of a token verified before, by the SHA-256 of its field; never on a plane with an edge."""
        self._forget_if_things_changed()
        return None if self._edge is not None else self._tokens.of_field(field, now)

    def known(self, credential: Credential, now: float) -> Principal | None:
        """Give the principal of a key of the policy or of a token verified before; ``None`` says: ``identify`` it."""
        self._forget_if_things_changed()
        if self._edge is not None and self._locks.get(credential.assertion or "", now) is None:
            return None
        kind = credential.kind
        if kind is _ACCESS_TOKEN:
            return self._tokens.get(credential.text, now)
        if kind is CredentialKind.CLOUDFLARE_ACCESS:
            return self._assertions.get(credential.text, now)
        if kind is CredentialKind.INTROSPECTION:
            return self._said_before(credential, now)
        return None if self._is_revoked(credential.sha256) else self._key_principals.get(credential.sha256 or "")

    async def identify(self, credential: Credential, now: float) -> Principal:
        """Verify a credential. Raises ``Malformed(CREDENTIAL_INVALID)`` or ``Unavailable(KEYS_UNAVAILABLE)``."""
        if self._edge is not None:
            await self.open_edge(credential.assertion or "", now)
        if credential.kind is CredentialKind.API_KEY:
            return self._key_principal(credential)
        if credential.kind is CredentialKind.INTROSPECTION:
            return await self._asked_about(credential, now)
        if credential.kind is CredentialKind.CLOUDFLARE_ACCESS:
            presented = cloudflare_access.read(credential.text, self._applications, now)
            return await self._proved(presented, credential.text, self._assertions)
        presented = access_token.read(credential.text, self._issuers, now)
        return await self._proved(presented, credential.text, self._tokens)

    async def open_edge(self, assertion: str, now: float) -> None:
        """Verify that a request came through our own front. Raises as ``identify`` does."""
        self._forget_if_things_changed()
        if self._edge is not None and self._locks.get(assertion, now) is None:
            presented = cloudflare_access.read(assertion, (self._edge,), now)
            await self._proved(presented, assertion, self._locks)

    async def _proved(self, presented: PresentedToken, text: str, cache: TokenCache) -> Principal:
        """Verify a signature and remember it."""
        keys = await self._keys[presented.issuer.caller].keys_for(presented.key_id)
        principal = presented.proved_by(keys)
        self._forget_if_things_changed()
        if self._revoked.revoked.names(text, presented.token_id):
            raise invalid("the token is revoked")
        cache.put(text, principal)
        return principal

    def _said_before(self, credential: Credential, now: float) -> Principal | None:
        if self._asked is None or credential.sha256 is None:
            return None
        active = self._introspector.known(self._asked, credential.sha256, now)
        if active is None or self._is_revoked(credential.sha256, active.token_id):
            return None
        return active.principal

    async def _asked_about(self, credential: Credential, now: float) -> Principal:
        digest = credential.sha256 or sha256(credential.text.encode()).hexdigest()
        if self._asked is None or self._is_revoked(digest):
            raise invalid("the token is revoked" if self._asked else "this plane asks nobody about tokens")
        active = await self._introspector.ask(self._asked, credential.text, digest, now)
        if self._is_revoked(active.token_id):
            raise invalid("the token is revoked")
        return active.principal

    def _is_revoked(self, *names: str | None) -> bool:
        entries = self._revoked.revoked.entries
        return bool(entries) and any(name in entries for name in names)

    def _forget_if_things_changed(self) -> None:
        """Forget all proofs after any change of keys or revoked tokens: somebody may have been shut out by it."""
        if self._keys_seen != self._key_sets.generation or self._list_seen != self._revoked.generation:
            self._keys_seen, self._list_seen = self._key_sets.generation, self._revoked.generation
            for cache in (self._tokens, self._assertions, self._locks):
                cache.clear()

    def _key_principal(self, credential: Credential) -> Principal:
        principal = self._key_principals.get(credential.sha256 or "")
        if self._is_revoked(credential.sha256):
            raise invalid("the key is revoked")
        if principal is not None:
            return principal
        if api_key.has_valid_checksum(credential.text):
            raise invalid("a key of the gateway's form that the policy does not hold")
        if credential.text.startswith(api_key.PREFIX):
            raise invalid("a key with a wrong checksum: mistyped or cut off")
        raise invalid("neither a token of an issuer nor a key of the policy")
