from __future__ import annotations

import pytest

from gateway.engine.start_time import start_time

HELP = b"# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.\n"


@pytest.mark.parametrize(
    "text, started",
    [
        (HELP + b"process_start_time_seconds 1.79624987643e+09\nother 1\n", 1796249876.43),
        (b"other 1\r\nprocess_start_time_seconds 1700000000\r\n", 1700000000.0),
        (HELP, None),
        (b"", None),
        (b"my_process_start_time_seconds 1\n", None),
        (b"process_start_time_seconds NaN\n", None),
        (b"process_start_time_seconds 1.2.3\n", None),
    ],
)
def test_the_start_is_read_where_it_is_told(text: bytes, started: float | None) -> None:
    assert start_time(text) == started
