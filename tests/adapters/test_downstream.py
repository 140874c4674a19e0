"""How an answer is framed, and how it ends when it cannot be whole."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.edge_limits import EdgeLimits
from gateway.reasons import Malformed, Reason
from tests.adapters.wiring import Cut, get, post, serving

if TYPE_CHECKING:
    from gateway.adapters.downstream import Downstream

pytestmark = pytest.mark.usefixtures("nothing_left")

MIB = 1024 * 1024
LINES = [b"x-a: 1\r\n"]


class Listener:
    """Takes the place of the relay's exchange, and counts what it is told."""

    def __init__(self) -> None:
        self.left = 0
        self.ready = 0
        self.told = asyncio.Event()

    def client_left(self) -> None:
        self.left += 1
        self.told.set()

    def client_ready(self) -> None:
        self.ready += 1
        self.told.set()


async def test_a_whole_answer_has_its_length_and_the_servers_date() -> None:
    async def app(request: Downstream) -> None:
        before = request.answered
        request.answer(404, iter(LINES), b"abc")
        assert (before, request.answered, request.bytes_out) == (False, True, 3)

    async with serving(app) as server, server.client() as client:
        client.send(get())
        answer = await client.answer()
        assert (answer.status, answer.body) == (404, b"abc")
        assert set(answer.headers) == {"date", "x-a", "content-length"}


async def test_an_answer_to_head_has_the_length_and_no_body() -> None:
    async def app(request: Downstream) -> None:
        request.answer(405, [], b"abc")
        assert request.bytes_out == 0

    async with serving(app) as server, server.client() as client:
        client.send(get().replace(b"GET", b"HEAD") * 2)
        for _ in range(2):
            answer = await client.answer("HEAD")
            assert (answer.status, answer.headers["content-length"]) == (405, "3")


async def test_a_streamed_answer_of_known_length_is_not_chunked() -> None:
    async def app(request: Downstream) -> None:
        request.start(200, LINES, 5, b"ab")
        request.write(b"cde")
        request.finish()
        assert request.bytes_out == 5

    async with serving(app) as server, server.client() as client:
        for _ in range(2):
            client.send(get())
            answer = await client.answer()
            assert (answer.body, answer.headers["content-length"]) == (b"abcde", "5")
            assert "transfer-encoding" not in answer.headers


async def test_a_streamed_answer_of_unknown_length_is_chunked() -> None:
    async def app(request: Downstream) -> None:
        request.start(200, LINES, None)
        request.write(b"ab")
        request.write(b"cde")
        request.finish()

    async with serving(app) as server, server.client() as client:
        client.send(get())
        _, headers = await client.head()
        assert headers["transfer-encoding"] == "chunked"
        assert [await client.chunk() for _ in range(3)] == [b"ab", b"cde", b""]


async def test_a_request_is_answered_once() -> None:
    async def app(request: Downstream) -> None:
        request.answer(200, [], b"first")
        request.answer(500, [], b"second")
        request.finish()
        request.cut_off(b"third")

    async with serving(app) as server, server.client() as client:
        client.send(get() * 2)
        assert [(await client.answer()).body for _ in range(2)] == [b"first"] * 2


async def test_nothing_is_written_to_a_client_that_left() -> None:
    ended = asyncio.Event()

    async def app(request: Downstream) -> None:
        with pytest.raises(ConnectionError):
            await request.read_body(MIB)
        request.answer(200, [], b"too late")
        request.finish()
        request.cut_off(b"too late")
        assert request.bytes_out == 0
        assert not request.answered
        ended.set()

    async with serving(app) as server, server.client() as client:
        client.send(post(b"abc")[:-1])
        await asyncio.sleep(0.02)
        client.leave()
        async with asyncio.timeout(1):
            await ended.wait()


# The body of a request


@pytest.mark.parametrize("body", [b"", b"abc", b"a" * 300_000])
async def test_a_body_is_read_up_to_exactly_the_limit(body: bytes) -> None:
    async def app(request: Downstream) -> None:
        assert await request.read_body(len(body)) == body
        assert request.bytes_in == len(body)
        request.answer(200, [], b"")

    async with serving(app) as server:
        assert (await server.ask(post(body))).status == 200


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_over_the_limit_is_not_read_on(chunked: bool) -> None:  # noqa: FBT001
    size: list[int] = []

    async def app(request: Downstream) -> None:
        with pytest.raises(Malformed) as refused:
            await request.read_body(1000)
        assert refused.value.reason is Reason.BODY_TOO_LARGE
        size.append(request.bytes_in)
        request.answer(413, [], b"")

    body = b"a" * 8 * MIB
    data = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b" % (len(body), body)
    async with serving(app) as server:
        answer = await server.ask(data if chunked else post(body))
        assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert size[0] < 2 * MIB


# Answers that fail


async def test_a_cut_chunked_answer_ends_with_its_last_event_and_without_a_last_chunk() -> None:
    async def app(request: Downstream) -> None:
        request.start(200, [], None, b"a")
        request.cut_off(b"error")
        request.cut_off(b"again")
        request.finish()

    async with serving(app) as server, server.client() as client:
        client.send(get())
        await client.head()
        assert [await client.chunk(), await client.chunk()] == [b"a", b"error"]
        with pytest.raises(Cut):
            await client.chunk()


async def test_the_last_event_reaches_a_client_that_reads_slowly_and_waits_for_no_other() -> None:
    async def app(request: Downstream) -> None:
        request.start(200, [], None, b"a" * 8 * MIB)
        assert request.flow.write_paused
        request.cut_off(b"error")

    async with serving(app) as server, server.client(receive_buffer=8192) as client:
        client.send(get())
        await client.head()
        assert len(await client.chunk()) == 8 * MIB
        assert await client.chunk() == b"error"
        assert await client.ended()


@pytest.mark.parametrize("length", [None, 100])
async def test_a_cut_answer_never_looks_whole(length: int | None) -> None:
    async def app(request: Downstream) -> None:
        request.start(200, [], length, b"half")
        await asyncio.sleep(0.02)
        request.cut_off()

    async with serving(app) as server:
        with pytest.raises(Cut):
            await server.ask(get())


@pytest.mark.parametrize("last", [b"", b"error"])
async def test_where_only_the_end_of_the_connection_ends_the_answer_it_is_reset(last: bytes) -> None:
    async def app(request: Downstream) -> None:
        request.start(200, [], None, b"half")
        await asyncio.sleep(0.02)
        request.cut_off(last)

    async with serving(app) as server, server.client() as client:
        client.send(get(version="1.0"))
        await client.head()
        with pytest.raises(Cut):
            await client.rest()


async def test_an_answer_that_its_application_leaves_behind_is_cut() -> None:
    async def app(request: Downstream) -> None:
        request.start(200, [], 100, b"half")
        raise asyncio.CancelledError

    async with serving(app) as server:
        with pytest.raises(Cut) as cut:
            await server.ask(get())
        assert cut.value.args == (b"half",)


# The client's connection


async def test_who_streams_is_told_once_that_the_client_left() -> None:
    listener = Listener()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(request: Downstream) -> None:
        request.exchange = listener
        request.start(200, [], None, b"a")
        begun.set()
        await listener.told.wait()
        assert request.disconnected
        ended.set()

    async with serving(app) as server, server.client() as client:
        client.send(get())
        await begun.wait()
        client.leave()
        async with asyncio.timeout(1):
            await ended.wait()
    assert listener.left == 1


async def test_who_streams_is_told_when_a_slow_client_takes_bytes_again() -> None:
    listener = Listener()

    async def app(request: Downstream) -> None:
        request.exchange = listener
        request.start(200, [], None)
        seen = [request.paused]
        request.write(b"a" * 8 * MIB)
        seen.append(request.paused)
        await listener.told.wait()
        seen.append(request.paused)
        assert seen == [False, True, False]
        request.exchange = None
        request.finish()

    async with serving(app) as server, server.client(receive_buffer=65536) as client:
        client.send(get())
        assert len((await client.answer()).body) == 8 * MIB
    assert (listener.ready, listener.left) == (1, 0)


async def test_the_end_of_a_whole_answer_is_nobodys_leave() -> None:
    listener = Listener()

    async def app(request: Downstream) -> None:
        request.exchange = listener
        request.answer(200, [], b"abc")
        request.exchange = None

    async with serving(app) as server:
        await server.ask(get())
        await asyncio.sleep(0.02)
    assert not listener.left


async def test_a_body_is_read_in_pieces_while_it_comes() -> None:
    sizes: list[int] = []

    async def app(request: Downstream) -> None:
        sizes.extend([len(piece) async for piece in request.pieces(4 * MIB)])
        assert request.bytes_in == 3 * MIB
        request.answer(200, LINES, b"")

    async with serving(app) as server:
        assert (await server.ask(post(b"x" * (3 * MIB)))).status == 200
    assert sum(sizes) == 3 * MIB
    assert len(sizes) > 3


async def test_nothing_more_is_read_while_a_piece_is_looked_at() -> None:
    """A client that sends faster than its body is dealt with has to wait: at most one more piece is kept for later."""
    looked = asyncio.Event()

    async def app(request: Downstream) -> None:
        async for _ in request.pieces(64 * MIB):
            await looked.wait()
            assert len(request.body) < MIB
        request.answer(200, LINES, b"")

    async with serving(app) as server, server.client() as client:
        client.send(post(b"x" * (32 * MIB)))
        await asyncio.sleep(0)
        looked.set()
        assert (await client.answer()).status == 200


async def refused(data: bytes, at_most: int = 10, limits: EdgeLimits | None = None) -> Malformed | ConnectionError:
    """Read a body in pieces that cannot be read to its end; give what was raised."""
    faults: asyncio.Future[Malformed | ConnectionError] = asyncio.get_running_loop().create_future()

    async def app(request: Downstream) -> None:
        try:
            async for _ in request.pieces(at_most):
                pass
        except (Malformed, ConnectionError) as fault:
            faults.set_result(fault)
            request.answer(400, LINES, b"")

    async with serving(app, limits) as server, server.client() as client:
        client.send(data)
        if data.endswith(b"leave"):
            await asyncio.sleep(0)
        else:
            return await faults
    return await faults


async def test_pieces_are_bounded_together() -> None:
    fault = await refused(post(b"x" * 11))
    assert isinstance(fault, Malformed)
    assert fault.reason is Reason.BODY_TOO_LARGE


async def test_pieces_share_the_time_for_a_body() -> None:
    fault = await refused(post(b"x" * 9)[:-1], limits=EdgeLimits(body_s=0.1))
    assert isinstance(fault, Malformed)
    assert fault.reason is Reason.REQUEST_TIMEOUT


async def test_pieces_that_break_the_framing_are_named() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    fault = await refused(head + b"zz\r\n")
    assert isinstance(fault, Malformed)
    assert fault.reason is Reason.BODY_MALFORMED


async def test_a_client_that_leaves_between_pieces_has_left() -> None:
    assert isinstance(await refused(post(b"x" * 20)[:-10] + b"leave", at_most=100), ConnectionError)
