"""What was used in the last minute, remembered exactly: a log in which each amount stays for its minute and no longer.

Enters: amounts and the time, as whole microseconds that never go back. Leaves: what is used, and how long to wait until
more fits. Whole numbers, so that a wait is true to the microsecond. It knows neither what is counted nor for whom.
"""

from __future__ import annotations

from collections import deque

MINUTE_US = 60_000_000


class Entry:
    """One amount in a window, and when it leaves; 0 once it has left."""

    __slots__ = ("amount", "leaves")

    def __init__(self, amount: int, leaves: int) -> None:
        self.amount = amount
        self.leaves = leaves


class Window:
    """The amounts of the last minute; ``used`` is their sum when the time was last told."""

    __slots__ = ("_entries", "used")

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self.used = 0

    def wait_us(self, amount: int, limit: int, now: int) -> int:
        """Give the time until an amount fits below a limit, 0 if it does now; one above the limit fits when all left.

        Otherwise a call that may produce more than a minute allows could never be made.
        """
        entries = self._entries
        while entries and entries[0].leaves <= now:
            left = entries.popleft()
            left.leaves = 0
            self.used -= left.amount
        over = self.used + min(amount, limit) - limit
        wait = 0
        for entry in entries:
            if over <= 0:
                break
            over -= entry.amount
            wait = entry.leaves - now
        return wait

    def add(self, amount: int, now: int) -> Entry:
        """Count an amount; whether it fits is the caller's to ask."""
        entry = Entry(amount, now + MINUTE_US)
        self._entries.append(entry)
        self.used += amount
        return entry

    def correct(self, entry: Entry, amount: int) -> None:
        """Count another amount in place of what was counted, if that has not left."""
        if entry.leaves:
            self.used += amount - entry.amount
            entry.amount = amount

    def reset_us(self, now: int) -> int:
        """Give the time until all have left, if nothing more comes."""
        return max(0, self._entries[-1].leaves - now) if self._entries else 0
