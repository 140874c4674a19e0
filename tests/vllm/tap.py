"""A TCP port that passes bytes to an engine and back, and remembers what the gateway sent and when it left.

It changes nothing, but the engine may be exchanged behind it. With it, one vLLM on a Unix socket is also an engine over
TCP, and the tests see what the engine's own log does not tell: the header fields that arrived, and the moment in which
a connection was closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.vllm.real_engine import RealEngine


@dataclass(slots=True)
class Tapped:
    """One connection of the gateway. ``left`` is when it was closed, on the monotonic clock; ``None`` while open."""

    sent: bytearray = field(default_factory=bytearray, repr=False)
    left: float | None = None


class Tap:
    """Listens on a free port of loopback for as long as it is entered; new connections go to ``engine``."""

    def __init__(self, engine: RealEngine) -> None:
        self.engine = engine
        self.connections: list[Tapped] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        """Start listening."""
        self._thread.start()
        self._listening.wait()
        return self

    def __exit__(self, *_: object) -> None:
        """Close every connection."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def mark(self) -> list[int]:
        """Give a place in what the gateway sends: how much came on each connection."""
        return [len(connection.sent) for connection in self.connections]

    def sent(self, mark: Sequence[int] = ()) -> bytes:
        """Give all that the gateway sent so far, or after a mark, connection after connection."""
        pairs = zip_longest(self.connections, mark, fillvalue=0)
        return b"\r\n".join(bytes(one.sent[start:]) for one, start in pairs if isinstance(one, Tapped))

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks: set[asyncio.Task[None]] = set()

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = group.create_task(self._join(reader, writer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            self._listening.set()
            await self._stop.wait()
            server.close()
            for task in tasks:
                task.cancel()

    async def _join(self, gateway: asyncio.StreamReader, to_gateway: asyncio.StreamWriter) -> None:
        tapped = Tapped()
        self.connections.append(tapped)
        with contextlib.closing(to_gateway), contextlib.suppress(OSError):
            if self.engine.port is None:
                engine, to_engine = await asyncio.open_unix_connection(str(self.engine.socket_path))
            else:
                engine, to_engine = await asyncio.open_connection("127.0.0.1", self.engine.port)
            with contextlib.closing(to_engine):
                back = asyncio.ensure_future(self._pass(engine, to_gateway))
                back.add_done_callback(lambda _: to_gateway.close())
                try:
                    while data := await gateway.read(65536):
                        tapped.sent += data
                        to_engine.write(data)
                finally:
                    tapped.left = time.monotonic()
                    back.cancel()

    @staticmethod
    async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
