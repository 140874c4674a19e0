"""Which replica a request goes to.

Enters: the replicas of an engine and the mark of a request. Leaves: one of them, or none. Requests of one client that
begin alike go to one replica, where the beginning is in the prefix cache already, as long as that one is not busier
than the least busy by more than ``slack``; all others go where the fewest are open.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.engine.replica import Replica

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

R = TypeVar("R", bound=Replica)
"""A replica, with whatever its adapter knows besides."""

LOOKED_AT = 2048
"""Characters of a first message that tell it from others: what is alike so far is worth keeping together."""


def mark(client: str, body: Mapping[str, Any]) -> bytes | None:
    """Give what is alike in requests that begin alike: the client and the first message; ``None`` without one."""
    first = body.get("system") or body.get("instructions")
    messages = body.get("messages")
    if not first and isinstance(messages, list) and messages and isinstance(messages[0], dict):
        first = messages[0].get("content")
    if not first:
        return None
    text = first if isinstance(first, str) else repr(first)
    return f"{client}\n{text[:LOOKED_AT]}".encode("utf-8", "surrogatepass")


def choose(replicas: Sequence[R], mark: bytes | None, slack: int, tried: Collection[R] = ()) -> R | None:
    """Choose among the replicas whose circuit is closed, without those that were ``tried``; ``None``: there is none."""
    fit = [replica for replica in replicas if replica.circuit.closed and replica not in tried]
    if len(fit) < 2:  # noqa: PLR2004  (nothing to choose)
        return fit[0] if fit else None
    if mark is not None:
        favourite = max(fit, key=lambda replica: _weight(mark, replica.name))
        if favourite.in_flight <= min(replica.in_flight for replica in fit) + slack:
            return favourite
    return min(fit, key=lambda replica: (replica.in_flight, replica.sent))


def _weight(mark: bytes, name: str) -> bytes:
    """Weigh a replica for a mark (rendezvous hashing): one that leaves or comes back moves no other's requests."""
    return blake2b(mark, digest_size=8, key=blake2b(name.encode(), digest_size=32).digest()).digest()
