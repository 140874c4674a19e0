"""The machine's clocks and dice."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime

from gateway.adapters.clock import SystemClock, new_request_id


def test_now_is_unix_time() -> None:
    assert abs(SystemClock().now() - time.time()) < 5


def test_ticks_never_go_back() -> None:
    clock = SystemClock()
    ticks = [clock.ticks() for _ in range(1000)]
    assert ticks == sorted(ticks)


def test_today_is_the_date_in_utc() -> None:
    clock = SystemClock()
    before = datetime.now(UTC).date()
    dates = {clock.today(), clock.today()}
    assert dates <= {before.isoformat(), datetime.now(UTC).date().isoformat()}


def test_request_ids_are_32_hexadecimal_digits_and_never_the_same() -> None:
    ids = {new_request_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)


def test_a_forked_process_does_not_give_the_ids_of_its_parent() -> None:
    """They are made many at a time, and those in stock are in both."""
    new_request_id()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, new_request_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    given = os.read(reader, 32).decode()
    os.close(reader)
    os.close(writer)
    assert re.fullmatch("[0-9a-f]{32}", given)
    assert given not in {new_request_id() for _ in range(1000)}
