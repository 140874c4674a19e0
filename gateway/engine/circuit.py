"""Whether a replica takes requests: closed, open, or half-open while a trial is under way.

Enters: what requests and trials showed, and the time. Leaves: the state, and when the next trial is due. A trial is a
warm-up of the gateway's own and never somebody's request, so nobody pays for finding out. A replica begins open: until
a first trial has passed, that it listens proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

IN_A_ROW: Final = 5
"""Faults without a success between them behind which a replica is doubted."""

PAUSE_S: Final = 1.0
"""Seconds until the next trial behind one that failed, doubled with each."""

LONGEST_PAUSE_S: Final = 2.0

EJECTED_S: Final = 5.0
"""Seconds that an outlier is left out before it is tried, doubled with each time."""

LONGEST_EJECTED_S: Final = 80.0
FORGOTTEN_S: Final = 300.0
"""Seconds behind which earlier times are forgotten."""


class State(Enum):
    """Closed takes requests; open takes none; half-open takes none either, but a trial is under way."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


CLOSED: Final = State.CLOSED
"""Looked up once, since every request asks: a member of an Enum, named where it is used, costs as much as a call."""


@dataclass(slots=True)
class Circuit:
    """The circuit of one replica.

    ``why``: a phrase that is safe to show. ``due``: when the next trial may begin, in the clock of the caller.
    ``round``: grows each time it closes, so that what an older request shows is not held against a replica that has
    come back since. ``faults``: how many in a row, without a success between them.
    """

    state: State = State.OPEN
    why: str = "not tried yet"
    due: float = 0.0
    round: int = 0
    faults: int = 0
    _fault: str = ""
    _trials: int = 0
    _ejections: int = 0
    _ejected_at: float = 0.0

    @property
    def closed(self) -> bool:
        """Whether requests may go to it."""
        return self.state is CLOSED

    def trial_due(self, now: float) -> bool:
        """Tell whether it is time to try."""
        return self.state is State.OPEN and now >= self.due

    def begin_trial(self) -> None:
        """Try it; until the trial ends there is no second one."""
        self.state = State.HALF_OPEN

    def pass_trial(self) -> None:
        """Close: it has answered as it should."""
        self.state, self.why = State.CLOSED, ""
        self.round += 1
        self.faults = self._trials = 0

    def fail_trial(self, why: str, now: float) -> None:
        """Stay open, and wait longer each time."""
        self.state, self.why = State.OPEN, why
        self.due = now + min(PAUSE_S * 2**self._trials, LONGEST_PAUSE_S)
        self._trials = min(self._trials + 1, 8)

    def succeed(self) -> None:
        """Count a success: whatever failed before it was no outage."""
        self.faults = 0

    def fault(self, why: str) -> None:
        """Count a fault; several in a row raise a doubt."""
        self.faults += 1
        self._fault = why

    @property
    def doubted(self) -> bool:
        """Whether it takes requests, and the last ones all failed."""
        return self.closed and self.faults >= IN_A_ROW

    def eject(self, now: float) -> None:
        """Leave an outlier out for a while, where others take its requests: a trial alone has it back at once."""
        self._ejections = 0 if now - self._ejected_at > FORGOTTEN_S else self._ejections
        self.open(self._fault, now)
        self.due = now + min(EJECTED_S * 2**self._ejections, LONGEST_EJECTED_S)
        self._ejections = min(self._ejections + 1, 8)
        self._ejected_at = now

    def open(self, why: str, now: float) -> None:
        """Take the replica out, and have it tried at once: a working one is back before anybody notices."""
        if self.state is State.CLOSED:
            self.state, self.why, self.due = State.OPEN, why, now
