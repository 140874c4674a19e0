"""An engine that is full: a few wait a moment, the others are told to come back, and who leaves makes room."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import HI, running, wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.raw_http import Answer, Connection
    from tests.e2e.site import Site


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a site whose engine gets two requests at one time, with one seat before it."""
    settings = {"IN_FLIGHT": "2", "WAITING": "1", "WAIT": "1s"}
    bounds = {f"ENGINES__MAIN__{name}": value for name, value in settings.items()}
    with running(tmp_path_factory.mktemp("narrow"), **bounds) as one:
        yield one


@pytest.fixture
def slow(narrow: Site) -> Iterator[Site]:
    """Let the engine take some time for each token."""
    narrow.engine.state.latency_s = 0.05
    yield narrow
    narrow.engine.state.latency_s = 0.0
    wait(lambda: not narrow.engine.state.running, "the end of the engine's work")


def waiting(site: Site) -> float:
    """Ask how many wait."""
    lines = [line for line in site.metrics().splitlines() if line.startswith('gateway_requests_waiting{engine="main"}')]
    return float(lines[0].rpartition(" ")[2]) if lines else 0.0


def asked(site: Site, stack: contextlib.ExitStack, *, tokens: int = 10) -> Connection:
    """Ask for a stream and do not wait for it."""
    connection = stack.enter_context(site.connect())
    connection.send(site.request(body={**HI, "stream": True, "max_tokens": tokens}))
    return connection


def overloaded(site: Site, answer: Answer) -> None:
    assert (answer.status, answer.code, answer.value("retry-after")) == (503, "engine-overloaded", "1")
    assert 'details="engine-overloaded"' in (answer.value("proxy-status") or "")
    record = site.record(answer)
    assert (record["verdict"], record["outcome"], record["engine_status"]) == ("failure", None, None)


def test_the_engine_has_two_one_waits_and_the_fourth_is_told_to_come_back(slow: Site) -> None:
    with contextlib.ExitStack() as stack:
        first = [asked(slow, stack), asked(slow, stack)]
        wait(lambda: len(slow.engine.state.running) == 2, "both")
        third = asked(slow, stack)
        wait(lambda: waiting(slow) == 1, "the third")
        begun = time.monotonic()
        overloaded(slow, slow.chat())
        assert time.monotonic() - begun < 0.4
        assert len(slow.engine.state.running) == 2
        for connection in (*first, third):
            assert connection.head().status == 200
            assert b"[DONE]" in b"".join(part for _, part in connection.chunks())
    assert waiting(slow) == 0


def test_who_leaves_the_line_makes_room_and_never_reaches_the_engine(slow: Site) -> None:
    before = len(slow.reached())
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            asked(slow, stack)
        wait(lambda: len(slow.engine.state.running) == 2, "both")
        with contextlib.ExitStack() as inner:
            asked(slow, inner)
            wait(lambda: waiting(slow) == 1, "the third")
        wait(lambda: waiting(slow) == 0, "its leave", 1.0)
        fourth = asked(slow, stack)
        wait(lambda: waiting(slow) == 1, "the fourth", 1.0)
        assert fourth.head().status == 200
    assert len(slow.reached()) - before == 3


def test_who_waits_longer_than_the_bound_is_told_to_come_back(slow: Site) -> None:
    slow.engine.state.latency_s = 0.2
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            asked(slow, stack, tokens=16)
        wait(lambda: len(slow.engine.state.running) == 2, "both")
        begun = time.monotonic()
        overloaded(slow, slow.chat())
        assert 0.9 < time.monotonic() - begun < 2.0
