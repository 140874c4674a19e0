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
    """At most ``most`` proofs; the oldest leaves first, because a client's token is soon replaced by its next one."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._proofs: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    def get(self, token: str, now: float) -> Principal | None:
        """Give the principal that this very token proved, until the moment of expiry."""
        proof = self._proofs.get(sha256(token.encode()).digest())
        if proof is None or now >= proof[0]:
            return None
        return proof[1]

    def put(self, token: str, principal: Principal) -> None:
        """Keep a proof that has an end; one without an end is not kept."""
        if principal.expires_at is None:
            return
        self._proofs[sha256(token.encode()).digest()] = (principal.expires_at, principal)
        if len(self._proofs) > self._most:
            self._proofs.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._proofs.clear()

    def __len__(self) -> int:
        return len(self._proofs)
