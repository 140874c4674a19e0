"""One listener, real sockets: what a hostile or clumsy client can send, and what the server makes of it."""

from __future__ import annotations

import asyncio
import gc
import socket
import tracemalloc
from typing import TYPE_CHECKING, Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from gateway.adapters.edge import EdgeProtocol
from gateway.adapters.edge_limits import HEAD_AT_MOST, LINGER_BYTES, PIPELINE_AT_MOST, REQUESTS_AT_MOST, EdgeLimits
from gateway.reasons import ANSWERS, Malformed
from gateway.wire.field_lines import Positions
from gateway.wire.headers import MOST_FIELDS
from tests.adapters.wiring import Client, Cut, get, post, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.adapters.downstream import Downstream

pytestmark = pytest.mark.usefixtures("nothing_left")

MIB = 1024 * 1024
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


async def echo(request: Downstream) -> None:
    """Answer with what was read, or with the reason why it was not."""
    fault = request.refusal
    body = b""
    if fault is None:
        try:
            body = await request.read_body(32 * MIB)
        except Malformed as malformed:
            fault = malformed
        except ConnectionError:
            return
    if fault is not None:
        request.answer(ANSWERS[fault.reason].status, [], fault.reason.value.encode())
    else:
        request.answer(200, [], b" ".join([request.method.encode(), request.target, body]).strip())


async def refuse(request: Downstream) -> None:
    """Answer without a look at the body."""
    request.answer(401, [], b"no")


class Slow:
    """An application whose first answer waits until it is let go; ``lost``: what came to it to be recorded alone."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.lost: list[bytes] = []
        self.go = asyncio.Event()

    async def __call__(self, request: Downstream) -> None:
        if request.disconnected:
            self.lost.append(request.target)
            return
        self.begun.append(request.target)
        if len(self.begun) == 1:
            await self.go.wait()
        await echo(request)


class Watch:
    """Takes the place of the relay: notes when the client leaves."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.left = asyncio.Event()
        self.targets: list[bytes] = []
        self.lost: list[bytes] = []

    def client_left(self) -> None:
        self.left.set()

    def client_ready(self) -> None:
        """Have nothing to go on with."""

    async def __call__(self, request: Downstream) -> None:
        if request.disconnected:
            with pytest.raises(ConnectionError):
                await request.read_body(MIB)
            self.lost.append(request.target)
            return
        self.targets.append(request.target)
        await request.read_body(MIB)
        request.exchange = self
        self.begun.set()
        await self.left.wait()


# What is read


@pytest.mark.parametrize(
    "target",
    [
        "/v1/models",
        "/v1//models/../%6d?q=%00&a",
        "//evil/x",
        "/a#fragment",
        "http://evil.example/v1/models#x",
        "*",
        "/" + "a" * 3000,
    ],
)
async def test_the_target_arrives_as_it_was_sent(target: str) -> None:
    async with serving(echo) as server:
        answer = await server.ask(get(target))
        assert answer.body == f"GET {target}".encode()


async def test_the_authority_of_connect_arrives_and_what_follows_is_not_http() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(b"CONNECT evil:443 HTTP/1.1\r\nhost: x\r\n\r\n" + get("/smuggled"))
        answer = await client.answer()
        assert answer.body == b"CONNECT evil:443"
        assert answer.headers["connection"] == "close"
        assert await client.ended()


async def test_an_upgrade_ends_the_connection_and_what_follows_is_not_read() -> None:
    upgrade = post(b"body", "connection: upgrade", "upgrade: websocket")
    async with serving(echo) as server, server.client() as client:
        client.send(upgrade + get("/smuggled"))
        answer = await client.answer()
        assert answer.headers["connection"] == "close"
        assert await client.ended()


@pytest.mark.parametrize("pause_s", [None, 0.0])
async def test_chunks_arrive_as_one_body_without_extensions_and_trailers(pause_s: float | None) -> None:
    seen: list[list[tuple[bytes, bytes]]] = []

    async def note(request: Downstream) -> None:
        seen.append(request.headers.pairs())
        await echo(request)

    data = CHUNKED + b"2;a=b\r\nab\r\n1\r\nc\r\n0\r\nauthorization: Bearer x\r\nhost: evil\r\n\r\n"
    async with serving(note) as server, server.client() as client:
        if pause_s is None:
            client.send(data)
        else:
            await client.trickle(data, pause_s)
        assert (await client.answer()).body == b"POST / abc"
        client.send(get("/next"))
        assert (await client.answer()).body == b"GET /next"
    assert [[name for name, _ in headers] for headers in seen] == [[b"host", b"transfer-encoding"], [b"host"]]


@pytest.mark.parametrize("at", [None, -2, -20])
async def test_a_request_has_one_answer_however_many_fields_come_behind_its_body(at: int | None) -> None:
    trailer = b"".join(b"x-%d: 1\r\n" % number for number in range(MOST_FIELDS + 1))
    data = CHUNKED + b"1\r\na\r\n0\r\n" + trailer + b"\r\n"
    async with serving(echo) as server, server.client() as client:
        client.send(data[:at])
        if at is not None:
            await asyncio.sleep(0.05)
            client.send(data[at:])
        client.send(get("/smuggled"))
        answer = await client.answer()
        assert (answer.status, answer.body, answer.headers["connection"]) == (431, b"headers-too-large", "close")
        assert await client.ended()


async def test_each_head_on_a_connection_is_known_by_its_own_names() -> None:
    seen: list[tuple[list[tuple[bytes, bytes]], Positions | None]] = []

    async def keep(request: Downstream) -> None:
        seen.append((request.headers.pairs(), request.headers.plain))
        await echo(request)

    usual, turned = b"GET / HTTP/1.1\r\nhost: a\r\nx: b\r\n\r\n", b"GET / HTTP/1.1\r\nx: b\r\nhost: a\r\n\r\n"
    longer = b"GET / HTTP/1.1\r\nhost: a\r\nx: b\r\norigin: c\r\n\r\n"
    async with serving(keep) as served, served.client() as client:
        for head in (usual, usual.replace(b": b", b": d"), turned, longer, usual):
            client.send(head)
            await client.answer()
    host, x = (b"host", b"a"), (b"x", b"b")
    first, last = Positions(0, None, None, None), Positions(1, None, None, None)
    assert seen == [
        ([host, x], first),
        ([host, (b"x", b"d")], first),
        ([x, host], last),
        ([host, x, (b"origin", b"c")], None),
        ([host, x], first),
    ]


async def test_a_body_larger_than_what_is_buffered_arrives_whole() -> None:
    body = bytes(range(256)) * 4096 * 4
    async with serving(echo) as server:
        assert (await server.ask(post(body))).body == b"POST / " + body


async def test_leading_line_ends_are_skipped() -> None:
    async with serving(echo) as server:
        assert (await server.ask(b"\r\n\r\n" + get())).status == 200


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", "headers-malformed"),
        (b"GET evil:443 HTTP/1.1\r\nhost: x\r\n\r\n", "target-malformed"),
        (b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", "target-malformed"),
        (b"BREW / HTTP/1.1\r\nhost: x\r\n\r\n", "headers-malformed"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "headers-malformed"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx : y\r\n\r\n", "headers-malformed"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: a\r\n b\r\n\r\n", "headers-malformed"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: a\rb: c\r\n\r\n", "headers-malformed"),
        (post(b"abc", "transfer-encoding: chunked"), "headers-malformed"),
        (post(b"abc", "content-length: 4"), "headers-malformed"),
        (CHUNKED + b"zz\r\n", "body-malformed"),
        (CHUNKED + b"2\r\nabcd\r\n0\r\n\r\n", "body-malformed"),
        (CHUNKED + b"2\nab\r\n0\r\n\r\n", "body-malformed"),
        (CHUNKED.replace(b"chunked", b"chunked, identity") + b"0\r\n\r\n", "headers-malformed"),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
async def test_what_is_not_http_is_refused_and_the_connection_ends(data: bytes, reason: str, whole: bool) -> None:  # noqa: FBT001
    async with serving(echo) as server, server.client() as client:
        if whole:
            client.send(data)
        else:
            await client.trickle(data)
        answer = await client.answer()
        assert (answer.status, answer.body.decode()) == (400, reason)
        assert answer.headers["connection"] == "close"
        assert await client.ended()


@pytest.mark.parametrize("whole", [True, False])
async def test_a_body_that_breaks_does_not_change_an_answer_that_is_given_without_it(whole: bool) -> None:  # noqa: FBT001
    async def decide(request: Downstream) -> None:
        assert request.refusal is None
        request.answer(401, [], b"no")

    async with serving(decide) as server, server.client() as client:
        if whole:
            client.send(CHUNKED + b"zz\r\n")
        else:
            await client.trickle(CHUNKED + b"zz\r\n")
        assert (await client.answer()).status == 401
        assert await client.ended()


# Bounds of a head


async def test_a_head_that_is_not_whole_in_time_is_answered_408() -> None:
    async with serving(echo, EdgeLimits(head_s=0.2)) as server, server.client() as client:
        client.send(b"GET / HTTP/1.1\r\nhost:")
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert await client.ended()


async def test_a_head_that_trickles_has_no_more_time_than_another() -> None:
    async with serving(echo, EdgeLimits(head_s=0.2)) as server, server.client() as client:
        begun = asyncio.get_running_loop().time()
        await client.trickle(b"GET / HTTP/1.1\r\n" + b"x" * 40, 0.01)
        assert (await client.answer()).status == 408
        assert asyncio.get_running_loop().time() - begun < 1


async def test_the_second_head_of_a_connection_has_a_deadline_too() -> None:
    async with serving(echo, EdgeLimits(head_s=0.2)) as server, server.client() as client:
        client.send(get() + b"GET /")
        assert (await client.answer()).status == 200
        assert (await client.answer()).status == 408
        assert await client.ended()


async def test_a_silent_connection_is_closed_without_a_word() -> None:
    async with serving(echo, EdgeLimits(head_s=0.1)) as server, server.client() as client:
        assert await client.ended()


async def test_line_ends_between_requests_do_not_keep_a_connection_open() -> None:
    async with serving(echo, EdgeLimits(head_s=0.2)) as server, server.client() as client:
        client.send(get())
        await client.answer()
        await client.trickle(b"\r\n" * 10, 0.01)
        assert await client.ended()


async def test_the_head_deadline_says_nothing_about_the_time_of_an_answer() -> None:
    app = Slow()
    async with serving(app, EdgeLimits(head_s=0.1)) as server, server.client() as client:
        client.send(get("/1"))
        assert await client.silent(0.3)
        app.go.set()
        answer = await client.answer()
        assert answer.status == 200
        assert "connection" not in answer.headers
        client.send(get("/2"))
        assert (await client.answer()).status == 200


async def test_a_head_left_unfinished_behind_a_long_answer_ends_the_connection_after_that_answer() -> None:
    app = Slow()
    async with serving(app, EdgeLimits(head_s=0.1)) as server, server.client() as client:
        client.send(get("/1") + b"GET /2")
        assert await client.silent(0.3)
        app.go.set()
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.ended()
    assert app.begun == [b"/1"]


@pytest.mark.parametrize(
    "start, piece, status",
    [
        (b"GET /", b"a" * 65536, 414),
        (b"GET / HTTP/1.1\r\nx-a: ", b"a" * 65536, 431),
        (b"GET / HTTP/1.1\r\n", b"a:\r\n" * 16384, 431),
        (b"GET / HTTP/1.1\r\n", b"a" * 65536, 431),
        (b"", b"\r\n" * 32768, 431),
        (CHUNKED + b"1;", b"a" * 65536, 431),
        (CHUNKED + b"0\r\na: ", b"a" * 65536, 431),
        (CHUNKED + b"0\r\n", b"a:\r\n" * 16384, 431),
    ],
)
async def test_what_has_no_end_is_refused(start: bytes, piece: bytes, status: int) -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(start)
        for _ in range(32):
            client.send(piece)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert await client.ended()


@pytest.mark.parametrize("line", [b"x-a: " + b"a" * 65536, b"a: b\r\n" * 10_000])
async def test_an_unfinished_head_of_50_mb_costs_no_memory(line: bytes) -> None:
    """The protocol alone, so that nothing of a client is measured."""
    config = uvicorn.Config(
        cast("Any", refuse),
        http=EdgeProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        proxy_headers=False,
    )
    transport = Nowhere()
    state = ServerState()
    protocol = EdgeProtocol(config, state, {}, limits=EdgeLimits())
    protocol.connection_made(transport)
    protocol.data_received(b"GET / HTTP/1.1\r\n")
    tracemalloc.start()
    try:
        for _ in range(50 * MIB // len(line)):
            protocol.data_received(line)
        gc.collect()  # empties the interpreter's own store of tuples
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
    protocol.connection_lost(None)
    await asyncio.sleep(0)
    assert not state.tasks


class Nowhere(asyncio.Transport):
    """A transport without a peer."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Lose the bytes."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """Be closed already."""

    abort = pause_reading = resume_reading = close


async def test_a_head_as_large_as_the_fields_may_be_passes() -> None:
    lines = [f"x-{n}: {'a' * 1000}" for n in range(31)]
    async with serving(echo) as server, server.client() as client:
        for _ in range(3):
            client.send(get("/", *lines))
            assert (await client.answer()).status == 200


async def test_a_large_request_takes_no_room_from_the_head_of_the_next() -> None:
    first = post(b"a" * (HEAD_AT_MOST - 100))
    lines = [f"x-{n}: {'a' * 1000}" for n in range(31)]
    async with serving(echo) as server, server.client() as client:
        for data in (first, get("/", *lines), first + get("/", *lines)[:20000], get("/", *lines)[20000:]):
            client.send(data)
            await asyncio.sleep(0.05)
        assert [(await client.answer()).status for _ in range(4)] == [200] * 4


async def test_the_body_has_a_deadline() -> None:
    async with serving(echo, EdgeLimits(body_s=0.2)) as server, server.client() as client:
        client.send(post(b"a" * 100)[:-10])
        answer = await client.answer()
        assert (answer.status, answer.body) == (408, b"request-timeout")
        assert await client.ended()


# Order


async def test_pipelined_requests_are_answered_in_order() -> None:
    app = Slow()
    async with serving(app) as server, server.client() as client:
        client.send(b"".join(get(f"/{n}") for n in range(1 + PIPELINE_AT_MOST)))
        await asyncio.sleep(0.05)
        assert app.begun == [b"/0"]
        app.go.set()
        answers = [await client.answer() for _ in range(1 + PIPELINE_AT_MOST)]
        assert [answer.body for answer in answers] == [b"GET /%d" % n for n in range(1 + PIPELINE_AT_MOST)]
        client.send(get("/last"))
        assert (await client.answer()).body == b"GET /last"


@pytest.mark.parametrize("together", [True, False], ids=["together", "one-by-one"])
async def test_the_next_request_is_served_when_nothing_is_left_to_do_for_the_one_before(together: bool) -> None:  # noqa: FBT001  (a row of the table)
    seen: list[str] = []

    async def tidy(request: Downstream) -> None:
        seen.append("begins")
        request.answer(200, [], request.target)
        await asyncio.sleep(0.05)
        seen.append("ends")

    async with serving(tidy) as server, server.client() as client:
        client.send(get("/1") + get("/2") if together else get("/1"))
        assert (await client.answer()).body == b"/1"
        if not together:
            client.send(get("/2"))
        assert (await client.answer()).body == b"/2"
        assert seen == ["begins", "ends", "begins"]
        client.send(get("/3"))
        assert (await client.answer()).body == b"/3"


async def test_a_large_body_waits_outside_until_nothing_is_left_to_do_for_the_one_before() -> None:
    paying = asyncio.Event()

    async def tidy(request: Downstream) -> None:
        body = await request.read_body(8 * MIB)
        request.answer(200, [], b"%d" % len(body))
        await paying.wait()

    async with serving(tidy) as server, server.client() as client:
        client.send(post(b"a"))
        assert (await client.answer()).body == b"1"
        client.send(post(b"a" * 8 * MIB))  # more than sockets hold
        assert await client.silent(0.1)
        (connection,) = server.connections
        assert [len(waiting.body) < MIB for waiting in connection._waiting] == [True]
        paying.set()
        assert (await client.answer()).body == b"%d" % (8 * MIB)


async def test_one_more_than_may_wait_closes_the_connection_behind_those_that_wait() -> None:
    app = Slow()
    async with serving(app) as server, server.client() as client:
        client.send(b"".join(get(f"/{n}") for n in range(3 + PIPELINE_AT_MOST)))
        await asyncio.sleep(0.05)
        app.go.set()
        answers = [await client.answer() for _ in range(1 + PIPELINE_AT_MOST)]
        assert {answer.status for answer in answers} == {200}
        assert [answer.headers.get("connection") for answer in answers] == [None] * PIPELINE_AT_MOST + ["close"]
        assert await client.ended()
    assert len(app.begun) == 1 + PIPELINE_AT_MOST
    assert app.lost == [b"/%d" % (1 + PIPELINE_AT_MOST)]  # to be recorded; the one behind it was never read


async def test_a_large_body_does_not_wait_in_memory_behind_another_request() -> None:
    app = Slow()
    async with serving(app) as server, server.client() as client:
        client.send(get("/1") + post(b"a" * 100, target="/2") + post(b"a" * MIB, target="/3") + get("/4"))
        await asyncio.sleep(0.05)
        (connection,) = server.connections
        assert sum(len(waiting.body) for waiting in connection._waiting) == 100
        app.go.set()
        answers = [await client.answer(), await client.answer()]
        assert [answer.headers.get("connection") for answer in answers] == [None, "close"]
        assert await client.ended()
    assert (app.begun, app.lost) == ([b"/1", b"/2"], [b"/3"])


async def test_a_refusal_waits_for_its_turn() -> None:
    app = Slow()
    async with serving(app) as server, server.client() as client:
        client.send(get("/1") + get("/2") + b"garbage\x00\r\n\r\n" + get("/smuggled"))
        await asyncio.sleep(0.05)
        app.go.set()
        assert [(await client.answer()).status for _ in range(3)] == [200, 200, 400]
        assert await client.ended()
    assert app.begun[:2] == [b"/1", b"/2"]


async def test_a_body_that_breaks_while_its_request_waits_is_refused_in_its_turn() -> None:
    app = Slow()
    async with serving(app) as server, server.client() as client:
        client.send(get("/1") + CHUNKED + b"1\r\na\r\nzz")
        await asyncio.sleep(0.05)
        app.go.set()
        assert (await client.answer()).body == b"GET /1"
        assert (await client.answer()).body == b"body-malformed"
        assert await client.ended()


async def test_nothing_behind_connection_close_is_answered() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(get("/1", "connection: close") + get("/2"))
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"GET /1", "close")
        assert await client.ended()


async def test_a_client_that_takes_no_answers_gets_no_further_ones_made() -> None:
    begun: list[bytes] = []
    lost: list[bytes] = []

    async def large(request: Downstream) -> None:
        (lost if request.disconnected else begun).append(request.target)
        request.answer(200, [], b"a" * MIB)

    async with serving(large) as server, server.client(receive_buffer=8192) as client:
        for n in range(20):
            client.send(get(f"/{n}"))
            await asyncio.sleep(0.005)
        assert len(begun) < 10
        answers = 0
        while True:
            answer = await client.answer()
            assert len(answer.body) == MIB
            answers += 1
            if "connection" in answer.headers:
                break
        assert await client.ended()
        assert [b"/%d" % n for n in range(answers)] == begun
    assert lost == [b"/%d" % answers]


async def test_a_client_that_never_takes_its_answer_is_dropped() -> None:
    async def large(request: Downstream) -> None:
        request.answer(200, [], b"a" * 8 * MIB)

    limits = EdgeLimits(linger_s=0.2)
    async with serving(large, limits, keep_alive_s=0.2) as server, server.client(receive_buffer=8192) as client:
        client.send(get())
        await asyncio.sleep(0.1)
        client.send(get("/again") * 3)
        await asyncio.sleep(0.6)
        assert not server.connections
        with pytest.raises(Cut):
            await client.answer()


# Versions and framing


async def test_http_1_0_is_answered_without_chunks_and_closed() -> None:
    async def stream(request: Downstream) -> None:
        request.start(200, [], None, b"a")
        request.write(b"b")
        request.finish()

    async with serving(stream) as server, server.client() as client:
        client.send(get(version="1.0"))
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"ab", "close")
        assert "transfer-encoding" not in answer.headers


async def test_http_1_0_is_closed_even_if_it_asks_to_be_kept() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(get("/", "connection: keep-alive", version="1.0"))
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.ended()


@pytest.mark.parametrize("version", ["2.0", "0.9"])
async def test_the_version_is_handed_on_for_the_headers_to_be_judged(version: str) -> None:
    seen: list[str] = []

    async def note(request: Downstream) -> None:
        seen.append(request.http_version)
        await refuse(request)

    async with serving(note) as server:
        await server.ask(b"GET /\r\n\r\n" if version == "0.9" else get(version=version))
    assert seen == [version]


@pytest.mark.parametrize("field", ["connection: keep-alive", "Proxy-Connection: keep-alive", "x: y"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_no_field_that_keeps_a_connection_makes_another_version_of_it(version: str, field: str) -> None:
    """The version is only asked for where it does not follow from what llhttp says of the connection."""
    seen: list[str] = []

    async def note(request: Downstream) -> None:
        seen.append(request.http_version)
        await refuse(request)

    async with serving(note) as server:
        await server.ask(get("/", field, version=version))
    assert seen == [version]


async def test_continue_is_said_when_the_body_is_wanted() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(post(b"abc", "expect: 100-continue")[:-3])
        assert (await client.answer()).status == 100
        client.send(b"abc")
        assert (await client.answer()).body == b"POST / abc"


async def test_continue_is_not_said_before_a_refusal() -> None:
    async with serving(refuse) as server, server.client() as client:
        client.send(post(b"abc", "expect: 100-continue")[:-3])
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert await client.ended()


async def test_continue_is_not_said_to_http_1_0() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(post(b"abc", "expect: 100-continue", version="1.0")[:-3])
        assert await client.silent(0.1)
        client.send(b"abc")
        assert (await client.answer()).status == 200


# The end of a connection


async def test_a_connection_serves_many_requests() -> None:
    async with serving(echo) as server, server.client() as client:
        for n in range(50):
            client.send(post(b"%d" % n))
            assert (await client.answer()).body == b"POST / %d" % n


async def test_a_connection_does_not_live_for_ever() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(get())
        await client.answer()
        server.connections[0]._requests = REQUESTS_AT_MOST - 2
        client.send(get())
        assert "connection" not in (await client.answer()).headers
        client.send(get())
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.ended()


async def test_an_idle_connection_is_closed_in_the_end() -> None:
    async with serving(echo, keep_alive_s=0.1) as server, server.client() as client:
        client.send(get())
        assert "connection" not in (await client.answer()).headers
        assert await client.ended()


async def test_a_connection_too_many_is_closed_and_the_others_live() -> None:
    async with serving(echo, EdgeLimits(connections=1)) as server, server.client() as first:
        first.send(get())
        await first.answer()
        async with server.client() as second:
            second.send(get())
            assert await second.ended()
        first.send(get())
        assert (await first.answer()).status == 200


def _upload(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(post(b"a" * 20 * MIB))
        received = b""
        while part := client.recv(65536):
            received += part
        return received


async def test_a_client_that_still_sends_20_mb_reads_its_refusal() -> None:
    async with serving(refuse) as server:
        for _ in range(20):
            received = await asyncio.to_thread(_upload, server.port)
            assert received.startswith(b"HTTP/1.1 401 ")
            assert b"connection: close\r\n" in received
            assert received.endswith(b"\r\n\r\nno")


async def test_an_unread_body_is_drained_up_to_a_bound_of_bytes() -> None:
    async with serving(refuse) as server, server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n")
        assert (await client.answer()).status == 401
        for _ in range(LINGER_BYTES // MIB + 8):
            client.send(b"a" * MIB)
        await _until(lambda: not server.connections)


async def test_an_unread_body_is_drained_up_to_a_bound_of_time() -> None:
    async with serving(refuse, EdgeLimits(linger_s=0.2)) as server, server.client() as client:
        client.send(post(b"a" * 100)[:-50])
        assert (await client.answer()).status == 401
        assert server.connections
        await _until(lambda: not server.connections)


@pytest.mark.parametrize("size", [3, 200_000])
@pytest.mark.parametrize("leave", [Client.half_close, Client.leave])
async def test_a_client_that_leaves_is_noticed_at_once(leave: Callable[[Client], None], size: int) -> None:
    """Also behind a body so large that reading was paused until it was taken."""
    app = Watch()
    async with serving(app) as server, server.client() as client:
        client.send(post(b"a" * size))
        await app.begun.wait()
        leave(client)
        async with asyncio.timeout(0.1):
            await app.left.wait()
        assert await client.ended()


async def test_what_waits_when_a_client_leaves_is_begun_as_lost_so_that_it_is_recorded() -> None:
    app = Watch()
    async with serving(app) as server, server.client() as client:
        client.send(get("/1") + get("/2") + post(b"a" * 100, target="/3")[:-10])
        await app.begun.wait()
        client.leave()
        async with asyncio.timeout(0.1):
            await app.left.wait()
        await asyncio.sleep(0.02)
    assert (app.targets, app.lost) == ([b"/1"], [b"/2", b"/3"])


async def test_a_client_that_leaves_during_its_body_is_noticed() -> None:
    ended = asyncio.Event()

    async def read(request: Downstream) -> None:
        with pytest.raises(ConnectionError):
            await request.read_body(MIB)
        ended.set()

    async with serving(read) as server, server.client() as client:
        client.send(post(b"a" * 100)[:-10])
        await asyncio.sleep(0.02)
        client.leave()
        async with asyncio.timeout(0.1):
            await ended.wait()


async def test_a_half_close_between_requests_closes_the_connection() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(get())
        await client.answer()
        client.half_close()
        assert await client.ended()


async def test_an_application_that_fails_costs_its_connection_and_nothing_else() -> None:
    async def fail(request: Downstream) -> None:
        if request.target == b"/fail":
            raise asyncio.CancelledError
        await echo(request)

    async with serving(fail) as server:
        async with server.client() as client:
            client.send(get("/fail"))
            assert await client.ended()
        assert (await server.ask(get())).status == 200


# Shutdown


async def test_a_shutdown_closes_idle_connections() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(get())
        await client.answer()
        server.connections[0].shutdown()
        assert await client.ended()


async def test_a_shutdown_leaves_a_new_connection_the_time_for_its_first_request() -> None:
    async with serving(echo) as server, server.client() as client:
        await _until(lambda: bool(server.connections))
        server.connections[0].shutdown()
        await asyncio.sleep(0.05)
        client.send(get() * 2)
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.ended()


@pytest.mark.parametrize("sent", [b"", get()[:9]])
async def test_a_shutdown_does_not_wait_long_for_a_request_that_does_not_come(sent: bytes) -> None:
    async with serving(echo, EdgeLimits(head_s=0.2, linger_s=0.2)) as server, server.client() as client:
        client.send(sent)
        await _until(lambda: bool(server.connections))
        await asyncio.sleep(0.02)
        server.connections[0].shutdown()
        if sent:
            assert (await client.answer()).status == 408
        assert await client.ended()


async def test_a_connection_that_is_to_go_ends_with_its_next_answer() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(get())
        assert "connection" not in (await client.answer()).headers
        server.connections[0].retire()
        client.send(get())
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.ended()


async def test_a_shutdown_lets_a_stream_come_to_its_end() -> None:
    go = asyncio.Event()

    async def stream(request: Downstream) -> None:
        request.start(200, [], None, b"a")
        await go.wait()
        request.write(b"b")
        request.finish()

    async with serving(stream) as server, server.client() as client:
        client.send(get())
        assert (await client.head())[0] == 200
        assert await client.chunk() == b"a"
        server.connections[0].shutdown()
        go.set()
        assert await client.chunk() == b"b"
        assert await client.chunk() == b""
        assert await client.ended()


async def test_a_shutdown_lets_an_upload_come_to_its_end() -> None:
    async with serving(echo) as server, server.client() as client:
        client.send(post(b"abc")[:-1])
        await asyncio.sleep(0.05)
        server.connections[0].shutdown()
        client.send(b"c")
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"POST / abc", "close")
        assert await client.ended()


async def test_a_shutdown_answers_what_waits() -> None:
    app = Slow()
    async with serving(app) as server, server.client() as client:
        client.send(get("/1") + get("/2"))
        await asyncio.sleep(0.05)
        server.connections[0].shutdown()
        app.go.set()
        answers = [await client.answer(), await client.answer()]
        assert [answer.headers.get("connection") for answer in answers] == [None, "close"]
        assert await client.ended()


async def test_a_shutdown_does_not_overtake_a_refusal_that_is_on_its_way() -> None:
    async with serving(refuse) as server, server.client() as client:
        client.send(post(b"a" * 100)[:-50])
        await asyncio.sleep(0.05)
        server.connections[0].shutdown()
        client.send(b"a" * 50)
        assert (await client.answer()).status == 401
        assert await client.ended()


async def _until(true: Callable[[], bool]) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.01)
    pytest.fail("waited in vain")
