"""The sockets of listeners: bound before anything is served, and left behind by nobody.

Enters: an address of the settings, or sockets that whoever started this process has bound already (``LISTEN_FDS``, as
systemd does). Leaves: a bound socket that does not listen yet. Only members of the group may connect to a Unix socket.
"""

from __future__ import annotations

import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.addresses import Tcp, Unix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOCKET_MODE = 0o660
FIRST_INHERITED = 3
"""The number of the first socket that is handed over (sd_listen_fds(3))."""


class Unusable(Exception):  # noqa: N818  (says what is so)
    """A listener or file cannot be opened; the text is a sentence."""


def bind(address: Tcp | Unix) -> socket.socket:
    """Give a socket of this address. Raises ``OSError``."""
    family, where = _place(address)
    if isinstance(address, Unix):
        _clear(Path(address.path))
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        if isinstance(address, Unix):  # before it listens, so that nobody else could come in between
            Path(address.path).chmod(SOCKET_MODE)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)  # noqa: FBT003  (the standard library's signature)
    return bound


def release(address: Tcp | Unix) -> None:
    """Remove a Unix socket that is no longer served."""
    if isinstance(address, Unix):
        Path(address.path).unlink(missing_ok=True)


def inherited(environ: Mapping[str, str], process: int, first: int = FIRST_INHERITED) -> list[socket.socket]:
    """Give the sockets that were handed to this process, of that number (sd_listen_fds(3)). Raises ``Unusable``."""
    if environ.get("LISTEN_PID") != str(process):
        return []  # they were for another one
    count = environ.get("LISTEN_FDS", "")
    if not count.isascii() or not count.isdigit():
        raise Unusable("LISTEN_FDS is no number: it is set by whoever hands sockets over, such as systemd.")
    found = []
    for number in range(first, first + int(count)):
        try:
            one = socket.socket(fileno=number)
        except OSError:
            raise Unusable(f"LISTEN_FDS speaks of descriptor {number}, which is no socket.") from None
        if one.type != socket.SOCK_STREAM:
            one.close()
            raise Unusable(f"LISTEN_FDS hands over descriptor {number}, which takes no connections: use ListenStream=.")
        one.setblocking(False)  # noqa: FBT003  (the standard library's signature)
        one.set_inheritable(False)
        found.append(one)
    return found


def assigned(listeners: Mapping[str, Tcp | Unix], handed: Iterable[socket.socket]) -> dict[str, socket.socket]:
    """Say which listener each of these sockets is for: the one of its address. Raises ``Unusable`` for one of none."""
    places = {_place(address): name for name, address in listeners.items()}
    found: dict[str, socket.socket] = {}
    for one in handed:
        where = one.getsockname()
        name = places.get((one.family, where if isinstance(where, str) else where[:2]))
        if name is None or name in found:
            shown = where if isinstance(where, str) else f"{where[0]}:{where[1]}"
            raise Unusable(
                f"LISTEN_FDS hands over a socket of {shown}, which is the address of no listener, or of one that has a "
                "socket already: let GATEWAY_LISTENERS__… and ListenStream= of the socket unit say the same."
            )
        found[name] = one
    return found


def _place(address: Tcp | Unix) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """Give family and address as the system writes them."""
    if isinstance(address, Unix):
        return socket.AF_UNIX, address.path
    host = "127.0.0.1" if address.host.lower() == "localhost" else address.host
    return socket.AF_INET6 if ":" in host else socket.AF_INET, (host, address.port)


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
