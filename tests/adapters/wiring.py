"""A listener of one test, and a client that sends any bytes to it.

Enters: what answers a request. Leaves: a real server on a loopback port, with ``EdgeProtocol`` as in production, and
``Client``, which reads answers strictly and adds nothing to what it sends.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from gateway.adapters.edge import EdgeProtocol
from gateway.adapters.edge_limits import EdgeLimits
from gateway.adapters.handshakes import HandshakeLimits, Handshakes

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gateway.adapters.downstream import Downstream
    from gateway.adapters.server_certificate import ServerCertificate

PATIENCE_S = 20.0
"""Seconds after which a client that waits in vain fails its test."""


class Served:
    """A server under test."""

    def __init__(self, server: uvicorn.Server, port: int, door: Handshakes | None = None) -> None:
        self.server = server
        self.port = port
        self.door = door

    @property
    def connections(self) -> list[EdgeProtocol]:
        """The connections that are open."""
        return cast("list[EdgeProtocol]", list(self.server.server_state.connections))

    @asynccontextmanager
    async def client(
        self, *, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Client]:
        """Connect; ``receive_buffer`` (bytes) makes a client that can be made to stall the server."""
        made = socket.socket()
        if receive_buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(
            sock=made, limit=1024, ssl=tls, server_hostname="localhost" if tls else None
        )
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def ask(self, data: bytes, *, tls: ssl.SSLContext | None = None) -> Answer:
        """Send one request on a connection of its own and read its answer."""
        async with self.client(tls=tls) as client:
            client.send(data)
            return await client.answer()


@asynccontextmanager
async def serving(
    app: Callable[[Downstream], Awaitable[None]],
    limits: EdgeLimits | None = None,
    *,
    keep_alive_s: float = 60,
    drain_s: int = 1,
    tls: ServerCertificate | None = None,
    failed: Callable[[], None] = lambda: None,
) -> AsyncIterator[Served]:
    """Serve an application that is called with each request, in order; over TLS if there is a certificate."""
    listening = socket.create_server(("127.0.0.1", 0))
    limits = limits or EdgeLimits()
    config = uvicorn.Config(
        cast("Any", app),
        http=cast("Any", functools.partial(EdgeProtocol, limits=limits)),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=cast("int", keep_alive_s),
        timeout_graceful_shutdown=drain_s,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    door = None
    if tls is None:
        await server.startup([listening])
    else:
        server.servers = []
        listening.setblocking(False)
        bounds = HandshakeLimits(limits.head_s, limits.linger_s, limits.connections)
        door = Handshakes(tls, _protocols(config, server), bounds, server.server_state.connections, failed)
    async with asyncio.TaskGroup() as ticking:
        ticking.create_task(server.main_loop())
        accepting = ticking.create_task(door.accept(listening)) if door is not None else None
        try:
            yield Served(server, listening.getsockname()[1], door)
        finally:
            server.should_exit = True
            if accepting is not None:
                accepting.cancel()
                await asyncio.wait((accepting,))
            await server.shutdown([listening])


def _protocols(config: uvicorn.Config, server: uvicorn.Server) -> Callable[[], asyncio.Protocol]:
    """Make protocols as uvicorn does."""
    return lambda: config.http_protocol_class(
        config=config,  # type: ignore[call-arg]  # any class that uvicorn takes has these three
        server_state=server.server_state,
        app_state={},
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it came; ``headers`` by name, each of which may stand once."""

    status: int
    headers: dict[str, str]
    body: bytes


class Cut(Exception):  # noqa: N818  (what happened to the answer)
    """The connection ended before the answer did; the argument is what came of its body."""


class Client:
    """One connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    async def trickle(self, data: bytes, pause_s: float = 0.0) -> None:
        """Send one byte after another, each in a packet of its own, as long as the server listens."""
        made = self._writer.get_extra_info("socket")
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(data)):
            if self._writer.transport.is_closing():
                return
            self._writer.write(data[at : at + 1])
            await asyncio.sleep(pause_s)

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self._writer.write_eof()

    def leave(self) -> None:
        """Go away without a word."""
        self._writer.transport.abort()

    async def answer(self, method: str = "POST") -> Answer:
        """Read one whole answer, interim answers included. Raises ``Cut``."""
        async with asyncio.timeout(PATIENCE_S):
            status, headers = await self.head()
            if method == "HEAD" or status < 200 or status in {204, 304}:
                return Answer(status, headers, b"")
            if "content-length" in headers:
                assert "transfer-encoding" not in headers
                return Answer(status, headers, await self._exactly(int(headers["content-length"])))
            if headers.get("transfer-encoding") == "chunked":
                return Answer(status, headers, await self._chunked())
            return Answer(status, headers, await self.rest())

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read the head of an answer."""
        async with asyncio.timeout(PATIENCE_S):
            start = await self._line()
            version, status = start.split(b" ", 2)[:2]
            assert version == b"HTTP/1.1", start
            headers: dict[str, str] = {}
            while line := await self._line():
                name, colon, value = line.decode("ascii").partition(": ")
                assert colon, line
                assert name == name.lower()
                assert name not in headers, name
                headers[name] = value
            return int(status), headers

    async def chunk(self) -> bytes:
        """Read one chunk; the last one is empty. Raises ``Cut``."""
        async with asyncio.timeout(PATIENCE_S):
            data = await self._exactly(int(await self._line(), 16))
            assert await self._line() == b""
            return data

    async def _chunked(self) -> bytes:
        parts: list[bytes] = []
        while True:
            try:
                part = await self.chunk()
            except Cut:
                raise Cut(b"".join(parts)) from None
            if not part:
                return b"".join(parts)
            parts.append(part)

    async def rest(self) -> bytes:
        """Read until the server closes. Raises ``Cut`` where it resets."""
        parts: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            try:
                while part := await self._reader.read(65536):
                    parts.append(part)
            except ConnectionError:
                raise Cut(b"".join(parts)) from None
        return b"".join(parts)

    async def ended(self) -> bool:
        """Tell whether the connection ends without a further byte, in an orderly way or not."""
        try:
            return await self.rest() == b""
        except Cut as cut:
            return cut.args == (b"",)

    async def silent(self, seconds: float) -> bool:
        """Tell whether nothing comes, not even an end, within some time."""
        try:
            async with asyncio.timeout(seconds):
                await self._reader.read(1)
        except TimeoutError:
            return True
        return False

    async def _line(self) -> bytes:
        try:
            return (await self._reader.readuntil(b"\r\n"))[:-2]
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Cut(b"") from None

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as cut:
            raise Cut(cut.partial) from None
        except ConnectionError:
            raise Cut(b"") from None


def post(body: bytes = b"", *lines: str, target: str = "/", version: str = "1.1") -> bytes:
    """Write a request with a body of known length."""
    head = [f"POST {target} HTTP/{version}", "host: x", f"content-length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


def get(target: str = "/", *lines: str, version: str = "1.1") -> bytes:
    """Write a request without a body."""
    return "\r\n".join([f"GET {target} HTTP/{version}", "host: x", *lines, "", ""]).encode("latin-1")
