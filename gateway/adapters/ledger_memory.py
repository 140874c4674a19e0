"""The ledger of one process, in its memory: exact, free, and forgotten when the process ends.

Enters: holders and limits. Leaves: leases and refusals, at once. What no longer makes a difference is forgotten a
little with each request, so that memory follows who was here lately and not who ever was.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from gateway.limits.ledger import Lease
from gateway.limits.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.limits.ledger import Holder, Refused, Share
    from gateway.limits.limit import Limit

LOOKED_AT = 2
"""Holders that are looked at with each request, and forgotten if they are idle: more than can come with one."""


class MemoryLedger:
    """The ``Ledger`` of one process.

    ``ticks`` never go back; ``unix`` tells the day; both in nanoseconds.
    """

    def __init__(self, ticks: Callable[[], int] = time.monotonic_ns, unix: Callable[[], int] = time.time_ns) -> None:
        self._ticks = ticks
        self._unix = unix
        self._tallies: OrderedDict[Holder, Tally] = OrderedDict()

    @property
    def open(self) -> Mapping[tuple[str, str], int]:
        """Requests under way, by plane and client."""
        places: Counter[tuple[str, str]] = Counter()
        for holder, tally in self._tallies.items():
            if holder.model is None:
                places[holder[:2]] += tally.open
        return places

    def count(self, holder: Holder, limit: Limit) -> None:
        """Count a request that is refused already."""
        now = self._ticks()
        self._tally(holder, now).count(limit, now)

    def enter(self, holder: Holder, limit: Limit) -> Lease | Refused:
        """Let a request in, or not."""
        now = self._ticks()
        tally = self._tallies.get(holder) or self._tally(holder, now)
        answer = tally.enter(holder, limit, now)
        return answer if isinstance(answer, Lease) else tally.told(answer, limit, now, self._unix())

    def reserve(self, lease: Lease, tokens: int, model: Share | None = None) -> Refused | None:
        """Count the most that a call can use."""
        tally, now, unix = self._tallies[lease.holder], self._ticks(), self._unix()
        if model is None:
            return tally.reserve(lease, tokens, now, unix)
        holder, limit = model
        shared = self._tally(holder, now)
        own, theirs = tally.over_tokens(lease, tokens, now, unix), shared.refusal(limit, tokens, now, unix)
        if theirs is not None and (own is None or own.wait_us < theirs.wait_us):
            return theirs._replace(shared=True, wait_us=max(theirs.wait_us, tally.rate_us(lease.limit, now)))
        if own is not None:
            return own
        taken = shared.enter(holder, limit, now)
        if isinstance(taken, Lease):
            lease.shared = taken
            shared.reserve(taken, tokens, now, unix)
        return tally.reserve(lease, tokens, now, unix)

    def settle(self, lease: Lease, tokens: int) -> None:
        """Free the place and count what was used; the holder of a lease that is not settled is never forgotten."""
        if not lease.settled:
            now = self._ticks()
            self._tallies[lease.holder].settle(lease, tokens, now)
            if lease.shared is not None:
                self._tallies[lease.shared.holder].settle(lease.shared, tokens, now)

    def _tally(self, holder: Holder, now: int) -> Tally:
        tallies = self._tallies
        tally = tallies.get(holder)
        if tally is None:
            tally = Tally()
            self._forget(now)
            tallies[holder] = tally
        return tally

    def _forget(self, now: int) -> None:
        """Look at those that nobody looked at for longest; who is not idle goes behind the others."""
        unix = self._unix()
        for _ in range(min(LOOKED_AT, len(self._tallies))):
            holder, tally = self._tallies.popitem(last=False)
            if not tally.idle(now, unix):
                self._tallies[holder] = tally

    def __len__(self) -> int:
        return len(self._tallies)
