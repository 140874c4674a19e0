"""The port of whoever keeps the numbers, and the values that cross it.

Enters: whose request it is and what it may use. Leaves: a ``Lease``, or ``Refused`` with a wait that is true. A lease
is held from admission to the last byte of the answer; ``settle`` is called once for each, whatever happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from gateway.limits.limit import Limit
    from gateway.limits.window import Entry
    from gateway.reasons import Reason

SECOND_US = 1_000_000


class Holder(NamedTuple):
    """Whose limits these are: a client of a plane, or one person of it.

    A tuple, never a text put together: no name can be chosen so that it runs into another.
    """

    plane: str
    client: str
    subject: str | None = None


class Quota(NamedTuple):
    """One limit, what is left of it, and the time until all of it is there again, if nothing more comes."""

    limit: int
    left: int
    reset_us: int


class Refused(NamedTuple):
    """A limit was reached. Who waits ``wait_us`` is admitted, if nobody else of this holder comes first.

    For open requests the wait is a guess, since nobody knows when a stream ends.
    """

    reason: Reason
    wait_us: int
    requests: Quota
    minute: Quota | None = None
    day: Quota | None = None

    @property
    def retry_after(self) -> int:
        """Whole seconds, rounded up, as ``Retry-After`` wants them (RFC 9110 §10.2.3)."""
        return max(1, -(-self.wait_us // SECOND_US))


@dataclass(slots=True, eq=False)
class Lease:
    """A request that was let in: it counts in its minute, and is one of the open ones until it is settled.

    ``reserved``: the tokens counted for it so far, on the UTC day number ``on_day``. ``minute`` and ``day`` say what is
    left of tokens, where they are limited. ``id`` and ``entry`` are the ledger's own marks.
    """

    holder: Holder
    limit: Limit
    requests: Quota
    id: str = ""
    reserved: int = 0
    minute: Quota | None = None
    day: Quota | None = None
    on_day: int = 0
    entry: Entry | None = None
    settled: bool = False


class Ledger(Protocol):
    """Keeps the numbers. Every method raises ``Unavailable(LEDGER_UNAVAILABLE)`` within a bounded time, but ``settle``.

    A ledger that cannot be asked lets nobody in.
    """

    async def count(self, holder: Holder, limit: Limit) -> None:
        """Count a request that was authenticated and is refused already."""

    async def enter(self, holder: Holder, limit: Limit) -> Lease | Refused:
        """Let a request in, if its minute has room and a place is free; it counts even if no place is."""

    async def reserve(self, lease: Lease, tokens: int) -> Refused | None:
        """Count the most that a call can use, before it is made."""

    async def settle(self, lease: Lease, tokens: int) -> None:
        """Free the place, and count what was used in place of what was reserved; a second time does nothing."""
