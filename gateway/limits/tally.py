"""The arithmetic of one holder's limits: requests and tokens of the last minute, tokens of the UTC day, open requests.

Enters: a limit, amounts and the time. Leaves: leases, or refusals with the wait. A minute is any sixty seconds, not one
of the clock's, so nobody gets twice the limit around its turn; refused requests of a full minute are not counted, so
who asks too often still gets the whole limit. When a place will be free is estimated from how long places were held
before. It keeps numbers and asks nobody.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING

from gateway.limits.ledger import MINUTE_US, SECOND_US, Holder, Lease, Quota, Refused
from gateway.limits.window import MINUTE_NS, Window
from gateway.reasons import Reason

if TYPE_CHECKING:
    from gateway.limits.limit import Limit

DAY_US = 86_400 * SECOND_US
LEARNS = 8
"""The last call counts for one in so many of the mean, as a round trip does in that of RFC 6298 §2."""

_NS = 1000  # in a microsecond
_DAY_NS = DAY_US * _NS


class Tally:
    """The numbers of one holder. ``now`` is in nanoseconds and never goes back; ``unix`` is Unix time in them.

    Limits come with each call, so that a reloaded policy holds at once and nothing counted is forgotten.
    """

    __slots__ = ("_begun", "_leaving", "_mean_us", "_midnight", "_spent", "_tokens")

    def __init__(self) -> None:
        self._leaving: deque[int] = deque()  # of each request of the last minute, when it leaves it
        self._tokens = Window()
        self._midnight = 0  # of the day in which ``_spent`` was spent, when it ends
        self._spent = 0
        self._begun: dict[Lease, int] = {}  # of each open request, since when; the oldest is the first
        self._mean_us = 0  # that a place was held, the last ones most; 0 while none was freed

    @property
    def open(self) -> int:
        """Requests that hold a place."""
        return len(self._begun)

    def count(self, limit: Limit, now: int) -> None:
        """Count a request that is refused for another reason; in a full minute, it makes no difference."""
        if self._counted(now) < limit.requests_per_minute:
            self._leaving.append(now + MINUTE_NS)

    def enter(self, holder: Holder, limit: Limit, now: int) -> Lease | Refused:
        """Count a request and give it a place."""
        leaving = self._leaving
        while leaving and leaving[0] <= now:
            leaving.popleft()
        left = limit.requests_per_minute - len(leaving)
        if left <= 0:
            return Refused(Reason.OVER_RATE, self.rate_us(limit, now), self._requests(limit, now))
        leaving.append(now + MINUTE_NS)
        begun = self._begun
        if len(begun) >= limit.concurrent_requests:
            wait = max(self._place_us(now), self.rate_us(limit, now))
            return Refused(Reason.OVER_CONCURRENCY, wait, self._requests(limit, now))
        lease = Lease(holder, limit, left - 1)
        begun[lease] = now
        return lease

    def reserve(self, lease: Lease, amount: int, now: int, unix: int) -> Refused | None:
        """Count the most that a call can use, in the minute and on the day in which it begins."""
        limit, tokens, midnight = lease.limit, self._tokens, self._midnight
        per_minute, per_day = limit.tokens_per_minute, limit.tokens_per_day
        if not midnight - _DAY_NS <= unix < midnight:
            self._midnight = midnight = (unix // _DAY_NS + 1) * _DAY_NS
            self._spent = 0
        spent = self._spent
        if amount and (
            (per_minute is not None and not tokens.fits(amount, per_minute, now))
            or (per_day is not None and spent and spent + amount > per_day)
        ):
            return self._over_tokens(limit, lease.requests, amount, now, unix)
        self._spent = spent = spent + amount
        lease.reserved = amount
        lease.on_day = midnight
        if per_minute is not None:
            lease.entry = tokens.add(amount, now)
            left = per_minute - tokens.used
            lease.minute_left = left if left > 0 else 0  # noqa: FURB136  (a call costs more)
        if per_day is not None:
            lease.day_left = max(0, per_day - spent)
            lease.day_reset_us = (midnight - unix) // _NS
        return None

    def told(self, refused: Refused, limit: Limit, now: int, unix: int) -> Refused:
        """Say what is left of tokens, too, to who was not let in."""
        minute, day = self._quotas(limit, now, unix)
        return refused._replace(minute=minute, day=day)

    def refusal(self, limit: Limit, amount: int, now: int, unix: int) -> Refused | None:
        """Say why a call has no room here, if it has none; of several limits, the longest wait. Nothing is counted."""
        requests = self._requests(limit, now)
        rate = self.rate_us(limit, now)
        refusals = [Refused(Reason.OVER_RATE, rate, requests)] if rate else []
        if self.open >= limit.concurrent_requests:
            refusals.append(Refused(Reason.OVER_CONCURRENCY, self._place_us(now), requests))
        if amount and (over := self._over_tokens(limit, requests, amount, now, unix)).wait_us:
            refusals.append(over)
        return max(refusals, key=attrgetter("wait_us"), default=None)

    def over_tokens(self, lease: Lease, amount: int, now: int, unix: int) -> Refused | None:
        """Say why ``reserve`` would refuse, if it would. Nothing is counted."""
        over = self._over_tokens(lease.limit, lease.requests, amount, now, unix)
        return over if amount and over.wait_us else None

    def rate_us(self, limit: Limit, now: int) -> int:
        """Give the time until one more request fits."""
        over = self._counted(now) - limit.requests_per_minute
        return _us(self._leaving[over] - now) if over >= 0 else 0

    def settle(self, lease: Lease, amount: int, now: int) -> None:
        """Free the place and count what was used, where the reservation was counted; later minutes owe nothing."""
        if lease.settled:
            return
        lease.settled = True
        held, mean = -((self._begun.pop(lease) - now) // _NS), self._mean_us
        self._mean_us = mean + (held - mean) // LEARNS if mean else held
        if lease.entry is not None:
            self._tokens.correct(lease.entry, amount)
        if lease.on_day == self._midnight:
            self._spent += amount - lease.reserved

    def idle(self, now: int, unix: int) -> bool:
        """Tell whether nothing that is remembered makes a difference any more."""
        return not (
            self._begun or self._counted(now) or self._tokens.reset(now) or (self._spent and unix < self._midnight)
        )

    def _counted(self, now: int) -> int:
        leaving = self._leaving
        while leaving and leaving[0] <= now:
            leaving.popleft()
        return len(leaving)

    def _place_us(self, now: int) -> int:
        """Estimate the time until the first of the open requests ends, if they take as long as earlier ones.

        That is what the oldest has left. Of one that takes longer already nothing is known but that it may end at any
        time: the first of c calls that began at any time ends after the (c + 1)th part of what one takes, on average.
        Within a second and a minute: below is no ``Retry-After``, and the SDKs of OpenAI do not wait for more.
        """
        mean, begun = self._mean_us, self._begun
        left = mean - (now - next(iter(begun.values()), now)) // _NS
        return min(MINUTE_US, max(SECOND_US, left, mean // (len(begun) + 1)))

    def _requests(self, limit: Limit, now: int) -> Quota:
        most, counted = limit.requests_per_minute, self._counted(now)
        return Quota(most, max(0, most - counted), _us(self._leaving[-1] - now) if counted else 0)

    def _over_tokens(self, limit: Limit, requests: Quota, amount: int, now: int, unix: int) -> Refused:
        """Say how long an amount has to wait, if it has to: until one more request fits as well."""
        wait = 0
        if limit.tokens_per_minute is not None:
            wait = _us(self._tokens.wait(amount, limit.tokens_per_minute, now))
        minute, day = self._quotas(limit, now, unix)
        if day is not None and day.left < day.limit and amount > day.left:
            wait = max(wait, day.reset_us)
        if wait:
            wait = max(wait, self.rate_us(limit, now))
        return Refused(Reason.OVER_TOKENS, wait, requests, minute, day)

    def _quotas(self, limit: Limit, now: int, unix: int) -> tuple[Quota | None, Quota | None]:
        """Say what is left of the tokens of the minute and of the day, where they are limited."""
        minute = day = None
        if limit.tokens_per_minute is not None:
            left = self._tokens.left(limit.tokens_per_minute, now)
            minute = Quota(limit.tokens_per_minute, left, _us(self._tokens.reset(now)))
        if limit.tokens_per_day is not None:
            spent = self._spent if unix < self._midnight else 0
            day = Quota(limit.tokens_per_day, max(0, limit.tokens_per_day - spent), _us(_DAY_NS - unix % _DAY_NS))
        return minute, day


def _us(ns: int) -> int:
    return -(-ns // _NS)
