"""What engines do to their answers, and clients to their connections, while one is relayed to the other."""

from __future__ import annotations

import asyncio
import gzip
import random
import re
import socket
import tracemalloc
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.exchange import COLLECTED_AT_MOST
from gateway.adapters.metrics import Metrics
from gateway.adapters.relay import Relay
from gateway.addresses import engine_address
from gateway.dialects.call import Usage
from gateway.dialects.registry import DIALECTS
from gateway.engine.circuit import IN_A_ROW
from gateway.policy.model import Deadlines
from gateway.ports import Ending, UpstreamRequest
from gateway.reasons import Reason, Unavailable
from gateway.wire.event_stream import HELD_AT_MOST, KEEP_ALIVE
from tests.adapters.relaying import (
    ASK,
    ASK_STREAM,
    DEADLINES,
    LAST,
    STREAM,
    chunk,
    head,
    playing,
    ready_engine,
    relaying,
    whole,
)
from tests.adapters.wiring import Client, Cut, post, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gateway.adapters.downstream import Downstream
    from gateway.adapters.engine import Engine
    from gateway.ports import Delivery
    from tests.adapters.relaying import Line, Play
    from tests.adapters.wiring import Served

pytestmark = pytest.mark.usefixtures("nothing_left")

MIB = 1024 * 1024
STEPS = [0, 1, 7]
DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}\n\n'
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
CHAT = b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}'


def event(text: str) -> bytes:
    return b'data: {"t":"%b"}\n\n' % text.encode()


def says(data: bytes, *, step: int = 0, close: bool = False) -> Play:
    """Play an engine that says the same to each request."""

    async def play(line: Line) -> None:
        await line.send(data, step=step)
        if close:
            line.close()

    return play


async def chunks_of(client: Client) -> bytes:
    """Read chunks until the connection ends without a last one."""
    parts: list[bytes] = []
    while True:
        try:
            part = await client.chunk()
        except Cut:
            return b"".join(parts)
        assert part, "a last chunk"
        parts.append(part)


# Whole answers

FRAMINGS = {
    "length": (head("content-type: application/json", f"content-length: {len(CHAT)}") + CHAT, False),
    "chunked": (
        head("content-type: application/json", "transfer-encoding: chunked")
        + chunk(CHAT[:9])
        + b"%x;ext=1\r\n%b\r\n" % (len(CHAT) - 9, CHAT[9:])
        + b"0\r\nx-trailer: evil\r\n\r\n",
        False,
    ),
    "until close": (head("content-type: application/json") + CHAT, True),
    "HTTP/1.0": (head("content-type: application/json").replace(b"1.1", b"1.0") + CHAT, True),
    "interim answers": (head("link: </x>", status="103 Early Hints") + whole(CHAT), False),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("framing", FRAMINGS)
async def test_an_answer_arrives_whole_whatever_its_framing(framing: str, step: int) -> None:
    data, close = FRAMINGS[framing]
    async with relaying(says(data, step=step, close=close)) as relay:
        answer = await relay.served.ask(ASK)
        assert (answer.status, answer.body) == (200, CHAT)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-request-id"] == "1"
        delivery = await relay.delivery()
        assert delivery.ending is Ending.DELIVERED
        assert (delivery.engine_status, relay.meters[0].usage) == (200, Usage(5, 7))
        assert delivery.first_byte_s is not None
        assert relay.pool.idle == (0 if close else 1)


@pytest.mark.parametrize("step", [0, 1])
async def test_an_empty_answer_arrives(step: int) -> None:
    async with relaying(says(head("content-length: 0"), step=step)) as relay:
        answer = await relay.served.ask(ASK)
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")
        assert relay.pool.idle == 1


async def test_the_engine_gets_our_own_head_and_nothing_of_the_callers() -> None:
    seen: list[bytes] = []

    async def play(line: Line) -> None:
        seen.append(line.head)
        await line.send(whole(CHAT))

    async with relaying(play) as relay:
        await relay.served.ask(post(b"{}", "cookie: a=b", "x-request-id: mine", "connection: x-a", target="/evil?q"))
    (sent,) = seen
    names = [line.split(b":")[0] for line in sent.split(b"\r\n")[1:-2]]
    assert sent.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert sorted(names) == [
        b"accept",
        b"accept-encoding",
        b"authorization",
        b"content-length",
        b"content-type",
        b"host",
        b"user-agent",
        b"x-request-id",
    ]
    assert b"authorization: Bearer KEY\r\n" in sent
    assert b"x-request-id: 0123456789abcdef0123456789abcdef\r\n" in sent


async def test_only_fields_that_describe_the_body_pass() -> None:
    said = whole(
        CHAT,
        "server: uvicorn",
        "date: today",
        "set-cookie: a=b",
        "x-request-id: theirs",
        "connection: x-a",
        "keep-alive: timeout=5",
        "access-control-allow-origin: *",
        "x-gateway-changes: forged",
        "content-encoding: gzip",
    )
    async with relaying(says(said)) as relay:
        answer = await relay.served.ask(ASK)
    names = {"date", "x-request-id", "content-type", "content-encoding", "content-length"}
    assert set(answer.headers) == names
    assert answer.headers["date"] != "today"
    assert answer.headers["x-request-id"] == "1"


async def test_a_field_that_would_end_its_line_does_not_pass() -> None:
    said = head("content-type: text/plain\rset-cookie: a=b", "content-length: 0")
    async with relaying(says(said)) as relay:
        answer = await relay.served.ask(ASK)
    assert answer.status == 502
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("step", [0, 1, 1000])
async def test_an_answer_that_is_no_success_is_collected_up_to_a_bound(step: int) -> None:
    async def play(line: Line) -> None:
        status, size = line.body.decode().split(",")
        said = whole(b"e" * int(size), "retry-after: 7", status=f"{status} X")
        await line.send(said, step=step if int(size) < 99 else 0)

    async with relaying(play) as relay:
        for number, status in enumerate([201, 307, 400, 404, 429, 500, 503, 599]):
            answer = await relay.served.ask(post(b"%d,9" % status))
            delivery = await relay.delivery(number)
            assert (answer.status, answer.body) == (status, b"e" * 9)
            assert delivery.ending is Ending.ANSWERED
            assert delivery.answer is not None
            assert (delivery.engine_status, delivery.answer.retry_after) == (status, "7")
        assert relay.pool.idle == 1
        answer = await relay.served.ask(post(b"400,%d" % (COLLECTED_AT_MOST * 3)))
        assert answer.body == b"e" * COLLECTED_AT_MOST
        assert relay.pool.idle == 0


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_is_no_success_either(status: str) -> None:
    async with relaying(says(head(status=status))) as relay, relay.served.client() as client:
        client.send(ASK)
        await client.head()
        assert (await relay.delivery()).engine_status == int(status[:3])
        assert relay.pool.idle == 1


async def test_a_redirect_is_not_followed() -> None:
    said = head("location: http://127.0.0.1:1/", "content-length: 0", status="307 Temporary Redirect")
    async with relaying(says(said)) as relay:
        answer = await relay.served.ask(ASK)
        assert "location" not in answer.headers
        assert relay.engine.asked == 1


async def test_an_error_for_a_stream_is_no_stream() -> None:
    async with relaying(says(whole(b"{}", status="400 Bad Request"))) as relay:
        answer = await relay.served.ask(ASK_STREAM)
        assert (answer.status, answer.body) == (400, b"{}")


# Streams


@pytest.mark.parametrize("step", STEPS)
async def test_a_stream_arrives_as_it_is_and_its_count_is_read(step: int) -> None:
    body = event("北京🌍") + b": comment\r\n\r\ndata: a\ndata: b\r\r" + event("x" * 100) + USAGE + DONE
    said = STREAM + b"".join(chunk(body[at : at + 11]) for at in range(0, len(body), 11)) + LAST
    async with relaying(says(said, step=step)) as relay:
        answer = await relay.served.ask(ASK_STREAM)
        assert answer.body == body
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert "content-length" not in answer.headers
        delivery = await relay.delivery()
        assert (delivery.ending, relay.meters[0].usage) == (Ending.DELIVERED, Usage(5, 7))
        assert relay.pool.idle == 1


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("ending", [DONE, b""])
async def test_a_count_that_the_caller_did_not_ask_for_is_read_and_left_out(step: int, ending: bytes) -> None:
    said = DELTA.replace(b"x", "北京🌍".encode())
    end = STREAM + b"".join(chunk(part) for part in (said[:20], said[20:] + USAGE + ending)) + LAST
    async with relaying(says(end, step=step)) as relay:
        answer = await relay.served.ask(post(b'{"stream":"hide"}'))
        assert answer.body == said + ending
        await relay.delivery()
        assert (relay.meters[0].usage, relay.meters[0].produced) == (Usage(5, 7), 0)


async def test_a_count_without_a_blank_line_behind_it_is_read_and_left_out_as_well() -> None:
    async with relaying(says(STREAM + chunk(event("x") + USAGE.rstrip()) + LAST)) as relay:
        answer = await relay.served.ask(post(b'{"stream":"hide"}'))
        assert answer.body == event("x")
        await relay.delivery()
        assert relay.meters[0].usage == Usage(5, 7)


async def test_what_was_seen_of_an_answer_is_known_when_the_client_leaves() -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(DELTA * 5))
        await line.gone()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        await client.head()
        assert await client.chunk() == DELTA * 5
        client.leave()
        delivery = await relay.delivery()
        assert (delivery.ending, relay.meters[0].produced) == (Ending.CLIENT_LEFT, 4)


async def test_a_count_in_two_parts_is_put_together() -> None:
    parts = (b'data: {"usage":{"prompt_tokens":5}}\n\n', event("a"), b'data: {"usage":{"completion_tokens":7}}\n\n')
    async with relaying(says(STREAM + b"".join(map(chunk, (*parts, DONE))) + LAST, step=1)) as relay:
        assert (await relay.served.ask(ASK_STREAM)).body == b"".join(parts) + DONE
        await relay.delivery()
        assert relay.meters[0].usage == Usage(5, 7)


async def test_the_head_and_each_event_are_passed_on_at_once() -> None:
    go = asyncio.Event()

    async def play(line: Line) -> None:
        for data in (STREAM, chunk(event("a")), chunk(event("b")[:9]) + chunk(event("b")[9:]), chunk(DONE) + LAST):
            await line.send(data)
            await go.wait()
            go.clear()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        assert (await client.head())[0] == 200
        for expected in (event("a"), event("b"), DONE):
            go.set()
            assert await client.chunk() == expected
        assert await client.chunk() == b""
        go.set()


async def test_pieces_are_cut_behind_events_only() -> None:
    body = event("北京") * 3
    said = STREAM + b"".join(chunk(bytes([byte])) for byte in body) + LAST
    async with relaying(says(said, step=1)) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        await client.head()
        assert [await client.chunk() for _ in range(4)] == [event("北京")] * 3 + [b""]


@pytest.mark.parametrize("media_type", ["Text/Event-Stream", "text/event-stream;charset=x", "text/event-stream ;a=b"])
async def test_every_spelling_of_the_media_type_is_a_stream_and_passes_as_it_is(media_type: str) -> None:
    said = head(f"content-type: {media_type}", "transfer-encoding: chunked") + chunk(b"data: a\n\ndata: half")

    async def play(line: Line) -> None:
        await line.send(said)
        await asyncio.sleep(0.05)
        line.close()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        _, headers = await client.head()
        assert headers["content-type"] == media_type
        assert (await chunks_of(client)).startswith(b"data: a\n\ndata: {")


async def test_a_stream_that_ends_without_a_blank_line_ends_as_it_does() -> None:
    async with relaying(says(STREAM + chunk(b"data: a\n\ndata: b") + LAST)) as relay:
        assert (await relay.served.ask(ASK_STREAM)).body == b"data: a\n\ndata: b"


async def test_an_encoded_stream_is_not_touched() -> None:
    data = gzip.compress(event("a") * 100)

    async def play(line: Line) -> None:
        await line.send(head("content-type: text/event-stream", "content-encoding: gzip", "transfer-encoding: chunked"))
        await line.send(chunk(data[:20]))
        await asyncio.sleep(0.2)
        if b"die" in line.body:
            line.close()
        await line.send(chunk(data[20:]) + LAST)

    async with relaying(play, silence_s=0.02) as relay:
        assert (await relay.served.ask(ASK_STREAM)).body == data
        async with relay.served.client() as client:
            client.send(post(b"stream, die"))
            await client.head()
            assert await chunks_of(client) == data[:20]


async def test_a_silence_between_events_is_filled_with_comments() -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM)
        await asyncio.sleep(0.25)
        await line.send(chunk(event("a")))
        await asyncio.sleep(0.25)
        await line.send(chunk(b"data: half"))
        await asyncio.sleep(0.25)
        await line.send(chunk(b"\n\n") + LAST)

    async with relaying(play, silence_s=0.1) as relay:
        body = (await relay.served.ask(ASK_STREAM)).body
        before, after = body.split(event("a"))
        assert before in {KEEP_ALIVE, KEEP_ALIVE * 2}  # a busy machine wakes up late
        assert re.fullmatch(rb"(: keep-alive\n\n){2,5}data: half\n\n", after)


async def test_a_stream_that_speaks_is_not_commented_on() -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM)
        for _ in range(20):
            await line.send(chunk(event("a")))
            await asyncio.sleep(0.02)
        await line.send(LAST)

    async with relaying(play, silence_s=0.2) as relay:
        assert (await relay.served.ask(ASK_STREAM)).body == event("a") * 20


async def test_a_line_of_50_mb_passes_in_constant_memory() -> None:
    piece = chunk(b"x" * 65536)

    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(b"data: "))
        for _ in range(800):
            await line.send(piece)
        await line.send(chunk(b"\n\n") + LAST)

    async with relaying(play) as relay, relay.served.client() as client:
        tracemalloc.start()
        client.send(ASK_STREAM)
        await client.head()
        size = 0
        while part := await client.chunk():
            size += len(part)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert size == 800 * 65536 + 8
        assert peak < 8 * MIB


async def test_open_streams_are_counted() -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(event("a")))
        await line.gone()

    async with relaying(play) as relay:
        async with relay.served.client() as client:
            client.send(ASK_STREAM)
            await client.head()
            assert b'gateway_streams_open{engine="main",plane="public"} 1.0' in relay.metrics.render()
        await relay.delivery()
        assert b'gateway_streams_open{engine="main",plane="public"} 0.0' in relay.metrics.render()


# Engines that fail


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_an_engine_that_dies_between_events_ends_the_stream_with_one_error_event(end: str) -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(event("a")))
        await asyncio.sleep(0.05)
        getattr(line, end)()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        await client.head()
        body = await chunks_of(client)
        assert body.startswith(event("a") + b'data: {"error":')
        assert body.endswith(b"}\n\n")
        assert body.count(b"data:") == 2
        assert await client.ended()
        delivery = await relay.delivery()
        assert (delivery.ending, delivery.reason, delivery.detail) == (
            Ending.FAILED,
            Reason.ENGINE_ERROR,
            "connection closed",
        )
        assert relay.pool.idle == 0


async def test_half_an_event_is_dropped_before_the_error_event() -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(event("a")) + chunk(b'data: {"half'))
        await asyncio.sleep(0.05)
        line.close()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        await client.head()
        assert (await chunks_of(client)).startswith(event("a") + b'data: {"error":')


async def test_an_event_too_long_to_be_held_is_cut_without_an_error_event() -> None:
    long = b"data: " + b"x" * (HELD_AT_MOST * 2)

    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(long))
        await asyncio.sleep(0.05)
        line.close()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        await client.head()
        assert await chunks_of(client) == long


@pytest.mark.parametrize("lines", [["content-length: 100"], ["transfer-encoding: chunked"]])
async def test_a_plain_answer_cut_short_never_looks_whole(lines: list[str]) -> None:
    async def play(line: Line) -> None:
        await line.send(head("content-type: application/json", *lines))
        await line.send(chunk(b"half"))
        await asyncio.sleep(0.05)
        line.close()

    async with relaying(play) as relay:
        with pytest.raises(Cut):
            await relay.served.ask(ASK)
        assert (await relay.delivery()).reason is Reason.ENGINE_ERROR


async def test_an_answer_cut_short_never_looks_whole_to_http_1_0_either() -> None:
    async def play(line: Line) -> None:
        await line.send(head("content-type: application/json", "transfer-encoding: chunked") + chunk(b"half"))
        await asyncio.sleep(0.05)
        line.close()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(post(b"{}", version="1.0"))
        with pytest.raises(Cut) as cut:
            await client.answer()
        assert cut.value.args == (b"half",)


BROKEN = {
    "garbage": (b"\x00\x01SSH-2.0\r\n\r\n", Reason.ENGINE_MALFORMED),
    "an endless line": (b"HTTP/1.1 200 " + b"x" * 100_000, Reason.ENGINE_MALFORMED),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000, Reason.ENGINE_MALFORMED),
    "half a head": (b"HTTP/1.1 200 OK\r\ncontent-le", Reason.ENGINE_ERROR),
    "another protocol": (head("upgrade: h2c", "connection: upgrade", status="101 X"), Reason.ENGINE_MALFORMED),
    "two framings": (head("content-length: 5", "transfer-encoding: chunked") + b"0\r\n\r\n", Reason.ENGINE_MALFORMED),
    "two lengths": (head("content-length: 5", "content-length: 6") + b"hello", Reason.ENGINE_MALFORMED),
    "no status": (head("content-length: 0", status="000 X"), Reason.ENGINE_MALFORMED),
    "no known status": (head("content-length: 0", status="999 X"), Reason.ENGINE_MALFORMED),
    "half an error": (head("content-length: 9", status="500 X") + b"half", Reason.ENGINE_ERROR),
    "nothing": (b"", Reason.ENGINE_UNAVAILABLE),
}


@pytest.mark.parametrize("step", [0, 7])
@pytest.mark.parametrize("name", BROKEN)
async def test_an_answer_that_is_broken_before_its_body_becomes_an_error_of_ours(name: str, step: int) -> None:
    said, reason = BROKEN[name]
    async with relaying(says(said, step=step if len(said) < 1000 else 0, close=True)) as relay:
        answer = await relay.served.ask(ASK)
        assert (answer.status, answer.body.split()[0].decode()) == (502, reason.value)
        delivery = await relay.delivery()
        assert (delivery.ending, delivery.reason) == (Ending.FAILED, reason)
        assert relay.pool.idle == 0
        assert relay.engine.asked == 1


@pytest.mark.parametrize("said", [b"zz\r\nhello\r\n", b"2\r\nhello\r\n"])
async def test_a_bad_chunk_ends_the_stream_with_an_error_event(said: bytes) -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(event("a")))
        await asyncio.sleep(0.05)
        await line.send(said + LAST)
        await line.gone()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        await client.head()
        body = await chunks_of(client)
        assert body.startswith(event("a") + b'data: {"error":')
        assert b"engine-malformed" in body
        assert (await relay.delivery()).reason is Reason.ENGINE_MALFORMED


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("excess", [b"X", b"\r\nX", whole(b"smuggled")])
async def test_bytes_behind_an_answer_reach_nobody(excess: bytes, step: int) -> None:
    async with relaying(says(whole(CHAT) + excess, step=step)) as relay:
        for _ in range(3):
            assert (await relay.served.ask(ASK)).body == CHAT
            await asyncio.sleep(0.02)
            assert relay.pool.idle == 0
        assert len(relay.engine.lines) == 3


@pytest.mark.parametrize("engine", ["http://127.0.0.1:{port}", "unix:/nowhere/{port}.sock", "https://{port}.invalid"])
async def test_an_engine_that_is_not_there_is_named_without_its_address(engine: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with relaying(says(b""), url=engine.format(port=port)) as relay:
        answer = await relay.served.ask(ASK)
        assert (answer.status, answer.body.split()[0]) == (502, b"engine-unavailable")
        assert str(port).encode() not in answer.body
        assert b"127.0.0.1" not in answer.body
        assert b"/" not in answer.body


async def test_an_engine_that_hangs_up_at_once_is_noticed_however_soon() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with relaying(says(b""), url=url) as relay:
            for _ in range(30):
                async with asyncio.timeout(1):
                    assert (await relay.served.ask(ASK)).status == 502


# Connections


async def test_a_stale_connection_is_retried_once_on_a_fresh_one() -> None:
    async def play(line: Line) -> None:
        if line.number == 0 and relay.engine.asked == 2:
            line.close()
        else:
            await line.send(whole(CHAT))

    async with relaying(play) as relay:
        for _ in range(2):
            assert (await relay.served.ask(ASK)).status == 200
        assert (relay.engine.asked, len(relay.engine.lines)) == (3, 2)
        assert relay.pool.idle == 1


async def test_no_request_is_sent_a_third_time() -> None:
    async def play(line: Line) -> None:
        if relay.engine.asked == 1:
            await line.send(whole(CHAT))
        else:
            line.close()

    async with relaying(play) as relay:
        assert (await relay.served.ask(ASK)).status == 200
        assert (await relay.served.ask(ASK)).body == b"engine-unavailable connection closed"
        assert relay.engine.asked == 3


async def test_a_request_of_whose_answer_a_byte_came_is_not_sent_again() -> None:
    async def play(line: Line) -> None:
        if relay.engine.asked == 1:
            await line.send(whole(CHAT))
        else:
            await line.send(b"H")
            line.close()

    async with relaying(play) as relay:
        assert (await relay.served.ask(ASK)).status == 200
        assert (await relay.served.ask(ASK)).status == 502
        assert relay.engine.asked == 2


async def test_a_fresh_connection_is_never_retried() -> None:
    async with relaying(says(b"", close=True)) as relay:
        assert (await relay.served.ask(ASK)).status == 502
        assert relay.engine.asked == 1


async def test_a_connection_that_the_engine_wants_closed_is_not_kept() -> None:
    async with relaying(says(whole(CHAT, "connection: close"))) as relay:
        for _ in range(3):
            assert (await relay.served.ask(ASK)).body == CHAT
            assert relay.pool.idle == 0
        assert len(relay.engine.lines) == 3


async def test_two_requests_never_share_a_connection() -> None:
    """64 clients at once; the engine closes and announces closes as it likes; each answer belongs to its request."""
    dice = random.Random(4)  # noqa: S311  (no secret)

    async def play(line: Line) -> None:
        asked = line.body
        assert re.fullmatch(rb'\{"n":"[0-9]+-[0-9]+"(,"stream":true)?\}', asked), asked
        await asyncio.sleep(dice.random() * 0.003)
        assert line.body == asked
        fate = dice.random()
        last = ["connection: close"] if fate < 0.1 else []
        if b"stream" in asked:
            lines = ["content-type: text/event-stream", "transfer-encoding: chunked", *last]
            await line.send(head(*lines))
            for at in range(0, len(asked), 5):
                await line.send(chunk(asked[at : at + 5]))
                await asyncio.sleep(0)
            await line.send(LAST)
        else:
            await line.send(whole(asked, *last), step=dice.choice([0, 0, 13]))
        if fate < 0.2:
            line.close()

    async def ask(who: int) -> None:
        dice = random.Random(who)  # noqa: S311  (no secret)
        for turn in range(8):
            kind = ',"stream":true' if dice.random() < 0.4 else ""
            body = f'{{"n":"{who}-{turn}"{kind}}}'.encode()
            if dice.random() < 0.15:
                async with relay.served.client() as client:
                    client.send(post(body))
                    await asyncio.sleep(dice.random() * 0.004)
                    client.leave()
                continue
            answer = await relay.served.ask(post(body))
            # A connection that was closed under the request and could not be reused once more is an honest 502.
            assert (answer.status, answer.body) == (200, body) or answer.status == 502, answer

    async with relaying(play, idle=16) as relay:
        async with asyncio.TaskGroup() as tasks:
            for who in range(64):
                tasks.create_task(ask(who))
        endings = [delivery.ending for delivery in relay.deliveries]
        assert endings.count(Ending.DELIVERED) > 350
        assert endings.count(Ending.FAILED) < 10
        assert len(relay.engine.lines) < relay.engine.asked
        assert relay.pool.idle <= 16


# Clients that leave


@pytest.mark.parametrize("leave", [Client.half_close, Client.leave])
@pytest.mark.parametrize(
    "ask, said",
    [
        (ASK, b""),
        (ASK, head("content-length: 100") + b"half"),
        (ASK_STREAM, b""),
        (ASK_STREAM, STREAM),
        (ASK_STREAM, STREAM + chunk(event("a"))),
        (ASK, head("content-length: 100", status="400 X") + b"half"),
    ],
    ids=["before the head", "in the body", "stream, before the head", "stream, before a byte", "stream", "in an error"],
)
async def test_a_client_that_leaves_ends_the_engines_work_at_once(
    ask: bytes, said: bytes, leave: Callable[[Client], None]
) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def play(line: Line) -> None:
        if said:
            await line.send(said)
        asked.set()
        await line.gone()
        gone.set()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ask)
        await asked.wait()
        await asyncio.sleep(0.02)
        leave(client)
        async with asyncio.timeout(0.1):
            await gone.wait()
        assert (await relay.delivery()).ending is Ending.CLIENT_LEFT
        assert relay.pool.idle == 0


async def test_a_client_that_leaves_after_its_answer_harms_nobody_elses() -> None:
    """The former request's end must not abort the connection that serves another request by now."""

    async def play(line: Line) -> None:
        if line.body == b"slow":
            await asyncio.sleep(0.2)
        await line.send(whole(line.body))

    async with relaying(play) as relay, relay.served.client() as first:
        first.send(post(b"fast"))
        assert (await first.answer()).body == b"fast"
        async with relay.served.client() as second:
            second.send(post(b"slow"))
            await asyncio.sleep(0.05)
            first.leave()
            assert (await second.answer()).body == b"slow"
        assert len(relay.engine.lines) == 1


async def test_a_client_that_leaves_while_the_engine_is_being_reached_costs_it_nothing() -> None:
    async with relaying(says(whole(CHAT))) as relay:
        for _ in range(20):
            async with relay.served.client() as client:
                client.send(ASK)
                await asyncio.sleep(0)
                client.leave()
        await asyncio.sleep(0.1)
        assert {delivery.ending for delivery in relay.deliveries} <= {Ending.CLIENT_LEFT, Ending.DELIVERED}
        assert relay.engine.open == relay.pool.idle


# Back-pressure


@pytest.mark.parametrize("stream", [True, False])
async def test_a_slow_client_holds_the_engine_back_and_gets_everything(stream: bool) -> None:  # noqa: FBT001
    piece = event("x" * 1000) * 64
    times = 300  # more than all the buffers of a kernel hold
    sent = 0

    async def play(line: Line) -> None:
        nonlocal sent
        lines = ["content-type: text/event-stream", "transfer-encoding: chunked"]
        await line.send(STREAM if stream else head(*lines[1:]))
        for _ in range(times):
            await line.send(chunk(piece))
            sent += len(piece)
        await line.send(LAST)

    patient = Deadlines(60, 60, 60)
    async with relaying(play, deadlines=patient) as relay, relay.served.client(receive_buffer=8192) as client:
        tracemalloc.start()
        client.send(ASK_STREAM if stream else ASK)
        await client.head()
        await asyncio.sleep(0.3)
        held = sent
        await asyncio.sleep(0.3)
        assert sent == held < times * len(piece)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * MIB
        size = 0
        while part := await client.chunk():
            size += len(part)
        assert size == times * len(piece)
        assert (await relay.delivery()).ending is Ending.DELIVERED
        assert relay.pool.idle == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_never_reads_is_cut_after_the_idle_deadline(stream: bool) -> None:  # noqa: FBT001
    gone = asyncio.Event()

    async def play(line: Line) -> None:
        await line.send(STREAM if stream else head("transfer-encoding: chunked"))
        try:
            for _ in range(400):
                await line.send(chunk(event("x" * 65536)))
        finally:
            await line.gone()
            gone.set()

    deadlines = Deadlines(5, 0.3, 10)
    async with relaying(play, deadlines=deadlines) as relay, relay.served.client(receive_buffer=8192) as client:
        client.send(ASK_STREAM if stream else ASK)
        async with asyncio.timeout(2):
            await gone.wait()
        assert (await relay.delivery()).ending is Ending.CLIENT_LEFT
        assert not relay.served.connections


# Time


@pytest.mark.parametrize(
    "ask, said, deadlines, detail",
    [
        (ASK, b"", Deadlines(9, 9, 0.2), "total"),
        (ASK, b"HTTP/1.1 200 OK\r\n", Deadlines(9, 9, 0.2), "total"),
        (ASK_STREAM, b"", Deadlines(0.2, 9, 9), "first-byte"),
        (ASK_STREAM, b"", Deadlines(9, 9, 0.2), "total"),
    ],
)
async def test_an_engine_that_is_late_is_a_504_that_names_the_deadline(
    ask: bytes, said: bytes, deadlines: Deadlines, detail: str
) -> None:
    async def play(line: Line) -> None:
        if said:
            await line.send(said)
        await line.gone()

    async with relaying(play, deadlines=deadlines) as relay:
        answer = await relay.served.ask(ask)
        assert (answer.status, answer.body.decode()) == (504, f"engine-timeout {detail}")
        delivery = await relay.delivery()
        assert (delivery.reason, delivery.detail) == (Reason.ENGINE_TIMEOUT, detail)


@pytest.mark.parametrize(
    "said, deadlines, detail",
    [
        (STREAM, Deadlines(0.2, 9, 9), "first-byte"),
        (STREAM + chunk(event("a")), Deadlines(9, 0.2, 9), "idle"),
        (STREAM + chunk(event("a")), Deadlines(9, 9, 0.2), "total"),
    ],
)
async def test_a_stream_that_is_late_ends_with_an_error_event(said: bytes, deadlines: Deadlines, detail: str) -> None:
    async def play(line: Line) -> None:
        await line.send(said)
        await line.gone()

    async with relaying(play, deadlines=deadlines) as relay, relay.served.client() as client:
        begun = asyncio.get_running_loop().time()
        client.send(ASK_STREAM)
        await client.head()
        assert b'"code":"engine-timeout"' in await chunks_of(client)
        assert 0.15 < asyncio.get_running_loop().time() - begun < 1
        assert (await relay.delivery()).detail == detail


async def test_a_plain_answer_that_stalls_is_cut_at_the_total() -> None:
    async def play(line: Line) -> None:
        await line.send(head("content-length: 100") + b"half")
        await line.gone()

    async with relaying(play, deadlines=Deadlines(9, 9, 0.2)) as relay:
        with pytest.raises(Cut):
            await relay.served.ask(ASK)
        assert (await relay.delivery()).detail == "total"


async def test_a_stream_with_an_event_within_each_idle_time_is_not_cut() -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM)
        for _ in range(8):
            await asyncio.sleep(0.1)
            await line.send(chunk(event("a")))
        await line.send(LAST)

    async with relaying(play, deadlines=Deadlines(5, 0.3, 10)) as relay:
        assert (await relay.served.ask(ASK_STREAM)).body == event("a") * 8


async def test_comments_of_ours_do_not_keep_a_silent_engine_alive() -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(event("a")))
        await line.gone()

    deadlines = Deadlines(5, 0.3, 10)
    async with relaying(play, deadlines=deadlines, silence_s=0.05) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        await client.head()
        assert b"engine-timeout" in await chunks_of(client)


# The end of the gateway


@pytest.mark.parametrize("said", [b"", STREAM + chunk(event("a"))])
async def test_a_relay_that_is_cancelled_lets_go_of_both_sides(said: bytes) -> None:
    gone = asyncio.Event()

    async def play(line: Line) -> None:
        if said:
            await line.send(said)
        await line.gone()
        gone.set()

    async with relaying(play) as relay, relay.served.client() as client:
        client.send(ASK_STREAM)
        await asyncio.sleep(0.05)
        for task in relay.served.server.server_state.tasks:
            task.cancel()
        async with asyncio.timeout(0.2):
            await gone.wait()
        if said:
            await client.head()
            assert b'"code":"draining"' in await chunks_of(client)
        assert await client.ended()
        assert relay.pool.idle == 0


# Replicas

NOBODY = "http://127.0.0.1:1"


@asynccontextmanager
async def replicated(*urls: str) -> AsyncIterator[tuple[Served, Engine, list[Delivery | Unavailable]]]:
    """Relay to an engine with these replicas, all of which count as ready; the first is chosen first."""
    pools = [EnginePool(engine_address(url), idle=4, keep_alive_s=9, connect_s=1) for url in urls]
    engine = ready_engine(*pools)
    for number, replica in enumerate(engine.replicas):
        replica.sent = number
    relay = Relay({"main": engine}, Metrics(), 15)
    ended: list[Delivery | Unavailable] = []

    async def app(inbound: Downstream) -> None:
        body = await inbound.read_body(1 << 20)
        request = UpstreamRequest(
            "1", "p", "main", "POST", "/", body, b"stream" in body, DIALECTS["openai-chat"], DEADLINES, []
        )
        try:
            ended.append(await relay.forward(request, inbound))
        except Unavailable as unavailable:
            ended.append(unavailable)
        if not inbound.answered:
            inbound.answer(502, [], b"")

    async with serving(app) as server:
        yield server, engine, ended
    engine.close()


async def test_a_replica_that_refuses_the_connection_is_out_and_another_gets_the_request() -> None:
    async with playing(says(whole(CHAT))) as (second, url), replicated(NOBODY, url) as (server, engine, _):
        for _ in range(2):
            assert (await server.ask(ASK)).body == CHAT
        assert engine.replicas[0].circuit.why == "connection refused"
        assert [replica.sent for replica in engine.replicas] == [1, 3]
        assert [replica.in_flight for replica in engine.replicas] == [0, 0]
        assert second.asked == 2


async def test_where_no_replica_can_be_reached_the_last_failure_is_told_and_then_that_none_is_ready() -> None:
    async with replicated(NOBODY, NOBODY.replace(":1", ":2")) as (server, engine, ended):
        for _ in range(2):
            assert (await server.ask(ASK)).status == 502
        assert not engine.ready
    first, second = ended
    assert isinstance(first, Unavailable)
    assert (first.reason, first.detail, first.status) == (Reason.ENGINE_UNAVAILABLE, "connection refused", None)
    assert isinstance(second, Unavailable)
    assert (second.reason, second.status) == (Reason.ENGINE_UNAVAILABLE, 503)


@pytest.mark.parametrize(
    "said",
    [b"", STREAM, STREAM + chunk(b'data: {"a":1}\n\n'), whole(b"{}", status="500 X"), whole(b"", status="503 X")],
)
async def test_a_request_that_may_have_run_goes_to_no_other_replica(said: bytes) -> None:
    async def dies(line: Line) -> None:
        await line.send(said)
        await asyncio.sleep(0.02)
        line.reset()

    async with (
        playing(dies) as (first, url),
        playing(says(whole(CHAT))) as (second, other),
        replicated(url, other) as (server, engine, ended),
        server.client() as client,
    ):
        client.send(ASK_STREAM)
        await client.head()
        for _ in range(400):
            if ended:
                break
            await asyncio.sleep(0.005)
        assert ended
        assert engine.replicas[0].in_flight == 0
    assert (first.asked, second.asked) == (1, 0)


async def test_a_request_whose_connection_had_gone_stale_goes_to_no_other_replica() -> None:
    """The engine that closed it may have read the request before it went."""
    async with playing(says(whole(CHAT))) as (second, other):
        first = await asyncio.start_server(_one_answer_then_nothing, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{first.sockets[0].getsockname()[1]}"
        async with replicated(url, other) as (server, engine, ended):
            assert (await server.ask(ASK)).body == CHAT
            first.close()
            engine.replicas[1].sent = 9
            assert (await server.ask(ASK)).status == 502
    assert isinstance(ended[-1], Unavailable)
    assert ended[-1].detail == "connection refused"
    assert second.asked == 0


async def _one_answer_then_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"}")
    writer.write(whole(CHAT))
    await reader.readuntil(b"}")
    writer.close()


async def test_faults_in_a_row_raise_a_doubt_about_a_replica() -> None:
    async def resets(line: Line) -> None:
        line.reset()

    async with playing(resets) as (_, url), replicated(url) as (server, engine, _):
        for _ in range(IN_A_ROW):
            assert not engine.replicas[0].circuit.doubted
            await server.ask(ASK)
        assert engine.replicas[0].circuit.doubted


async def test_the_first_byte_of_an_answer_shows_that_a_replica_moves() -> None:
    gate = asyncio.Event()

    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(b'data: {"a":1}\n\n'))
        await gate.wait()
        await line.send(LAST)

    async with playing(play) as (_, url), replicated(url) as (server, engine, _), server.client() as client:
        client.send(ASK_STREAM)
        await client.head()
        await client.chunk()
        (replica,) = engine.replicas
        assert replica.in_flight == 1
        assert not replica.suspect(1e9)
        gate.set()
        assert await client.chunk() == b""


@pytest.mark.parametrize("pause_s", [0.0, 0.05])
async def test_a_stream_that_ends_with_the_engines_own_error_passes_and_is_no_success(pause_s: float) -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(event("a")) + chunk(b'data: {"error":{"code":500}}\n\n'))
        await asyncio.sleep(pause_s)
        await line.send(chunk(DONE) + LAST)

    async with relaying(play) as relay:
        assert (await relay.served.ask(ASK_STREAM)).body.endswith(DONE)
        delivery = await relay.delivery()
    assert delivery.ending is Ending.DELIVERED
    assert "the engine's own error" in delivery.detail


async def test_a_count_of_tokens_before_long_documents_is_found() -> None:
    """A ranking has its count at the beginning, and it need not come in one piece."""

    async def play(line: Line) -> None:
        body = (
            b'{"id":"r","model":"m","usage":{"prompt_tokens":9,"total_tokens":9},"results":["' + b"x" * 99999 + b'"]}'
        )
        await line.send(whole(body)[:140])
        await line.send(whole(body)[140:])

    async with relaying(play) as running:
        assert (await running.served.ask(ASK)).status == 200
        await running.delivery()
        assert running.meters[0].usage == Usage(9)
