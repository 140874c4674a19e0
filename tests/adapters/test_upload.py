"""A form's file goes to the engine as fast as the engine takes it, and no further than somebody waits for it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.metrics import Metrics
from gateway.adapters.relay import Relay
from gateway.addresses import engine_address
from gateway.dialects.registry import DIALECTS
from gateway.policy.model import Deadlines
from gateway.ports import Delivery, Ending, Upload, UpstreamRequest
from gateway.reasons import Reason, Unavailable
from tests.adapters.relaying import playing, ready_engine, whole
from tests.adapters.wiring import post, serving

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from gateway.adapters.downstream import Downstream
    from tests.adapters.relaying import Line, Play, PlayedEngine
    from tests.adapters.wiring import Served

pytestmark = pytest.mark.usefixtures("nothing_left")

PIECE = b"x" * 65536
MANY = 400
TEXT = b'{"text":"hi"}'


@dataclass
class Kept:
    """A spool of equal pieces, of which only ``lost`` can be read, if it is set."""

    count: int = 3
    lost: int | None = None
    read: int = 0
    closed: bool = False

    @property
    def size(self) -> int:
        return len(PIECE) * self.count

    @size.setter
    def size(self, _size: int) -> None:
        raise AssertionError("nothing is written here")

    async def write(self, data: bytes) -> None:
        raise AssertionError("nothing is written here")

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        for number in range(self.count):
            if number == self.lost:
                raise Unavailable(Reason.SPOOL_UNAVAILABLE, "EIO")
            self.read += 1
            yield PIECE

    def close(self) -> None:
        self.closed = True


@dataclass
class Uploading:
    """A relay in front of a played engine, and what became of each form."""

    served: Served
    engine: PlayedEngine
    pool: EnginePool
    ends: list[Delivery | Unavailable] = field(default_factory=list)

    async def end(self, number: int = 0) -> Delivery | Unavailable:
        """Wait until a form has ended."""
        for _ in range(1000):
            if len(self.ends) > number:
                return self.ends[number]
            await asyncio.sleep(0.005)
        raise AssertionError("the form did not end")


@asynccontextmanager
async def uploading(play: Play, spool: Kept, deadlines: Deadlines | None = None) -> AsyncIterator[Uploading]:
    """Relay each request as a form with the spool's content in it."""
    async with playing(play) as (engine, url):
        pool = EnginePool(engine_address(url), idle=4, keep_alive_s=30, connect_s=2)
        relay = Relay({"main": ready_engine(pool, key="KEY")}, Metrics(), 15)

        async def app(inbound: Downstream) -> None:
            await inbound.read_body(1 << 20)
            request = UpstreamRequest(
                "0123456789abcdef" * 2,
                "public",
                "main",
                "POST",
                "/v1/audio/transcriptions",
                b"first",
                stream=False,
                dialect=DIALECTS["openai-transcriptions"],
                deadlines=deadlines or Deadlines(5, 5, 10),
                lines=[],
                upload=Upload("B", spool, b"last"),
            )
            try:
                running.ends.append(await relay.forward(request, inbound))
            except Unavailable as unavailable:
                running.ends.append(unavailable)
                inbound.answer(503, [], b"")

        try:
            async with serving(app) as served:
                running = Uploading(served, engine, pool)
                yield running
        finally:
            pool.close()


async def answering(line: Line) -> None:
    await line.send(whole(TEXT))


async def test_a_form_is_sent_whole_and_its_connection_is_used_again() -> None:
    spool = Kept()
    async with uploading(answering, spool) as running:
        for _ in range(2):
            answer = await running.served.ask(post(b"{}"))
            assert (answer.status, answer.body) == (200, TEXT)
        (line,) = running.engine.lines
        assert line.body == b"first" + PIECE * 3 + b"last"
        assert b"content-type: multipart/form-data; boundary=B\r\n" in line.head
        assert b"content-length: %d\r\n" % len(line.body) in line.head
        assert running.engine.asked == 2


async def test_a_connection_that_went_stale_is_replaced_and_the_file_read_again() -> None:
    async def once(line: Line) -> None:
        await answering(line)
        line.close()

    async with uploading(once, Kept()) as running:
        for _ in range(2):
            assert (await running.served.ask(post(b"{}"))).status == 200
        assert [len(line.body) for line in running.engine.lines] == [len(PIECE) * 3 + 9] * 2


@asynccontextmanager
async def heads_only(answer: bytes) -> AsyncIterator[tuple[str, list[asyncio.StreamWriter]]]:
    """Run an engine that reads the head of a request, sends an answer, and reads no further."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
        writer.write(answer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", writers
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@dataclass
class Behind:
    """A relay in front of an engine that reads heads only."""

    served: Served
    pool: EnginePool
    ends: list[Delivery | Unavailable]


@asynccontextmanager
async def stalled(spool: Kept, answer: bytes = b"", total: float = 10) -> AsyncIterator[Behind]:
    async with heads_only(answer) as (url, _):
        pool = EnginePool(engine_address(url), idle=4, keep_alive_s=30, connect_s=2)
        relay = Relay({"main": ready_engine(pool)}, Metrics(), 15)
        ends: list[Delivery | Unavailable] = []

        async def app(inbound: Downstream) -> None:
            await inbound.read_body(1 << 20)
            upload = Upload("B", spool, b"last")
            dialect = DIALECTS["openai-transcriptions"]
            request = UpstreamRequest(
                "0" * 32, "public", "main", "POST", "/", b"", False, dialect, Deadlines(5, 5, total), [], upload
            )
            delivery = await relay.forward(request, inbound)
            ends.append(delivery)
            if not inbound.answered:
                inbound.answer(504, [], str(delivery.detail).encode())

        async with serving(app) as served:
            yield Behind(served, pool, ends)
        pool.close()


async def test_an_engine_that_answers_early_gets_no_more_of_the_file_and_no_other_request() -> None:
    spool = Kept(MANY)
    async with stalled(spool, whole(b'{"error":{"message":"too large"}}', status="413 Too Large")) as behind:
        answer = await behind.served.ask(post(b"{}"))
        (delivery,) = behind.ends
        assert isinstance(delivery, Delivery)
        assert delivery.answer is not None
        assert (answer.status, delivery.ending, delivery.answer.status) == (504, Ending.ANSWERED, 413)
        assert spool.read < MANY
        assert behind.pool.idle == 0


async def test_an_engine_that_does_not_read_holds_the_file_back_and_runs_out_of_time() -> None:
    spool = Kept(MANY)
    async with stalled(spool, total=0.3) as behind:
        answer = await behind.served.ask(post(b"{}"))
        assert (answer.status, answer.body) == (504, b"total")
    assert 0 < spool.read < MANY  # the engine's silence held the file back


async def test_a_client_that_leaves_ends_the_sending() -> None:
    spool = Kept(MANY)
    async with stalled(spool) as behind:
        async with behind.served.client() as client:
            client.send(post(b"{}"))
            for _ in range(1000):
                if spool.read:
                    break
                await asyncio.sleep(0.005)
        for _ in range(1000):
            if behind.ends:
                break
            await asyncio.sleep(0.005)
        (delivery,) = behind.ends
        assert isinstance(delivery, Delivery)
        assert delivery.ending is Ending.CLIENT_LEFT
        assert spool.read < MANY


async def test_a_file_that_cannot_be_read_on_ends_the_form_unfinished() -> None:
    async with uploading(answering, Kept(3, lost=1)) as running:
        assert (await running.served.ask(post(b"{}"))).status == 503
        end = await running.end()
        assert isinstance(end, Unavailable)
        assert end.reason is Reason.SPOOL_UNAVAILABLE
        assert running.pool.idle == 0
