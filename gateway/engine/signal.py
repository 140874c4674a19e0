"""What the end of a request tells about the replica that had it.

Enters: how a request ended, in the words of the relay. Leaves: a ``Signal``. A caller's mistake says nothing against a
replica, and neither does one that says it is busy: who is refused for good reason answers from a working engine.
"""

from __future__ import annotations

from enum import Enum

from gateway.reasons import Reason

UNREACHED = frozenset({"connection refused", "no such socket", "not reached", "TLS failed", "connect"})
"""Details of failures before a connection stood: the request cannot have run."""

_FAULTY = frozenset({500, 502, 504})
_FAULTS = frozenset({Reason.ENGINE_UNAVAILABLE, Reason.ENGINE_TIMEOUT, Reason.ENGINE_MALFORMED, Reason.ENGINE_ERROR})
_SERVER_ERROR = 500


class Signal(Enum):
    """What to think of a replica after a request.

    ``GOOD``: it works. ``FAULT``: it failed; several in a row take it out. ``GONE``: it cannot be reached, which takes
    it out at once. ``NONE``: nothing was learnt.
    """

    GOOD = "good"
    FAULT = "fault"
    GONE = "gone"
    NONE = "none"


_GOOD = Signal.GOOD  # looked up once, since nearly every request ends with it


def unreached(reason: Reason | None, detail: str) -> bool:
    """Tell whether a request failed before its replica had a byte of it, so that it may go to another one."""
    return reason in {Reason.ENGINE_UNAVAILABLE, Reason.ENGINE_TIMEOUT} and detail in UNREACHED


def signal_of(status: int | None, reason: Reason | None, detail: str) -> Signal:
    """Read the end of a request: the engine's status if there was one, else why there was none."""
    if reason is None and status is not None:
        if status < _SERVER_ERROR:
            return _GOOD
        return Signal.FAULT if status in _FAULTY else Signal.NONE
    if unreached(reason, detail):
        return Signal.GONE
    return Signal.FAULT if reason in _FAULTS else Signal.NONE
