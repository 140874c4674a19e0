"""The sockets of listeners: bound before anything is served, and left behind by nobody.

Enters: an address of the settings. Leaves: a bound TCP socket, or the way cleared for a Unix socket that uvicorn makes.
Only members of the group may connect to that one.
"""

from __future__ import annotations

import socket
import stat
from pathlib import Path

from gateway.addresses import Tcp, Unix

SOCKET_MODE = 0o660


class Unusable(Exception):  # noqa: N818  (says what is so)
    """A listener or file cannot be opened; the text is a sentence."""


def bind(address: Tcp | Unix) -> list[socket.socket] | None:
    """Give the socket of a TCP address; ``None`` for a Unix socket, whose path is free then. Raises ``OSError``."""
    if isinstance(address, Unix):
        _clear(Path(address.path))
        return None
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address.host, address.port))
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)  # noqa: FBT003  (the standard library's signature)
    return [bound]


def give_way(address: Tcp | Unix) -> None:
    """Let the group, and nobody else, connect to a Unix socket."""
    if isinstance(address, Unix):
        Path(address.path).chmod(SOCKET_MODE)


def release(address: Tcp | Unix) -> None:
    """Remove a Unix socket that is no longer served."""
    if isinstance(address, Unix):
        Path(address.path).unlink(missing_ok=True)


def _clear(path: Path) -> None:
    """Remove the socket that a killed process left behind; never a file, nor a socket that somebody answers on."""
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise OSError(None, "a file that is no socket is in the way")
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise OSError(None, "another process listens there")
    path.unlink()
