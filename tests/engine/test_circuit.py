"""A circuit opens by faults in a row, closes by a trial alone, and waits longer behind each trial that fails."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.engine.circuit import (
    EJECTED_S,
    FORGOTTEN_S,
    IN_A_ROW,
    LONGEST_EJECTED_S,
    LONGEST_PAUSE_S,
    PAUSE_S,
    Circuit,
    State,
)


def closed() -> Circuit:
    circuit = Circuit()
    circuit.begin_trial()
    circuit.pass_trial()
    return circuit


def test_a_replica_takes_nothing_until_it_was_tried() -> None:
    circuit = Circuit()
    assert (circuit.closed, circuit.why, circuit.trial_due(0.0)) == (False, "not tried yet", True)
    circuit.begin_trial()
    assert (circuit.state, circuit.closed, circuit.trial_due(99.0)) == (State.HALF_OPEN, False, False)
    circuit.pass_trial()
    assert (circuit.closed, circuit.why, circuit.trial_due(99.0)) == (True, "", False)


def test_faults_in_a_row_raise_a_doubt_and_leave_it_closed() -> None:
    circuit = closed()
    for _ in range(IN_A_ROW - 1):
        circuit.fault("reset")
    assert not circuit.doubted
    circuit.fault("reset")
    assert (circuit.doubted, circuit.closed) == (True, True)
    circuit.open("gone", 0.0)
    assert not circuit.doubted


def test_an_outlier_is_left_out_longer_each_time_until_that_is_forgotten() -> None:
    circuit, now, pauses = closed(), 1000.0, []
    for _ in range(6):
        circuit.fault("reset")
        circuit.eject(now)
        assert (circuit.state, circuit.why) == (State.OPEN, "reset")
        pauses.append(circuit.due - now)
        now = circuit.due
        circuit.pass_trial()
    assert pauses == [EJECTED_S, 2 * EJECTED_S, 4 * EJECTED_S, 8 * EJECTED_S, LONGEST_EJECTED_S, LONGEST_EJECTED_S]
    circuit.eject(now + FORGOTTEN_S + 1)
    assert circuit.due == now + FORGOTTEN_S + 1 + EJECTED_S


def test_a_success_between_faults_begins_the_count_anew() -> None:
    circuit = closed()
    for _ in range(5 * IN_A_ROW):
        circuit.fault("reset")
        circuit.succeed()
        assert not circuit.doubted


def test_the_pause_behind_failed_trials_doubles_up_to_a_bound() -> None:
    circuit, now, pauses = Circuit(), 0.0, []
    for _ in range(12):
        circuit.begin_trial()
        circuit.fail_trial("refused", now)
        assert not circuit.trial_due(now)
        pauses.append(circuit.due - now)
        now = circuit.due
    assert pauses[:2] == [PAUSE_S, 2 * PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert all(one <= other for one, other in pairwise(pauses))


def test_a_trial_that_passes_forgets_the_failed_ones() -> None:
    circuit = Circuit()
    for _ in range(5):
        circuit.fail_trial("refused", 0.0)
    circuit.pass_trial()
    circuit.open("refused", 0.0)
    circuit.fail_trial("refused", 10.0)
    assert circuit.due == 10.0 + PAUSE_S


def test_one_that_is_open_or_on_trial_is_not_opened_again() -> None:
    """The pause behind a failed trial stays, whatever requests from before still show."""
    circuit = Circuit()
    circuit.fail_trial("refused", 5.0)
    circuit.open("another reason", 5.1)
    assert (circuit.why, circuit.due) == ("refused", 5.0 + PAUSE_S)
    circuit.begin_trial()
    circuit.open("another reason", 6.0)
    assert circuit.state is State.HALF_OPEN


def test_each_closing_begins_a_new_round() -> None:
    circuit = closed()
    before = circuit.round
    circuit.open("gone", 0.0)
    assert circuit.round == before
    circuit.pass_trial()
    assert circuit.round == before + 1


@given(st.lists(st.sampled_from(["fault", "succeed", "open", "begin", "pass", "fail"])))
def test_only_a_trial_that_passed_closes_it(steps: list[str]) -> None:
    circuit = Circuit()
    for number, step in enumerate(steps):
        was = circuit.closed
        if step == "begin" and circuit.trial_due(1e9):
            circuit.begin_trial()
        elif step == "fault":
            circuit.fault("x")
        elif step == "open":
            circuit.open("x", number)
        elif step == "succeed":
            circuit.succeed()
        elif step == "fail" and circuit.state is State.HALF_OPEN:
            circuit.fail_trial("x", number)
        elif step == "pass" and circuit.state is State.HALF_OPEN:
            circuit.pass_trial()
            continue
        assert was or not circuit.closed
