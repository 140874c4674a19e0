"""Asks one thing of one origin, on a connection of its own, and says how far it got: the doctor's way out.

Enters: an address, and a request of ours. Leaves: a ``Reply``, always. The target goes out as it is given, since
another spelling of a path is one of the questions. Nothing of the environment takes part: no proxy, no netrc, no
redirect. A token or key stands in the head alone, and in no ``repr``.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Self

from gateway import __version__
from gateway.addresses import Unix, engine_address
from gateway.inquiry import Failure, Reply
from gateway.reasons import Malformed
from gateway.wire.http1 import ResponseReader

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.addresses import EngineAddress, Tcp

AT_MOST = 1024 * 1024
"""Bytes of a body; of a longer one the beginning is kept."""

_AGENT = f"vllm-gateway/{__version__} (probe)"


class Inquirer:
    """The way to one origin (``inquiry.Ask``).

    ``host``: what the Host field says. ``tls``: whom the other side must convince; it speaks plain HTTP without.
    ``server_name``: the name that its certificate must bear. ``bearer``: a key or token of ours.
    """

    def __init__(
        self,
        where: Tcp | Unix,
        host: str,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        bearer: str | None = None,
        connect_s: float = 5.0,
    ) -> None:
        self._where = where
        self._host = host
        self._tls = tls
        self._server_name = server_name
        self._bearer = bearer
        self._connect_s = connect_s

    @classmethod
    def of_origin(cls, address: EngineAddress, tls: ssl.SSLContext | None = None, bearer: str | None = None) -> Self:
        """Lead to what a URL names; over TLS the system's authorities are believed unless others are given."""
        if address.tls and tls is None:
            tls = ssl.create_default_context()
        return cls(address.where, address.host_field, tls=tls if address.tls else None, bearer=bearer)

    async def __call__(self, method: str, target: str, *, within_s: float, body: bytes = b"") -> Reply:
        """Ask; the answer must be whole within a time in seconds."""
        began = perf_counter()
        connecting = True
        try:
            async with asyncio.timeout(within_s):
                async with asyncio.timeout(min(self._connect_s, within_s)):
                    reader, writer = await self._open()
                connecting = False
                try:
                    writer.write(self._head(method, target, len(body)) + body)
                    status, said, content = await _read(reader)
                finally:
                    writer.transport.abort()
        except (TimeoutError, OSError, Malformed) as error:
            failure, detail = _failure(error, connecting=connecting)
            return Reply(failure=failure, detail=detail, seconds=perf_counter() - began)
        return Reply(status, said, content, seconds=perf_counter() - began)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = self._where
        if isinstance(where, Unix):
            return await asyncio.open_unix_connection(where.path)
        name = self._server_name or where.host
        if self._tls is None:
            return await asyncio.open_connection(where.host, where.port)
        return await asyncio.open_connection(where.host, where.port, ssl=self._tls, server_hostname=name)

    def _head(self, method: str, target: str, length: int) -> bytes:
        lines = [f"{method} {target} HTTP/1.1", f"host: {self._host}", f"user-agent: {_AGENT}", "accept: */*"]
        if self._bearer is not None:
            lines.append(f"authorization: Bearer {self._bearer}")
        if length:
            lines += ["content-type: application/json", f"content-length: {length}"]
        return "\r\n".join([*lines, "accept-encoding: identity", "connection: close", "", ""]).encode("latin-1")


async def _read(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read one answer. Raises ``Malformed``, and ``ConnectionError`` when it breaks off."""
    response, parts, size = ResponseReader(), list[bytes](), 0
    while not response.complete and size < AT_MOST:
        data = await reader.read(65536)
        if data:
            response.feed(data)
        elif not response.eof():
            raise ConnectionResetError
        parts.append(response.take())
        size += len(parts[-1])
    fields = {name.decode("latin-1"): value.decode("latin-1").rstrip(" \t") for name, value in response.headers.items()}
    status = response.status
    response.close()
    return status, fields, b"".join(parts)


def _failure(error: Exception, *, connecting: bool) -> tuple[Failure, str]:
    """Name how far a question got, and what the failing part says."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure.TLS, error.verify_message
    if isinstance(error, ssl.SSLError):
        return Failure.TLS, (error.reason or "").lower().replace("_", " ")
    if isinstance(error, TimeoutError):
        return (Failure.NO_CONNECTION if connecting else Failure.SILENT), ""
    if isinstance(error, Malformed):
        return Failure.NOT_HTTP, error.detail
    known: tuple[tuple[type[Exception], Failure], ...] = (
        (ConnectionRefusedError, Failure.REFUSED),
        (FileNotFoundError, Failure.NO_SOCKET),
        (PermissionError, Failure.NOT_PERMITTED),
        (socket.gaierror, Failure.NO_NAME),
        (ConnectionError, Failure.BROKE_OFF),
    )
    return next((failure for kind, failure in known if isinstance(error, kind)), Failure.NOT_REACHED), ""


def origin(url: str) -> tuple[EngineAddress, str]:
    """Take a URL apart: its origin, and the target on it. Raises ``ValueError``."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return engine_address(f"{scheme}://{authority}"), slash + path or "/"


def pinned(certificate: Path) -> ssl.SSLContext:
    """Believe the certificates of one file alone, whatever names they bear: those of a listener of our own.

    Raises ``OSError``.
    """
    tls = ssl.create_default_context(cafile=certificate)
    tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    tls.check_hostname = False
    return tls


def own_addresses() -> list[str]:
    """Give the addresses by which other hosts reach this one, as the routes to far away tell; nothing is sent."""
    found = []
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):  # RFC 5737, RFC 3849
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            found.append(str(probe.getsockname()[0]))
    return found
