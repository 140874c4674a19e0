"""What one exchange does to its connection, and with an answer that comes in one piece."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.engine import EngineReplica
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.exchange import TAIL, Exchange
from gateway.addresses import engine_address
from gateway.dialects.call import Usage
from gateway.dialects.registry import DIALECTS
from gateway.ports import Ending, UpstreamRequest
from tests.adapters.relaying import ASK, DEADLINES, chunk, playing, relaying, whole
from tests.adapters.wiring import serving

if TYPE_CHECKING:
    from gateway.adapters.downstream import Downstream
    from tests.adapters.relaying import Line, Play

pytestmark = pytest.mark.usefixtures("nothing_left")

COUNT = b'"usage":{"prompt_tokens":5,"completion_tokens":7}'
CHAT = b"{%b}" % COUNT
SIZES = [0, 1, TAIL - 1, TAIL, 2 * TAIL, 5 * TAIL]


def says(*parts: bytes) -> Play:
    """Play an engine that answers each request with these bytes, each part in a packet of its own."""

    async def play(line: Line) -> None:
        for number, part in enumerate(parts):
            await asyncio.sleep(0.02 if number else 0)
            await line.send(part)

    return play


async def test_an_exchange_that_has_ended_has_no_hold_on_its_connection() -> None:
    """Whoever cleans up late must not hit the request that the connection serves by now."""
    kept: list[bool] = []

    async with playing(says(whole(CHAT))) as (_, url):
        pool = EnginePool(engine_address(url), idle=1, keep_alive_s=9, connect_s=1)

        async def app(inbound: Downstream) -> None:
            request = UpstreamRequest("1", "p", "main", "POST", "/", b"", False, DIALECTS["openai-chat"], DEADLINES, [])
            replica = EngineReplica(EngineClient(pool, None))
            connection = await pool.connect()
            exchange = Exchange(request, inbound, replica, replica.send(0.0), connection, connection.loop.time(), 15)
            await exchange
            assert pool.reuse() is connection
            for late in (exchange.client_ready, exchange.client_left, exchange.cancel):
                late()
                kept.append(connection.open and not connection.transport.is_closing())
            pool.give_back(connection)

        async with serving(app) as server:
            assert (await server.ask(ASK)).body == CHAT
            await asyncio.sleep(0.02)
        pool.close()
    assert kept == [True] * 3


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("last", [True, False])
async def test_the_count_at_either_end_of_a_plain_answer_is_read(*, last: bool, size: int, pieces: int) -> None:
    """In one piece, as nearly always, or in two."""
    filling = b'"x":"%b"' % (b"y" * size)
    body = b"{%b,%b}" % ((filling, COUNT) if last else (COUNT, filling))
    answer = whole(body)
    async with relaying(says(answer) if pieces == 1 else says(answer[:120], answer[120:])) as relay:
        seen = await relay.served.ask(ASK)
        delivery = await relay.delivery()
        assert (seen.status, seen.body, relay.pool.idle) == (200, body, 1)
        assert (relay.meters[0].usage, relay.meters[0].produced) == (Usage(5, 7), 0)
        assert (delivery.ending, delivery.engine_status, delivery.whole) == (Ending.DELIVERED, 200, True)
        assert delivery.first_byte_s is not None


async def test_a_plain_answer_in_chunks_that_come_at_once_is_passed_on() -> None:
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(CHAT[:9]) + chunk(CHAT[9:]) + b"0\r\n\r\n"
    async with relaying(says(answer)) as relay:
        for _ in range(3):
            assert (await relay.served.ask(ASK)).body == CHAT
        assert relay.meters[2].usage == Usage(5, 7)
        assert (len(relay.engine.lines), relay.pool.idle) == (1, 1)
