"""An engine that a test plays itself, byte by byte, and a gateway of nothing but edge, relay and pool in front of it.

Enters: a coroutine that plays the engine's part in one request. Leaves: ``Relaying``, with the listener to ask, the
pool, and what became of each dispatch.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gateway.adapters.engine import Engine
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.metrics import Metrics
from gateway.adapters.relay import Relay
from gateway.addresses import engine_address
from gateway.dialects.registry import DIALECTS
from gateway.policy.model import Deadlines
from gateway.ports import Delivery, Ending, UpstreamRequest
from gateway.reasons import ANSWERS, Unavailable
from tests.adapters.wiring import post, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gateway.adapters.downstream import Downstream
    from gateway.dialects.meter import Meter
    from tests.adapters.wiring import Served

DEADLINES = Deadlines(5, 5, 10)
LAST = b"0\r\n\r\n"

_LENGTH = re.compile(rb"content-length: ([0-9]+)\r\n")


def head(*lines: str, status: str = "200 OK") -> bytes:
    """Write the head of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


def whole(body: bytes, *lines: str, status: str = "200 OK") -> bytes:
    """Write a whole answer."""
    return head("content-type: application/json", f"content-length: {len(body)}", *lines, status=status) + body


def chunk(data: bytes) -> bytes:
    """Write one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


STREAM = head("content-type: text/event-stream; charset=utf-8", "transfer-encoding: chunked")


class Line:
    """The engine's end of one connection, with one request on it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.head = b""
        self.body = b""
        self._reader = reader
        self._writer = writer
        self.transport = writer.transport
        made = writer.get_extra_info("socket")
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def read(self) -> bool:
        """Read the next request; tell whether there was one."""
        try:
            self.head = await self._reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(self.head)
            self.body = await self._reader.readexactly(int(length[1])) if length else b""
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        return True

    async def send(self, data: bytes, *, step: int = 0) -> None:
        """Send bytes, where ``step`` is given in pieces of that many, each in a packet of its own."""
        step_bytes = step or len(data) or 1
        for at in range(0, len(data), step_bytes):
            self._writer.write(data[at : at + step_bytes])
            await self._writer.drain()
            if step:
                await asyncio.sleep(0)

    async def gone(self) -> None:
        """Wait until the other side has closed."""
        try:
            while await self._reader.read(65536):
                pass
        except ConnectionError:
            pass

    def close(self) -> None:
        """Close behind what was sent."""
        self._writer.close()

    def reset(self) -> None:
        """End the connection with a reset."""
        made = self._writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Play: TypeAlias = "Callable[[Line], Awaitable[None]]"


MODELS = whole(b'{"data":[{"id":"local"}]}')


def warmed(play: Play) -> Play:
    """Play an engine that answers the gateway's own questions as it should, and everybody else's as told."""

    async def played(line: Line) -> None:
        if b"(probe)" in line.head:
            await line.send(MODELS if line.head.startswith(b"GET") else whole(b'{"choices":[]}'))
        else:
            await play(line)

    return played


class PlayedEngine:
    """A running engine; ``play`` is called for each request, and the connection goes on unless it was closed."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.lines: list[Line] = []
        self.asked = 0
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        line = Line(len(self.lines), reader, writer)
        self.lines.append(line)
        self.open += 1
        try:
            while not line.transport.is_closing() and await line.read():
                self.asked += 1
                await self.play(line)
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def playing(play: Play) -> AsyncIterator[tuple[PlayedEngine, str]]:
    """Run an engine; give it with its URL."""
    engine = PlayedEngine(play)
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0, limit=1 << 20)
    try:
        yield engine, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for _ in range(200):
            if not engine.open:
                break
            await asyncio.sleep(0.005)
        assert not engine.open, "connections to the engine were left open"


def ready_engine(*pools: EnginePool, key: str | None = None) -> Engine:
    """Give an engine whose replicas have been warmed up, as far as it knows."""
    engine = Engine("main", [EngineClient(pool, key) for pool in pools], 0, time.monotonic)
    for replica in engine.replicas:
        replica.circuit.pass_trial()
    return engine


@dataclass
class Relaying:
    """What a test looks at: ``deliveries`` has one entry for each dispatch that ended, ``meters`` for each begun."""

    served: Served
    engine: PlayedEngine
    pool: EnginePool
    metrics: Metrics
    deliveries: list[Delivery]
    meters: list[Meter]

    async def delivery(self, number: int = 0) -> Delivery:
        """Wait until a dispatch has ended."""
        for _ in range(1000):
            if len(self.deliveries) > number:
                return self.deliveries[number]
            await asyncio.sleep(0.005)
        raise AssertionError("no delivery")


@asynccontextmanager
async def relaying(
    play: Play,
    *,
    deadlines: Deadlines = DEADLINES,
    idle: int = 64,
    keep_alive_s: float = 30,
    silence_s: float = 15,
    url: str | None = None,
) -> AsyncIterator[Relaying]:
    """Relay each request to a played engine, or to ``url``; a body with the word ``stream`` asks for a stream.

    With ``hide``, the gateway alone asked for the count.
    """
    async with playing(play) as (engine, its_url):
        pool = EnginePool(engine_address(url or its_url), idle=idle, keep_alive_s=keep_alive_s, connect_s=2)
        metrics = Metrics()
        deliveries: list[Delivery] = []
        meters: list[Meter] = []
        relay = Relay({"main": ready_engine(pool, key="KEY")}, metrics, silence_s)

        async def app(inbound: Downstream) -> None:
            body = await inbound.read_body(1 << 20)
            request = UpstreamRequest(
                "0123456789abcdef" * 2,
                "public",
                "main",
                "POST",
                "/v1/chat/completions",
                body,
                b"stream" in body,
                DIALECTS["openai-chat"],
                deadlines,
                [b"x-request-id: 1\r\n"],
                hides_usage=b"hide" in body,
            )
            meters.append(request.meter)
            try:
                delivery = await relay.forward(request, inbound)
            except Unavailable as unavailable:
                delivery = Delivery(Ending.FAILED, unavailable.reason, unavailable.detail)
            answer, reason = delivery.answer, delivery.reason
            if answer is not None:
                inbound.answer(answer.status, [], answer.body)
            elif reason is not None and not inbound.answered:
                inbound.answer(ANSWERS[reason].status, [], f"{reason} {delivery.detail}".encode())
            deliveries.append(delivery)

        try:
            async with serving(app) as served:
                yield Relaying(served, engine, pool, metrics, deliveries, meters)
            for _ in range(200):
                if engine.open == pool.idle:
                    break
                await asyncio.sleep(0.005)
            assert engine.open == pool.idle, "a connection belongs to nobody"
        finally:
            pool.close()


ASK = post(b'{"a":1}')
ASK_STREAM = post(b'{"stream":true}')
