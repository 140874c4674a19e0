"""How much an answer costs, read from its bytes on their way to the caller.

Enters: pieces of an answer: whole events, or the end of a plain body. Leaves: the engine's count where it gives one,
the number of tokens seen so far where it does not, and the same pieces, without the event of the count if the gateway
alone asked for it. Nothing is parsed but the count itself: a piece without one costs a few searches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.counts import USAGE

if TYPE_CHECKING:
    from gateway.dialects.call import Dialect, Usage


class Meter:
    """Reads one answer. It outlives whoever relays it, so that what was seen is known however the answer ends.

    ``usage``: the engine's count, of several parts the last that says each number; parts are never added up, since
    they repeat themselves.
    """

    __slots__ = ("_deltas", "_dialect", "_hides", "usage")

    def __init__(self, dialect: Dialect, hides: bool = False) -> None:  # noqa: FBT001, FBT002  (a name costs as much)
        self._dialect = dialect
        self._hides = hides
        self._deltas = 0
        self.usage: Usage | None = None

    @property
    def produced(self) -> int:
        """Tokens that the events passed on so far stand for."""
        return max(0, self._deltas - self._dialect.lead)

    def events(self, data: bytes) -> bytes:
        """Read some whole events of a stream, and give what of them is for the caller."""
        dialect = self._dialect
        self._deltas += data.count(dialect.delta)
        if data.rfind(USAGE, dialect.count_from) == -1:  # as nearly always; to ask the dialect costs two searches
            return data
        if self._hides:
            usage, shown = dialect.take_usage(data)
        else:
            usage, shown = dialect.usage(data), data
        if usage is None:
            return data
        self.usage = usage if self.usage is None else usage.after(self.usage)
        return shown

    def body(self, end: bytes) -> None:
        """Read the end of a plain answer."""
        usage = self._dialect.usage(end)
        if usage is not None:
            self.usage = usage if self.usage is None else usage.after(self.usage)
