"""Where the gateway listens and where engines and ledgers are: texts of the environment, read once.

Enters: ``127.0.0.1:8080``, ``[::1]:9090``, ``unix:/run/gateway.sock``, ``http://127.0.0.1:8000``,
``https://engine.internal``, ``valkeys://cache.internal``. Leaves: the parts, so that nothing later takes a URL
apart. Errors are ``ValueError`` with a sentence that names no value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

_HOST = r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?))"
_HOST_PORT = re.compile(_HOST + r"(?::(?P<port>[0-9]{1,5}))?")
_URL = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_LEDGER = re.compile(
    r"(?P<scheme>valkeys?|rediss?)://(?:(?P<name>[^@/?#]*)@)?(?P<authority>[^@/?#]*)(?:/(?P<database>[0-9]{1,5})?)?"
)
_UNIX = "unix:"
_LONGEST_UNIX_PATH = 107  # sun_path holds 108 bytes on Linux, the last one NUL
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Tcp:
    """A TCP address. ``host`` is without brackets."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Unix:
    """A Unix socket. It counts as loopback: the file system says who may reach it."""

    path: str
    loopback: Literal[True] = True

    def __str__(self) -> str:
        return f"{_UNIX}{self.path}"


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """The origin of an engine. ``host_field`` is what the ``Host`` field of a request to it says."""

    where: Tcp | Unix
    tls: bool
    host_field: str

    @property
    def plain_beyond_loopback(self) -> bool:
        """Whether prompts and the engine's key would cross a network in the clear."""
        return not self.tls and not self.where.loopback

    def __str__(self) -> str:
        return str(self.where) if isinstance(self.where, Unix) else f"{'https' if self.tls else 'http'}://{self.where}"


@dataclass(frozen=True, slots=True)
class LedgerAddress:
    """A server of Valkey or Redis: its address, the number of the database, and the name to sign in with."""

    where: Tcp | Unix
    tls: bool
    database: int = 0
    name: str | None = None

    def __str__(self) -> str:
        scheme = "" if isinstance(self.where, Unix) else "valkeys://" if self.tls else "valkey://"
        return f"{scheme}{self.where}/{self.database}"


def listener_address(text: str) -> Tcp | Unix:
    """Read the address of a listener."""
    if text.startswith(_UNIX):
        return _unix(text)
    match = _HOST_PORT.fullmatch(text)
    if match is None or match["port"] is None:
        raise ValueError("must be an address with a port, such as 127.0.0.1:8080 or [::1]:8080, or unix:/path")
    host, port = _parts(match)
    if not is_loopback(host):
        try:
            ip_address(host)
        except ValueError:
            raise ValueError("must name an IP address or localhost: a name could resolve to any interface") from None
    return Tcp(host, port)


def engine_address(text: str) -> EngineAddress:
    """Read the URL of an engine: an origin alone, since the paths are the gateway's."""
    if text.startswith(_UNIX):
        return EngineAddress(_unix(text), tls=False, host_field="localhost")
    match = _URL.fullmatch(text)
    authority = match and _HOST_PORT.fullmatch(match["authority"])
    if match is None or not authority:
        raise ValueError("must be a URL such as http://127.0.0.1:8000 or https://engine.internal, or unix:/path")
    if match["rest"] not in {"", "/"}:
        raise ValueError("must be an origin without a path such as /v1: the gateway adds the paths itself")
    tls = match["scheme"] == "https"
    host, port = _parts(authority, default=443 if tls else 80)
    default = authority["port"] is None
    return EngineAddress(
        Tcp(host, port), tls=tls, host_field=bracketed(host) if default else f"{bracketed(host)}:{port}"
    )


def ledger_address(text: str) -> LedgerAddress:
    """Read the URL of a ledger's server; a password in it is refused, since URLs get into logs."""
    if text.startswith(_UNIX):
        return LedgerAddress(_unix(text), tls=False)
    match = _LEDGER.fullmatch(text)
    if match is None:
        raise ValueError("must be memory://, or a URL such as valkey://127.0.0.1:6379 or valkeys://host:6379/0")
    if ":" in (match["name"] or ""):
        raise ValueError("must hold no password: that is GATEWAY_LEDGER_PASSWORD, or …_FILE")
    authority = _HOST_PORT.fullmatch(match["authority"])
    if authority is None:
        raise ValueError("must name a host, such as valkey://127.0.0.1:6379")
    host, port = _parts(authority, default=6379)
    return LedgerAddress(
        Tcp(host, port), match["scheme"] in {"valkeys", "rediss"}, int(match["database"] or 0), match["name"]
    )


def is_loopback(host: str) -> bool:
    """Tell whether a host, without brackets, is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def bracketed(host: str) -> str:
    """Give a host as it stands in a URL (RFC 3986 §3.2.2)."""
    return f"[{host}]" if ":" in host else host


def _unix(text: str) -> Unix:
    path = text.removeprefix(_UNIX)
    if not path.startswith("/") or "\0" in path or len(path.encode()) > _LONGEST_UNIX_PATH:
        raise ValueError(f"must have an absolute path of at most {_LONGEST_UNIX_PATH} bytes after unix:")
    return Unix(path)


def _parts(match: re.Match[str], default: int = 0) -> tuple[str, int]:
    """Give host and port; port 0 and those above 65535 do not exist."""
    if match["six"] is not None:
        try:
            host = str(ip_address(match["six"]))
        except ValueError:
            raise ValueError("must have an IPv6 address between the brackets") from None
    else:
        host = match["name"]
    port = default if match["port"] is None else int(match["port"])
    if not 0 < port <= _HIGHEST_PORT:
        raise ValueError(f"must have a port between 1 and {_HIGHEST_PORT}")
    return host, port
