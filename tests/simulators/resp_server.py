"""A server that speaks the protocol of Redis (RESP 2) and says what a test tells it to say."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gateway.addresses import LedgerAddress, Tcp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from ssl import SSLContext

OK = b"+OK\r\n"
HANG = b""
"""An answer that never comes."""


def numbers(*values: int) -> bytes:
    """Write a list of whole numbers."""
    return b"*%d\r\n" % len(values) + b"".join(b":%d\r\n" % value for value in values)


class RespServer:
    """Answers each command that is not part of signing in with the next of ``answers``, or else with the last."""

    def __init__(self, port: int, *, tls: bool) -> None:
        self.address = LedgerAddress(Tcp("127.0.0.1", port), tls=tls)
        self.answers: list[bytes] = [OK]
        self.asked: list[list[bytes]] = []
        self.signed_in: list[list[bytes]] = []
        self._came = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until its client leaves."""
        try:
            while True:
                command = await _command(reader)
                if command[0] in {b"AUTH", b"CLIENT", b"SELECT"}:
                    self.signed_in.append(command)
                    writer.write(OK)
                    continue
                async with self._came:
                    self.asked.append(command)
                    self._came.notify_all()
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer == HANG:
                    await reader.read()
                    return
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def wait_for(self, count: int) -> None:
        """Wait until so many commands have come."""
        async with self._came:
            await self._came.wait_for(lambda: len(self.asked) >= count)


async def _command(reader: asyncio.StreamReader) -> list[bytes]:
    count = int((await reader.readuntil(b"\r\n"))[1:])
    parts = []
    for _ in range(count):
        size = int((await reader.readuntil(b"\r\n"))[1:])
        parts.append((await reader.readexactly(size + 2))[:-2])
    return parts


@asynccontextmanager
async def resp_server(tls: SSLContext | None = None) -> AsyncIterator[RespServer]:
    """Run one on a free port, over TLS if told how."""
    made: list[RespServer] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made[0].serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    made.append(RespServer(server.sockets[0].getsockname()[1], tls=tls is not None))
    try:
        yield made[0]
    finally:
        server.close()
