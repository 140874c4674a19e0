from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import structlog

from gateway.adapters.logs import INTERVAL_S, Sampler, configured

if TYPE_CHECKING:
    from collections.abc import Iterator


class Lines(io.StringIO):
    """A stream of log lines."""

    def take(self) -> list[dict[str, Any]]:
        """Give the lines so far and forget them."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Send lines into a stream."""
    lines = Lines()
    with configured("info", lines):
        yield lines


def test_a_line_of_one_of_several_processes_says_which() -> None:
    lines = Lines()
    with configured("info", lines, worker=3):
        structlog.get_logger().info("begun")
    (line,) = lines.take()
    assert line["worker"] == 3


def _fail() -> NoReturn:
    raise ValueError("sk-secret")


def test_an_event_is_one_line_of_json_with_time_and_level(lines: Lines) -> None:
    structlog.get_logger().warning("engine lost", engine="main")
    (line,) = lines.take()
    assert line["timestamp"].endswith("Z")
    del line["timestamp"]
    assert line == {"event": "engine lost", "engine": "main", "level": "warning"}


def test_no_text_breaks_a_line(lines: Lines) -> None:
    structlog.get_logger().info("a\nb\u2028c", text="\x1b[2J\u202e")
    raw = lines.getvalue()
    assert raw.count("\n") == 1
    assert raw.isascii()
    assert lines.take()[0]["text"] == "\x1b[2J\u202e"


def test_lines_below_the_level_are_not_written(lines: Lines) -> None:
    structlog.get_logger().debug("detail")
    assert lines.take() == []


def test_an_exception_is_told_by_its_type_and_place_without_its_message(lines: Lines) -> None:
    try:
        _fail()
    except ValueError as error:
        structlog.get_logger().error("bug", exc_info=error)
    (line,) = lines.take()
    assert line["exception"] == "ValueError"
    assert line["at"][0].endswith("without_its_message")
    assert "sk-secret" not in json.dumps(line)


def test_a_sampled_event_is_told_once_a_second_and_the_rest_is_counted() -> None:
    now = 0.0
    sampler = Sampler(lambda: now)

    def told(name: str) -> dict[str, Any] | None:
        try:
            return dict(sampler(None, "warning", {"event": name, "sampled": True}))
        except structlog.DropEvent:
            return None

    assert told("a") == {"event": "a"}
    assert told("a") is None
    assert told("b") == {"event": "b"}
    assert told("a") is None
    now += INTERVAL_S
    assert told("a") == {"event": "a", "suppressed": 2}
    now += INTERVAL_S
    assert told("a") == {"event": "a"}


def test_other_events_are_always_told(lines: Lines) -> None:
    for _ in range(3):
        structlog.get_logger().info("drained")
    assert len(lines.take()) == 3


def test_what_a_library_says_about_single_requests_is_not_told(lines: Lines) -> None:
    """log-007: at these levels they repeat targets, header fields and bodies."""
    for name in ("uvicorn.error", "uvicorn.access", "asyncio", "httpx2", "httpcore2.http11"):
        logging.getLogger(name).warning("Invalid HTTP request received: %s", "sk-secret")
        logging.getLogger(name).debug("send_request_headers %s", "sk-secret")
    assert lines.take() == []


def test_an_error_of_a_library_is_told_without_its_arguments(lines: Lines) -> None:
    try:
        _fail()
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n%s", "sk-secret")
    (line,) = lines.take()
    assert line["event"] == "Exception in ASGI application"
    assert line["logger"] == "uvicorn.error"
    assert line["exception"] == "ValueError"
    assert "sk-secret" not in json.dumps(line)


def test_errors_of_a_library_are_sampled_and_bounded(lines: Lines) -> None:
    for number in range(50):
        logging.getLogger("asyncio").error("x" * 1000 + str(number))  # noqa: G003  (as asyncio does it)
    (line,) = lines.take()
    assert len(line["event"]) == 200


def test_a_warning_of_python_becomes_a_line(lines: Lines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", stacklevel=1)
    (line,) = lines.take()
    assert line["logger"] == "py.warnings"


def test_behind_the_block_everything_is_as_before() -> None:
    """A command that fails at its start, within a longer process, must not take the process's logging along."""

    def found() -> list[object]:
        loggers = [logging.getLogger(name) for name in ("", "uvicorn", "uvicorn.access", "asyncio", "httpx2")]
        stated = [(one.level, one.propagate, one.handlers[:]) for one in loggers]
        return [structlog.is_configured(), structlog.get_config(), warnings.showwarning, *stated]

    before = found()
    with contextlib.suppress(ValueError), configured("error"):
        during = found()
        _fail()
    assert found() == before != during
