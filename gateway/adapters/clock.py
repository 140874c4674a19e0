"""The clocks and the dice of this machine, as the enforcement's ports want them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from os import urandom

_DAY_S = 86_400


class SystemClock:
    """Unix time, a time that never goes back, and the UTC date, which is worked out once a day."""

    def __init__(self) -> None:
        self._day = -1
        self._date = ""

    now = staticmethod(time.time)
    ticks = staticmethod(time.perf_counter)

    def today(self) -> str:
        """Give the UTC date in ISO form."""
        day = int(time.time()) // _DAY_S
        if day != self._day:
            self._day = day
            self._date = datetime.fromtimestamp(day * _DAY_S, UTC).date().isoformat()
        return self._date


def new_request_id() -> str:
    """Give 32 random hexadecimal digits."""
    return urandom(16).hex()
