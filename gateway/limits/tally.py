"""The arithmetic of one holder's limits: requests and tokens of the last minute, tokens of the UTC day, open requests.

Enters: a limit, amounts and the time. Leaves: leases, or refusals with the wait. A minute is any sixty seconds, not one
of the clock's, so nobody gets twice the limit around its turn; refused requests of a full minute are not counted, so
who asks too often still gets the whole limit. It keeps numbers and asks nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.limits.ledger import SECOND_US, Holder, Lease, Quota, Refused
from gateway.limits.window import Window
from gateway.reasons import Reason

if TYPE_CHECKING:
    from gateway.limits.limit import Limit

DAY_US = 86_400 * SECOND_US


class Tally:
    """The numbers of one holder. ``now`` is in microseconds and never goes back; ``unix`` is Unix time in them.

    Limits come with each call, so that a reloaded policy holds at once and nothing counted is forgotten.
    """

    __slots__ = ("_day", "_requests", "_spent", "_tokens", "open")

    def __init__(self) -> None:
        self._requests = Window()
        self._tokens = Window()
        self._day = 0
        self._spent = 0
        self.open = 0

    def count(self, limit: Limit, now: int) -> None:
        """Count a request that is refused for another reason; in a full minute, it makes no difference."""
        if not self._requests.wait_us(1, limit.requests_per_minute, now):
            self._requests.add(1, now)

    def enter(self, holder: Holder, limit: Limit, now: int) -> Lease | Refused:
        """Count a request and give it a place."""
        requests = self._requests
        most = limit.requests_per_minute
        wait = requests.wait_us(1, most, now)
        if wait:
            return Refused(Reason.OVER_RATE, wait, _left(requests, most, now))
        requests.add(1, now)
        if self.open >= limit.concurrent_requests:
            wait = max(SECOND_US, requests.wait_us(1, most, now))
            return Refused(Reason.OVER_CONCURRENCY, wait, _left(requests, most, now))
        self.open += 1
        return Lease(holder, limit, _left(requests, most, now))

    def reserve(self, lease: Lease, amount: int, now: int, unix: int) -> Refused | None:
        """Count the most that a call can use, in the minute and on the day in which it begins."""
        limit = lease.limit
        day, into_day = divmod(unix, DAY_US)
        if day != self._day:
            self._day = day
            self._spent = 0
        wait = 0
        if limit.tokens_per_minute is not None:
            wait = self._tokens.wait_us(amount, limit.tokens_per_minute, now)
        per_day = limit.tokens_per_day
        if per_day is not None and self._spent + min(amount, per_day) > per_day:
            wait = max(wait, DAY_US - into_day)
        if not wait:
            lease.reserved = amount
            lease.on_day = day
            self._spent += amount
            if limit.tokens_per_minute is not None:
                lease.entry = self._tokens.add(amount, now)
        if limit.tokens_per_minute is not None:
            lease.minute = _left(self._tokens, limit.tokens_per_minute, now)
        if limit.tokens_per_day is not None:
            lease.day = Quota(limit.tokens_per_day, max(0, limit.tokens_per_day - self._spent), DAY_US - into_day)
        return Refused(Reason.OVER_TOKENS, wait, lease.requests, lease.minute, lease.day) if wait else None

    def settle(self, lease: Lease, amount: int) -> None:
        """Free the place and count what was used, where the reservation was counted; later minutes owe nothing."""
        if lease.settled:
            return
        lease.settled = True
        self.open -= 1
        if lease.entry is not None:
            self._tokens.correct(lease.entry, amount)
        if lease.on_day == self._day:
            self._spent += amount - lease.reserved

    def idle(self, now: int, unix: int) -> bool:
        """Tell whether nothing that is remembered makes a difference any more."""
        return not (
            self.open
            or self._requests.reset_us(now)
            or self._tokens.reset_us(now)
            or (self._spent and self._day == unix // DAY_US)
        )


def _left(window: Window, limit: int, now: int) -> Quota:
    return Quota(limit, max(0, limit - window.used), window.reset_us(now))
