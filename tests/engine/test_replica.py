"""A replica knows how busy it is, and is suspect when somebody waits and nobody is answered."""

from __future__ import annotations

from gateway.engine.circuit import IN_A_ROW, State
from gateway.engine.replica import SUSPECT_AFTER_S, Replica
from gateway.engine.signal import Signal


def ready() -> Replica:
    replica = Replica("http://127.0.0.1:8000")
    replica.circuit.pass_trial()
    return replica


def test_requests_are_counted_from_sending_to_their_end() -> None:
    replica = ready()
    first, second = replica.send(0.0), replica.send(1.0)
    assert (replica.in_flight, replica.sent) == (2, 2)
    replica.answered(first, 2.0)
    replica.end(first, Signal.GOOD, "", 3.0)
    replica.end(second, Signal.NONE, "", 3.0)
    assert (replica.in_flight, replica.sent) == (0, 2)


def test_faults_in_a_row_make_it_suspect_and_a_success_between_does_not() -> None:
    replica = ready()
    for signal in (Signal.FAULT, Signal.GOOD) * IN_A_ROW:
        replica.end(replica.send(0.0), signal, "reset", 0.0)
    assert not replica.suspect(0.0)
    for _ in range(IN_A_ROW):
        replica.end(replica.send(0.0), Signal.FAULT, "reset", 0.0)
    assert replica.suspect(0.0)
    assert replica.circuit.closed
    replica.cleared(1.0)
    assert not replica.suspect(1.0)


def test_one_that_cannot_be_reached_is_out_at_once() -> None:
    replica = ready()
    replica.end(replica.send(0.0), Signal.GONE, "connection refused", 4.0)
    assert (replica.circuit.state, replica.circuit.why) == (State.OPEN, "connection refused")


def test_what_showed_nothing_changes_nothing() -> None:
    replica = ready()
    for _ in range(3 * IN_A_ROW):
        replica.end(replica.send(0.0), Signal.NONE, "", 0.0)
    assert replica.circuit.closed


def test_requests_from_before_an_outage_are_not_held_against_one_that_is_back() -> None:
    replica = ready()
    old = [replica.send(0.0) for _ in range(3 * IN_A_ROW)]
    replica.circuit.open("connection refused", 1.0)
    replica.circuit.pass_trial()
    for ticket in old:
        replica.end(ticket, Signal.GONE, "connection closed", 2.0)
    assert replica.circuit.closed
    assert replica.in_flight == 0


def test_it_is_suspect_when_somebody_waits_and_nobody_is_answered() -> None:
    replica = ready()
    waiting = replica.send(10.0)
    assert not replica.suspect(10.0 + SUSPECT_AFTER_S - 0.1)
    assert replica.suspect(10.0 + SUSPECT_AFTER_S)
    replica.end(waiting, Signal.FAULT, "first-byte", 40.0)
    assert not replica.suspect(99.0)


def test_an_answer_to_anybody_shows_that_it_works() -> None:
    replica = ready()
    replica.send(0.0)
    other = replica.send(SUSPECT_AFTER_S - 1)
    replica.answered(other, SUSPECT_AFTER_S)
    replica.answered(other, 3 * SUSPECT_AFTER_S)  # only its first byte counts
    assert not replica.suspect(2 * SUSPECT_AFTER_S - 1)
    assert replica.suspect(2 * SUSPECT_AFTER_S)


def test_a_stream_that_breaks_is_a_fault_though_it_was_answered() -> None:
    replica = ready()
    for _ in range(IN_A_ROW):
        stream = replica.send(0.0)
        replica.answered(stream, 1.0)
        replica.end(stream, Signal.FAULT, "connection closed", 2.0)
    assert replica.circuit.doubted


def test_a_stream_that_flows_for_long_makes_nobody_suspect() -> None:
    replica = ready()
    replica.answered(replica.send(0.0), 1.0)
    assert not replica.suspect(1000.0)


def test_a_suspect_that_answers_a_trial_is_cleared_for_a_while() -> None:
    replica = ready()
    replica.send(0.0)
    assert replica.suspect(SUSPECT_AFTER_S)
    replica.cleared(SUSPECT_AFTER_S + 1)
    assert not replica.suspect(2 * SUSPECT_AFTER_S)
    assert replica.suspect(2 * SUSPECT_AFTER_S + 1)


def test_one_that_is_out_is_suspect_no_longer() -> None:
    replica = ready()
    replica.send(0.0)
    replica.circuit.open("silent", 30.0)
    assert not replica.suspect(99.0)
