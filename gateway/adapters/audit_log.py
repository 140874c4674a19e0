"""Where audit records go: standard output or a file, in whole lines, without making the event loop wait.

Enters: one line of JSON for each request. Leaves: the same lines in order, gathered into one write per turn of the
loop. What cannot be written is kept and tried again; while writes fail or pile up, ``ready`` is false and no further
requests are taken. Nothing is lost while the process lives, unless the records of requests already taken exceed the
bound as well.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

import structlog

from gateway.adapters.descriptor import Descriptor

BUFFERED_AT_MOST = 4 * 1024 * 1024
"""Bytes kept in memory; beyond them records are lost, and counted."""

READY_UP_TO = BUFFERED_AT_MOST // 2
"""Bytes in memory up to which requests are taken; the other half is for the records of those under way."""

WAIT_S = 0.01
"""Seconds until a slow reader is offered the rest."""

RETRY_S = 0.25
"""Seconds until a write that failed is tried again."""

LOOK_S = 1.0
"""Seconds between two looks at whether the file was moved."""

CLOSE_S = 2.0
"""Seconds that the end of the process waits for a slow reader."""

STDOUT = "stdout"

_log = structlog.get_logger()


class AuditLog:
    """The log of one process. Not for threads: everything runs on the event loop."""

    def __init__(self, descriptor: Descriptor, path: str | None = None) -> None:
        self._descriptor = descriptor
        self._path = path
        self._lines: deque[bytes] = deque()
        self._buffered = 0
        self._begun = 0  # bytes of the first line that are written
        self._scheduled = False
        self._failed = False
        self._next_look = 0.0
        self.lost = 0

    @classmethod
    def open(cls, destination: str) -> AuditLog:
        """Open ``stdout`` or a path. Raises ``OSError``."""
        if destination == STDOUT:
            return cls(Descriptor.of(1))
        return cls(Descriptor.of_path(destination), destination)

    @property
    def ready(self) -> bool:
        """Whether another request may be taken: the last write went well, and there is room."""
        return not self._failed and self._buffered <= READY_UP_TO

    def write(self, record: bytes) -> None:
        """Take one record; it is written in this turn of the event loop, or as soon as that is possible."""
        buffered = self._buffered + len(record) + 1
        if buffered > BUFFERED_AT_MOST:
            self.lost += 1
            _log.error("audit record lost", lost=self.lost, sampled=True)
            return
        self._lines.append(record + b"\n")
        self._buffered = buffered
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def flush(self) -> bool:
        """Write what can be written at once, and tell whether nothing is left."""
        try:
            while self._lines:
                self._drop(self._descriptor.write(b"".join(self._lines)[self._begun :]))
        except BlockingIOError:
            return False
        except OSError as error:
            self._failed = True
            _log.error("audit records cannot be written", error=error.strerror, sampled=True)
            return False
        self._failed = False
        return True

    def reopen(self) -> None:
        """Continue in a new file of the same name, as the old one was moved; a line begun there is written anew."""
        if self._path is None:
            return
        try:
            descriptor = Descriptor.of_path(self._path)
        except OSError as error:
            _log.error("audit log cannot be reopened: the old file is kept", error=error.strerror, sampled=True)
            return
        self._descriptor.close()
        self._descriptor = descriptor
        self._begun = 0

    def close(self, wait_s: float = CLOSE_S) -> int:
        """Write the rest, waiting a moment for a slow reader, and give the number of records that are lost."""
        until = time.monotonic() + wait_s
        while not self.flush() and time.monotonic() < until:
            time.sleep(WAIT_S)
        self._descriptor.close()
        return self.lost + len(self._lines)

    def _turn(self) -> None:
        """Write once, and come back when something is left."""
        self._scheduled = False
        now = time.monotonic()
        if self._path is not None and now >= self._next_look:
            self._next_look = now + LOOK_S
            if not self._descriptor.is_at(self._path):
                self.reopen()
        if not self.flush():
            self._scheduled = True
            asyncio.get_running_loop().call_later(RETRY_S if self._failed else WAIT_S, self._turn)

    def _drop(self, written: int) -> None:
        """Forget the lines that are out; of one that is half out, remember how far."""
        if written == self._buffered - self._begun:  # nearly always
            self._lines.clear()
            self._buffered = self._begun = 0
            return
        self._begun += written
        while self._lines and self._begun >= len(self._lines[0]):
            line = self._lines.popleft()
            self._begun -= len(line)
            self._buffered -= len(line)
