"""Tokens that were verified before, so that a caller pays for a signature once.

Enters: a token with the ``Principal`` that it proved. Leaves: that ``Principal`` again, until it expires. Only proofs
are kept: what failed is judged anew, so that nobody can fill the cache or poison it. Tokens are kept as SHA-256, since
a dump of this process should hold as few live ones as it can. Whoever changes keys or rules must ``clear`` it.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.identity.principal import Principal


class TokenCache:
    """At most ``most`` proofs; the oldest leaves first, because a client's token is soon replaced by its next one.

    ``before``: what stands before the token in the field that brings it. The token is kept under the SHA-256 of both,
    so that the field is known again before anybody takes it apart. ``proofs``: each with the moment of its expiry.
    """

    def __init__(self, before: bytes = b"", most: int = 10_000) -> None:
        self.proofs: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()
        self._before = before
        self._most = most

    def get(self, token: str, now: float) -> Principal | None:
        """Give the principal that this very token proved, until the moment of expiry."""
        return self.of_field(self._key(token), now)

    def of_field(self, field: bytes, now: float) -> Principal | None:
        """Do the same for the SHA-256 of the field that brings it."""
        proof = self.proofs.get(field)
        if proof is None or now >= proof[0]:
            return None
        return proof[1]

    def put(self, token: str, principal: Principal) -> None:
        """Keep a proof that has an end; one without an end is not kept."""
        if principal.expires_at is None:
            return
        self.proofs[self._key(token)] = (float(principal.expires_at), principal)
        if len(self.proofs) > self._most:
            self.proofs.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self.proofs.clear()

    def _key(self, token: str) -> bytes:
        return sha256(self._before + token.encode()).digest()

    def __len__(self) -> int:
        return len(self.proofs)
