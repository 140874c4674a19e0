"""A deadline that is nearly always called off: one timer of the event loop for many of them.

Enters: when something is due, and what is done then. Leaves: that call, unless it was called off or put off. Each
request on a connection has deadlines, and a timer that is made and cancelled for each costs more than one that rings
for nothing once in a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Alarm:
    """One deadline at a time.

    ``due``: the loop's time at which ``call`` is called, ``None`` for never; set it to that to call it off.
    """

    __slots__ = ("_call", "_loop", "_timer", "_when", "due")

    def __init__(self, call: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._call: Callable[[], None] | None = call
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._when = 0.0
        self.due: float | None = None

    def within(self, seconds: float) -> None:
        """Set the deadline so many seconds from now, in place of the one before."""
        self.due = due = self._loop.time() + seconds
        if self._timer is None or due < self._when:
            self._arm(due)

    def at(self, due: float) -> None:
        """Set the deadline at a time of the loop, in place of the one before."""
        self.due = due
        if self._timer is None or due < self._when:
            self._arm(due)

    def end(self) -> None:
        """Call it off for good, and let go of timer and call: they would hold each other and their owner."""
        self.due = self._call = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._when = when
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        due, call = self.due, self._call
        if due is None or call is None:
            return
        if self._loop.time() < due:
            self._arm(due)  # it was put off since the timer was set
            return
        self.due = None
        call()
