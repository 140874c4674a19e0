"""Several processes append to one file, pipe or socket, one after the other and never into each other's lines.

Enters: a ``Descriptor`` and what is to be written: whole lines. Leaves: a descriptor that writes when it is this
process's turn. The kernel keeps writes to a regular file apart, but not what a full disk or a pipe took in two parts
(POSIX.1-2024, write: only up to PIPE_BUF at once). Whoever dies in the middle of a line leaves a mark: the next one
ends that line before its own.
"""

from __future__ import annotations

import fcntl
import os
import select
import tempfile
from typing import TYPE_CHECKING

from gateway.adapters.descriptor import Descriptor

if TYPE_CHECKING:
    from typing import Self

_BEGUN, _WHOLE = b"1", b"0"


class WriteTurns:
    """Whose turn it is: a lock on a file that all of them have open, which the system frees when its holder dies.

    ``marked``: whether the last turn ended within a line, as known since the beginning of this one.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.marked = False
        self._taken = False

    @classmethod
    def new(cls) -> Self:
        """Make the file, which has no name, and on Linux no disk either."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("write-turns"))
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def of(self, descriptor: Descriptor) -> Descriptor:
        """Give a descriptor to the same place that waits for its turn. It takes the other one over."""
        return _InTurn(descriptor, self)

    def take(self) -> None:
        """Begin a turn, or go on with it. Raises ``BlockingIOError`` while it is another's."""
        if not self._taken:
            try:
                fcntl.lockf(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except PermissionError as error:  # EACCES says the same as EAGAIN (POSIX.1-2024, fcntl)
                raise BlockingIOError(error.errno, error.strerror) from None
            self._taken = True
            self.marked = os.pread(self.number, 1, 0) == _BEGUN

    def mark(self, *, begun: bool) -> None:
        """Note whether a line is begun and not whole."""
        if begun != self.marked:
            os.pwrite(self.number, _BEGUN if begun else _WHOLE, 0)
            self.marked = begun

    def give(self) -> None:
        """End the turn."""
        if self._taken:
            fcntl.lockf(self.number, fcntl.LOCK_UN)
            self._taken = False


class _InTurn(Descriptor):
    """Writes to where another descriptor writes; a turn lasts until whole lines are out."""

    def __init__(self, descriptor: Descriptor, turns: WriteTurns) -> None:
        self._descriptor = descriptor
        self._turns = turns
        self._within = False  # a line of ours is begun

    def write(self, data: bytes) -> int:
        """Write bytes and give how many. Raises ``BlockingIOError`` where it would wait, and ``OSError``."""
        turns = self._turns
        turns.take()
        broken = turns.marked and not self._within
        try:
            if broken:
                self._descriptor.write(b"\n")
                broken = False
            turns.mark(begun=self._within or len(data) > select.PIPE_BUF)
            written = self._descriptor.write(data)
            self._within = not data.endswith(b"\n", 0, written)
        finally:
            turns.mark(begun=broken or self._within)
            if not self._within:
                turns.give()
        return written

    def is_at(self, path: str) -> bool:
        """Tell whether a path still names this file."""
        return self._descriptor.is_at(path)

    def close(self) -> None:
        """Close it, and let others write behind what was begun."""
        self._within = False
        self._turns.give()
        self._descriptor.close()
