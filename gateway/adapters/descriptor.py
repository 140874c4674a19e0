"""A file, pipe or socket to append to: a write takes what it can at once, or says that it would have to wait.

Enters: a path, or the standard output of the process. Leaves: ``Descriptor``. Standard output is shared with whoever
started us, so its mode is never changed: it is opened a second time, and where the system cannot do that, sockets are
told per write not to wait.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

_MODE = 0o640
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Descriptor:
    """An open descriptor, owned."""

    def __init__(self, number: int) -> None:
        self.number = number
        status = os.fstat(number)
        self._file = (status.st_dev, status.st_ino)
        self._socket = socket.socket(fileno=number) if stat.S_ISSOCK(status.st_mode) else None

    @classmethod
    def of_path(cls, path: str) -> Descriptor:
        """Open a file to append to, readable by its group at most. Raises ``OSError``."""
        return cls(os.open(path, _FLAGS | os.O_CREAT, _MODE))

    @classmethod
    def of(cls, number: int) -> Descriptor:
        """Open what another descriptor stands for once more, or duplicate it where that is impossible."""
        try:
            return cls(os.open(f"/dev/fd/{number}", _FLAGS))
        except OSError:  # a socket, as journald gives; or a terminal that belongs to somebody else
            return cls(os.dup(number))

    def write(self, data: bytes) -> int:
        """Write bytes and give how many. Raises ``BlockingIOError`` where it would wait, and ``OSError``."""
        if self._socket is not None:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        return os.write(self.number, data)

    def is_at(self, path: str) -> bool:
        """Tell whether a path still names this file."""
        try:
            status = Path(path).stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._file

    def close(self) -> None:
        """Close it."""
        if self._socket is not None:
            self._socket.close()
        else:
            os.close(self.number)
