from __future__ import annotations

import pytest

from gateway.engine.vitals import UNKNOWN, Vitals, read_vitals

HELP = b"# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.\n"
SLEEPS = b'vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="%b"} %b\n'


@pytest.mark.parametrize(
    "text, started",
    [
        (HELP + b"process_start_time_seconds 1.79624987643e+09\nother 1\n", 1796249876.43),
        (b"other 1\r\nprocess_start_time_seconds 1700000000\r\n", 1700000000.0),
        (HELP, None),
        (b"my_process_start_time_seconds 1\n", None),
        (b"process_start_time_seconds NaN\n", None),
        (b"process_start_time_seconds 1.2.3\n", None),
    ],
)
def test_the_start_is_read_where_it_is_told(text: bytes, started: float | None) -> None:
    assert read_vitals(text) == Vitals(started)


@pytest.mark.parametrize(
    "text, asleep",
    [
        (SLEEPS % (b"awake", b"0.0") + SLEEPS % (b"weights_offloaded", b"1.0"), True),
        (SLEEPS % (b"awake", b"0"), True),
        (SLEEPS % (b"awake", b"1.0") + SLEEPS % (b"awake", b"0.0"), True),
        (SLEEPS % (b"awake", b"1.0") + SLEEPS % (b"discard_all", b"0.0"), False),
        (SLEEPS % (b"awake", b"0.5"), False),
        (b"# " + SLEEPS % (b"awake", b"0.0"), False),
    ],
)
def test_an_engine_sleeps_when_one_of_its_cores_is_not_awake(text: bytes, asleep: bool) -> None:  # noqa: FBT001  (a row of the table)
    assert read_vitals(text) == Vitals(None, asleep)


def test_nothing_is_known_of_what_tells_nothing() -> None:
    assert read_vitals(b"") == UNKNOWN
