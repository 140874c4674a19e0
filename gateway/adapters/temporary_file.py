"""A file on disk without a name, for what is too large for memory.

Enters: bytes in pieces of any size. Leaves: the same bytes. The file is made where ``tempfile`` makes files
(``TMPDIR``), and has no name there, or loses it at once: no other process can open it, and nothing is left of it when
this one ends. Reading and writing are done in threads, since a disk may be slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import tempfile
from typing import IO, TYPE_CHECKING, TypeVar

from gateway.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

T = TypeVar("T")

PIECE = 256 * 1024
"""Bytes that are read or written at once, and so the most that is in memory."""


class TemporaryFile:
    """One file (``ports.Spool``), made with the first piece that is written to it, in ``folder`` where one is given."""

    def __init__(self, folder: Path | None = None) -> None:
        self.size = 0
        self._folder = folder
        self._held = bytearray()
        self._file: IO[bytes] | None = None

    async def write(self, data: bytes) -> None:
        """Add to the file. Raises ``Unavailable(SPOOL_UNAVAILABLE)``."""
        self.size += len(data)
        self._held += data
        if len(self._held) >= PIECE:
            await _in_thread(self._flush)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Read the file from its beginning. Raises ``Unavailable(SPOOL_UNAVAILABLE)``."""
        file = await _in_thread(self._rewound)
        while piece := await _in_thread(lambda: file.read(PIECE)):
            yield piece

    def close(self) -> None:
        """Forget the file; a thread that still writes to it is waited for."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # what could not be written is not wanted any more
                self._file.close()

    def _flush(self) -> IO[bytes]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="vllm-gateway-", dir=self._folder)  # noqa: SIM115  (closed by close)
        self._file.write(self._held)
        self._held = bytearray()
        return self._file

    def _rewound(self) -> IO[bytes]:
        file = self._flush()
        file.seek(0)
        return file


async def _in_thread(act: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(act)
    except OSError as error:
        raise Unavailable(Reason.SPOOL_UNAVAILABLE, errno.errorcode.get(error.errno or 0, "not written")) from None
