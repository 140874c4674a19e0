"""Operational log lines: JSON on standard error, one line for each event.

Enters: events of ours, and the records that libraries give to ``logging``. Leaves: lines without secrets and prompts.
Messages of exceptions are left out, because they quote what went wrong; lines that an outsider can cause are sampled.
What happened to a request is not told here but in its audit record.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from structlog.typing import EventDict, WrappedLogger

INTERVAL_S = 1.0
"""A sampled event is told once in this time."""

# Libraries that tell about requests: at their own levels they repeat header fields, tokens and bodies.
_QUIET = ("asyncio", "uvicorn", "uvicorn.error", "uvicorn.access", "httpx2", "httpcore2", "authlib", "joserfc")


_LONGEST_MESSAGE = 200


class Sampler:
    """Drops repetitions of events marked ``sampled=True`` within a second, and tells later how many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """Pass an event on, or raise ``DropEvent``; names of events and libraries are constants, so few are kept."""
        if not event.pop("sampled", False):
            return event
        name, now = event.get("logger") or event["event"], self._clock()
        if now - self._told.get(name, -INTERVAL_S) < INTERVAL_S:
            self._suppressed[name] = self._suppressed.get(name, 0) + 1
            raise structlog.DropEvent
        self._told[name] = now
        suppressed = self._suppressed.pop(name, 0)
        if suppressed:
            event["suppressed"] = suppressed
        return event


@contextlib.contextmanager
def configured(level: str, stream: TextIO | None = None, worker: int | None = None) -> Iterator[None]:
    """Send all lines of at least this level to a stream, those of libraries only from ``error`` up.

    It holds for the whole process and until the end of this block; then everything is as before. Without a stream it is
    standard error. ``worker``: the number of this process, which stands in each line.
    """
    numbered = [] if worker is None else [partial(_numbered, worker)]
    root, quiet = logging.getLogger(), [logging.getLogger(name) for name in _QUIET]
    before = [(logger, logger.level, logger.handlers[:], logger.propagate) for logger in (root, *quiet)]
    structlog.configure(
        processors=[
            Sampler(),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _where,
            *numbered,
            structlog.processors.JSONRenderer(sort_keys=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream or sys.stderr),  # a line is one write
        cache_logger_on_first_use=False,
    )
    logging.captureWarnings(capture=True)
    root.handlers[:] = [_Library()]
    root.setLevel(logging.WARNING)
    for logger in quiet:
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        structlog.reset_defaults()
        logging.captureWarnings(capture=False)
        for logger, was, handlers, propagate in before:
            logger.setLevel(was)
            logger.handlers[:] = handlers
            logger.propagate = propagate


def _numbered(worker: int, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Say which of several processes tells this."""
    event["worker"] = worker
    return event


def _where(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace an exception by its type and the places it came through, without its message and its variables."""
    error = event.pop("exc_info", None)
    if isinstance(error, BaseException):
        event["exception"] = type(error).__name__
        event["at"] = [
            f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
        ]
    return event


class _Library(logging.Handler):
    """Takes a library's record for an event; its message is the format, without the arguments."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        facts: dict[str, Any] = {"logger": record.name, "sampled": True}
        if record.exc_info is not None:
            facts["exc_info"] = record.exc_info[1]
        structlog.get_logger().log(record.levelno, str(record.msg).partition("\n")[0][:_LONGEST_MESSAGE], **facts)
