"""The clocks and the dice of this machine, as the enforcement's ports want them."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

_DAY_S = 86_400
_AT_A_TIME = 256

_ids: list[str] = []
os.register_at_fork(after_in_child=_ids.clear)  # two processes must never give the same


class SystemClock:
    """Unix time, a time that never goes back, and the UTC date, which is worked out once a day."""

    def __init__(self) -> None:
        self._begins = self._ends = 0.0  # of the day, in Unix time
        self._date = ""

    now = staticmethod(time.time)
    ticks = staticmethod(time.perf_counter)

    def today(self) -> str:
        """Give the UTC date in ISO form."""
        now = time.time()
        if not self._begins <= now < self._ends:
            self._begins = now // _DAY_S * _DAY_S
            self._ends = self._begins + _DAY_S
            self._date = datetime.fromtimestamp(self._begins, UTC).date().isoformat()
        return self._date


def new_request_id() -> str:
    """Give 32 random hexadecimal digits; the kernel is asked for many at a time."""
    if not _ids:
        _ids.extend(os.urandom(16 * _AT_A_TIME).hex(" ", 16).split())
    return _ids.pop()
