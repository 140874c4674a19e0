"""A way to the server that takes its time, as one to another building does.

Enters: the server's port and seconds. Leaves: another port, from which each answer comes so much later.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOST = "127.0.0.1"


@asynccontextmanager
async def late(port: int, seconds: float) -> AsyncIterator[int]:
    """Pass on what comes, within this block."""

    async def passes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, after: float) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(after)
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(HOST, port)
        await asyncio.gather(passes(reader, forth, 0.0), passes(back, writer, seconds))

    async with await asyncio.start_server(serve, HOST, 0) as listening:
        yield int(listening.sockets[0].getsockname()[1])
