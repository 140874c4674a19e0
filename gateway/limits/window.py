"""What was used in the last minute, remembered exactly: a log in which each amount stays for its minute and no longer.

Enters: amounts and the time, as whole nanoseconds that never go back. Leaves: what is used, and how long to wait until
more fits. Whole numbers, so that a wait is true. It knows neither what is counted nor for whom.
"""

from __future__ import annotations

from collections import deque

MINUTE_NS = 60_000_000_000

Entry = list[int]
"""An amount in a window and when it leaves; 0 once it has left. A list: nothing else is made as cheaply."""

_AMOUNT, _LEAVES = 0, 1


class Window:
    """The amounts of the last minute; ``used`` is their sum when the time was last told."""

    __slots__ = ("_entries", "used")

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self.used = 0

    def fits(self, amount: int, limit: int, now: int) -> bool:
        """Tell whether an amount fits below a limit; one above the limit fits when all left.

        Otherwise a call that may produce more than a minute allows could never be made.
        """
        entries = self._entries
        while entries and entries[0][_LEAVES] <= now:
            left = entries.popleft()
            left[_LEAVES] = 0
            self.used -= left[_AMOUNT]
        used = self.used
        return not used or used + amount <= limit

    def left(self, limit: int, now: int) -> int:
        """Give what is left of a limit."""
        self.fits(0, limit, now)
        return max(0, limit - self.used)

    def wait(self, amount: int, limit: int, now: int) -> int:
        """Give the time until an amount fits, 0 if it does now."""
        if self.fits(amount, limit, now):
            return 0
        over = self.used + min(amount, limit) - limit
        wait = 0
        for size, leaves in self._entries:
            if over <= 0:
                break
            over -= size
            wait = leaves - now
        return wait

    def add(self, amount: int, now: int) -> Entry:
        """Count an amount; whether it fits is the caller's to ask."""
        entry = [amount, now + MINUTE_NS]
        self._entries.append(entry)
        self.used += amount
        return entry

    def correct(self, entry: Entry, amount: int) -> None:
        """Count another amount in place of what was counted, if that has not left."""
        if entry[_LEAVES]:
            self.used += amount - entry[_AMOUNT]
            entry[_AMOUNT] = amount

    def reset(self, now: int) -> int:
        """Give the time until all have left, if nothing more comes."""
        return max(0, self._entries[-1][_LEAVES] - now) if self._entries else 0
