"""A file on disk without a name, for what is too large for memory.

Enters: bytes in pieces of any size. Leaves: the same bytes. The file is made where ``tempfile`` makes files
(``TMPDIR``), and has no name there, or loses it at once: no other process can open it, and nothing is left of it when
this one ends. Reading and writing are done in threads, since a disk may be slow.
"""

from __future__ import annotations

import asyncio
import errno
import tempfile
from typing import IO, TYPE_CHECKING

from gateway.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

PIECE = 256 * 1024
"""Bytes that are read or written at once, and so the most that is in memory."""


class TemporaryFile:
    """One file (``ports.Spool``). It is made with the first piece that is written to it."""

    def __init__(self) -> None:
        self.size = 0
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
        await _in_thread(self._rewind)
        while piece := await _in_thread(self._read):
            yield piece

    def close(self) -> None:
        """Forget the file; a thread that still writes to it is waited for."""
        if self._file is not None:
            self._file.close()

    def _flush(self) -> bytes:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="vllm-gateway-")  # noqa: SIM115  (closed by close)
        self._file.write(self._held)
        self._held = bytearray()
        return b""

    def _rewind(self) -> bytes:
        self._flush()
        if self._file is not None:
            self._file.seek(0)
        return b""

    def _read(self) -> bytes:
        return b"" if self._file is None else self._file.read(PIECE)


async def _in_thread(act: Callable[[], bytes]) -> bytes:
    try:
        return await asyncio.to_thread(act)
    except OSError as error:
        raise Unavailable(Reason.SPOOL_UNAVAILABLE, errno.errorcode.get(error.errno or 0, "not written")) from None
