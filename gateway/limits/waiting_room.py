"""A bound on what an engine does at one time, and a short line of those who wait for a place, the urgent ones first.

Enters: waiters with a rank, in the order of their arrival. Leaves: who may go, who waits, and who is sent away. It
keeps order and holds nobody: waiting itself is the adapter's.
"""

from __future__ import annotations

from bisect import insort
from typing import Generic, NamedTuple, TypeVar

RANKS = {"high": 0, "normal": 1, "low": 2}
"""The priorities of a policy; a lower rank goes first."""

WaiterT = TypeVar("WaiterT")


class _Place(NamedTuple, Generic[WaiterT]):
    rank: int
    number: int
    waiter: WaiterT


class Entry(NamedTuple, Generic[WaiterT]):
    """What became of a waiter: it is in at once, it waits, or neither; ``displaced`` had to give up its seat for it."""

    inside: bool
    waits: bool
    displaced: WaiterT | None = None


class WaitingRoom(Generic[WaiterT]):
    """The places of one engine and the seats before it; ``busy`` places are taken."""

    def __init__(self, places: int, seats: int) -> None:
        self._places = places
        self._seats = seats
        self._line: list[_Place[WaiterT]] = []
        self._arrived = 0
        self.busy = 0

    def __len__(self) -> int:
        return len(self._line)

    def enter(self, rank: int, waiter: WaiterT) -> Entry[WaiterT]:
        """Take a place, or a seat; where there is none, that of whoever came last with the least urgency."""
        if self.busy < self._places and not self._line:
            self.busy += 1
            return Entry(inside=True, waits=False)
        displaced = None
        if len(self._line) >= self._seats:
            if not self._line or self._line[-1].rank <= rank:
                return Entry(inside=False, waits=False)
            displaced = self._line.pop().waiter
        self._arrived += 1
        insort(self._line, _Place(rank, self._arrived, waiter), key=_order)
        return Entry(inside=False, waits=True, displaced=displaced)

    def give_up(self, waiter: WaiterT) -> bool:
        """Free the seat of one who waits no longer; tell whether it had one."""
        for index, place in enumerate(self._line):
            if place.waiter is waiter:
                del self._line[index]
                return True
        return False

    def leave(self) -> WaiterT | None:
        """Free a place, or pass it to the first in the line, who is given."""
        if self._line:
            return self._line.pop(0).waiter
        self.busy -= 1
        return None


def _order(place: _Place[WaiterT]) -> tuple[int, int]:
    return place.rank, place.number
