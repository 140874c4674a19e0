"""A connection that is kept tells when an engine has ended it sooner than it used to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.persistent_connection import PersistentConnection
from gateway.addresses import engine_address
from gateway.reasons import Reason, Unavailable
from tests.adapters.relaying import head, playing, whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.adapters.relaying import Line, Play, PlayedEngine

pytestmark = pytest.mark.usefixtures("nothing_left")

KEPT_S = 0.1


async def pong(line: Line) -> None:
    await line.send(whole(b"pong"))


@asynccontextmanager
async def asking(play: Play = pong) -> AsyncIterator[tuple[PersistentConnection, PlayedEngine]]:
    async with playing(play) as (engine, url):
        pool = EnginePool(engine_address(url), idle=1, keep_alive_s=9, connect_s=1)
        connection = PersistentConnection(EngineClient(pool, "KEY"))
        try:
            yield connection, engine
        finally:
            connection.close()


async def until(true: Callable[[], bool]) -> None:
    for _ in range(400):
        if true():
            return
        await asyncio.sleep(0.005)
    pytest.fail("waited in vain")


async def keep(connection: PersistentConnection, seconds: float = KEPT_S) -> None:
    """Ask twice, with a pause between."""
    await connection.fetch("/", timeout_s=1)
    await asyncio.sleep(seconds)
    await connection.fetch("/", timeout_s=1)


async def test_questions_go_over_one_connection_and_say_whose_they_are() -> None:
    async with asking() as (connection, engine):
        for _ in range(3):
            assert await connection.fetch("/v1/models", timeout_s=1) == (200, b"pong")
        assert (len(engine.lines), engine.asked) == (1, 3)
        sent = engine.lines[0].head
        assert sent.startswith(b"GET /v1/models HTTP/1.1\r\n")
        assert b"(probe)\r\n" in sent
        assert b"authorization: Bearer KEY\r\n" in sent
        assert b"connection: close" not in sent


async def test_an_engine_that_ends_it_sooner_than_before_has_lost_it() -> None:
    async with asking() as (connection, engine):
        await keep(connection)
        assert not connection.lost
        engine.lines[0].reset()
        await until(lambda: connection.lost)
        assert await connection.fetch("/", timeout_s=1) == (200, b"pong")
        await until(lambda: connection.lost)  # until somebody has found out why
        assert len(engine.lines) == 2
        connection.settle()
        await until(lambda: not connection.lost)


async def test_an_engine_that_never_keeps_one_loses_none() -> None:
    async with asking() as (connection, engine):
        await connection.fetch("/", timeout_s=1)
        engine.lines[0].close()
        await until(lambda: not engine.open)
        await connection.fetch("/", timeout_s=1)
        assert not connection.lost


async def test_one_that_ends_after_longer_than_it_was_ever_kept_is_not_lost() -> None:
    async with asking() as (connection, engine):
        await keep(connection, 0.01)
        await asyncio.sleep(KEPT_S)
        engine.lines[0].close()
        await until(lambda: not engine.open)
        assert not connection.lost


async def test_after_a_loss_it_is_found_out_anew_how_long_an_engine_keeps_one() -> None:
    async with asking() as (connection, engine):
        await keep(connection)
        engine.lines[0].close()
        await until(lambda: connection.lost)
        await connection.fetch("/", timeout_s=1)
        connection.settle()
        engine.lines[1].close()
        await until(lambda: not engine.open)
        assert not connection.lost


async def test_one_that_ends_as_it_is_asked_is_lost_too() -> None:
    last = False

    async def play(line: Line) -> None:
        if last:
            line.reset()
        else:
            await pong(line)

    async with asking(play) as (connection, _):
        await keep(connection)
        last = True
        with pytest.raises(Unavailable) as unavailable:
            await connection.fetch("/", timeout_s=1)
        assert unavailable.value.reason is Reason.ENGINE_UNAVAILABLE
        assert connection.lost


async def test_one_that_ends_right_behind_an_answer_is_lost_too() -> None:
    last = False

    async def play(line: Line) -> None:
        await pong(line)
        if last:
            line.close()

    async with asking(play) as (connection, _):
        await keep(connection)
        last = True
        assert await connection.fetch("/", timeout_s=1) == (200, b"pong")
        await until(lambda: connection.lost)


async def test_an_engine_that_says_that_it_closes_has_lost_nothing() -> None:
    async def play(line: Line) -> None:
        await line.send(whole(b"pong", *(["connection: close"] if line.number else [])))
        if line.number:
            line.close()

    async with asking(play) as (connection, engine):
        await keep(connection)
        connection.close()
        for _ in range(2):
            assert await connection.fetch("/", timeout_s=1) == (200, b"pong")
        assert not connection.lost
        assert len(engine.lines) == 3


async def test_an_answer_that_does_not_come_ends_it_and_is_no_loss() -> None:
    silent = False

    async def play(line: Line) -> None:
        if silent:
            await line.gone()
        else:
            await pong(line)

    async with asking(play) as (connection, engine):
        await keep(connection)
        silent = True
        with pytest.raises(Unavailable) as unavailable:
            await connection.fetch("/", timeout_s=0.05)
        assert unavailable.value.reason is Reason.ENGINE_TIMEOUT
        await until(lambda: not engine.open)
        assert not connection.lost


@pytest.mark.parametrize("said", [whole(b"pong") + b"x", whole(b"pong") + head("content-length: 0")])
async def test_an_engine_that_says_too_much_is_left_and_has_lost_nothing(said: bytes) -> None:
    async with asking() as (connection, engine):
        await keep(connection)

        async def play(line: Line) -> None:
            await line.send(said)

        engine.play = play
        assert await connection.fetch("/", timeout_s=1) == (200, b"pong")
        await until(lambda: not engine.open)
        assert not connection.lost


async def test_an_engine_that_speaks_without_being_asked_is_left() -> None:
    async with asking() as (connection, engine):
        await keep(connection)
        await engine.lines[0].send(b"x")
        await until(lambda: not engine.open)
        assert not connection.lost


async def test_an_engine_that_is_not_there_is_unavailable_and_stays_lost() -> None:
    async with asking() as (connection, engine):
        await keep(connection)
        engine.lines[0].close()
        await until(lambda: connection.lost)
        connection._client = EngineClient(
            EnginePool(engine_address("http://127.0.0.1:1"), idle=1, keep_alive_s=9, connect_s=1), None
        )
        with pytest.raises(Unavailable):
            await connection.fetch("/", timeout_s=1)
        assert connection.lost
