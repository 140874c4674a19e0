"""What a request's end says of its replica: a caller's mistake and a busy engine say nothing against it."""

from __future__ import annotations

import pytest

from gateway.engine.signal import UNREACHED, Signal, signal_of, unreached
from gateway.reasons import Reason


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 413, 422, 429])
def test_whoever_answers_at_all_works(status: int) -> None:
    assert signal_of(status, None, "") is Signal.GOOD


@pytest.mark.parametrize("status", [500, 502, 504])
def test_an_error_of_the_engines_own_is_a_fault(status: int) -> None:
    assert signal_of(status, None, "") is Signal.FAULT


@pytest.mark.parametrize("status", [501, 503, 529])
def test_an_engine_that_says_it_is_busy_shows_nothing(status: int) -> None:
    assert signal_of(status, None, "") is Signal.NONE


@pytest.mark.parametrize("detail", sorted(UNREACHED - {"connect"}))
def test_an_engine_that_cannot_be_reached_is_gone(detail: str) -> None:
    assert signal_of(None, Reason.ENGINE_UNAVAILABLE, detail) is Signal.GONE
    assert unreached(Reason.ENGINE_UNAVAILABLE, detail)


def test_an_engine_that_takes_no_connection_in_time_is_gone() -> None:
    assert signal_of(None, Reason.ENGINE_TIMEOUT, "connect") is Signal.GONE
    assert unreached(Reason.ENGINE_TIMEOUT, "connect")


@pytest.mark.parametrize(
    "reason, detail",
    [
        (Reason.ENGINE_UNAVAILABLE, "connection closed"),
        (Reason.ENGINE_TIMEOUT, "first-byte"),
        (Reason.ENGINE_TIMEOUT, "idle"),
        (Reason.ENGINE_TIMEOUT, "total"),
        (Reason.ENGINE_MALFORMED, "head"),
        (Reason.ENGINE_ERROR, "connection closed"),
    ],
)
def test_an_answer_that_fails_is_a_fault_and_may_have_run(reason: Reason, detail: str) -> None:
    assert signal_of(200, reason, detail) is Signal.FAULT
    assert not unreached(reason, detail)


@pytest.mark.parametrize("status, reason", [(None, None), (200, Reason.DRAINING), (None, Reason.ENGINE_ASLEEP)])
def test_what_the_engine_did_not_cause_shows_nothing(status: int | None, reason: Reason | None) -> None:
    assert signal_of(status, reason, "") is Signal.NONE
    assert not unreached(reason, "")
