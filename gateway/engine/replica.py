"""One replica of an engine: its circuit, how busy it is, and whether it still answers at all.

Enters: each request that is sent to it, the first byte of its answer, its end, and the time. Leaves: numbers by which
one is chosen, and whether it is suspect: an engine can report health while no request moves. It knows no socket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.engine.circuit import Circuit
from gateway.engine.signal import Signal

SUSPECT_AFTER_S: Final = 20.0
"""Seconds without any answer, while somebody waits for one, behind which a replica is tried."""

_GOOD: Final = Signal.GOOD  # looked up once, since it is asked for with each request


@dataclass(slots=True, eq=False)
class Ticket:
    """One request at a replica, from the moment it is chosen. ``begun``: a byte of it may have reached the replica."""

    round: int
    since: float
    waiting: bool = True
    begun: bool = False


@dataclass(slots=True, eq=False)
class Replica:
    """One replica; ``name`` is its address as it may stand in records: nothing secret is in it.

    ``in_flight``: open requests. ``sent``: requests ever sent to it.
    """

    name: str
    circuit: Circuit = field(default_factory=Circuit)
    in_flight: int = 0
    sent: int = 0
    _waiting: dict[Ticket, None] = field(default_factory=dict, repr=False)
    _answered_at: float = 0.0

    def send(self, now: float) -> Ticket:
        """Count a request that goes to it."""
        ticket = Ticket(self.circuit.round, now)
        self.in_flight += 1
        self.sent += 1
        self._waiting[ticket] = None
        return ticket

    def answered(self, ticket: Ticket, now: float) -> None:
        """Note the first byte of an answer."""
        if ticket.waiting:
            ticket.waiting = False
            self._answered_at = now
            del self._waiting[ticket]

    def end(self, ticket: Ticket, signal: Signal, why: str, now: float) -> None:
        """Count the end of a request, and take from it what it shows."""
        self.in_flight -= 1
        if ticket.waiting:
            ticket.waiting = False
            del self._waiting[ticket]
            if signal is _GOOD:
                self._answered_at = now
        circuit = self.circuit
        if ticket.round != circuit.round:
            return
        if signal is _GOOD:
            if circuit.faults:
                circuit.succeed()
        elif signal is Signal.GONE:
            circuit.open(why, now)
        elif signal is Signal.FAULT:
            circuit.fault(why)

    def suspect(self, now: float) -> bool:
        """Tell whether its last requests all failed, or somebody waits and nobody has had an answer for too long.

        A long answer alone makes nobody suspect for good: the trial that follows is answered beside it.
        """
        if not self.circuit.closed:
            return False
        oldest = next(iter(self._waiting), None)
        silent = oldest is not None and now - max(oldest.since, self._answered_at) >= SUSPECT_AFTER_S
        return silent or self.circuit.doubted

    def cleared(self, now: float) -> None:
        """Note that a suspect has answered a trial."""
        self._answered_at = now
        self.circuit.succeed()
