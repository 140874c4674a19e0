"""Connections are kept, aged and given up; one that is out of step is closed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.engine_pool import CaFileUnusable, EngineConnection, EnginePool, trust
from gateway.addresses import engine_address
from gateway.reasons import Reason, Unavailable
from tests.adapters.relaying import playing
from tests.simulators.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.adapters.relaying import Line, PlayedEngine

pytestmark = pytest.mark.usefixtures("nothing_left")


class Listener:
    """Takes the place of an exchange."""

    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()

    def received(self, data: bytes) -> None:
        self.data += data

    def closed(self) -> None:
        self.ended.set()

    def late(self) -> None:
        raise AssertionError


@asynccontextmanager
async def pooled(
    *, idle: int = 4, keep_alive_s: float = 30, connect_s: float = 2
) -> AsyncIterator[tuple[EnginePool, PlayedEngine]]:
    """Give a pool with an engine that sends each request back."""

    async def play(line: Line) -> None:
        await line.send(line.body)

    async with playing(play) as (engine, url):
        pool = EnginePool(engine_address(url), idle=idle, keep_alive_s=keep_alive_s, connect_s=connect_s)
        try:
            yield pool, engine
        finally:
            pool.close()


async def until(true: Callable[[], bool]) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.005)
    pytest.fail("waited in vain")


async def test_a_connection_given_back_is_the_next_one_taken() -> None:
    async with pooled() as (pool, engine):
        assert pool.reuse() is None
        first, second = await pool.connect(), await pool.connect()
        used = [first.used]
        pool.give_back(first)
        pool.give_back(second)
        assert pool.idle == 2
        assert pool.reuse() is second
        assert pool.reuse() is first
        assert pool.reuse() is None
        assert [*used, first.used] == [False, True]
        for connection in (first, second):
            pool.give_back(connection)
        await until(lambda: engine.open == 2)


async def test_no_more_than_so_many_are_kept() -> None:
    async with pooled(idle=1) as (pool, engine):
        connections = [await pool.connect() for _ in range(3)]
        await until(lambda: engine.open == 3)
        for connection in connections:
            pool.give_back(connection)
        assert pool.idle == 1
        await until(lambda: engine.open == 1)


async def test_none_is_kept_longer_than_so_long() -> None:
    async with pooled(keep_alive_s=1.2) as (pool, engine):
        old, young = await pool.connect(), await pool.connect()
        pool.give_back(old)
        pool.give_back(young)
        young.idle_since += 0.5  # as if it had been given back so much later
        await until(lambda: pool.idle == 1)
        await until(lambda: not old.open)
        assert pool.reuse() is young
        begun = asyncio.get_running_loop().time()
        pool.give_back(young)
        await until(lambda: not pool.idle)
        assert asyncio.get_running_loop().time() - begun > 0.5
        await until(lambda: not engine.open)
        assert pool.reuse() is None
        pool.give_back(await pool.connect())
        await until(lambda: not pool.idle)


async def test_one_that_the_engine_closes_is_forgotten() -> None:
    async with pooled() as (pool, engine):
        pool.give_back(await pool.connect())
        await until(lambda: bool(engine.lines))
        engine.lines[0].close()
        await until(lambda: not pool.idle)
        assert pool.reuse() is None


async def test_one_that_is_closing_is_not_taken_and_not_taken_back() -> None:
    async with pooled() as (pool, _):
        closing, other = await pool.connect(), await pool.connect()
        pool.give_back(closing)
        closing.transport.abort()
        assert pool.reuse() is None
        other.transport.abort()
        pool.give_back(other)
        assert pool.idle == 0


async def test_bytes_on_an_idle_connection_close_it() -> None:
    async with pooled() as (pool, engine):
        connection = await pool.connect()
        pool.give_back(connection)
        await until(lambda: bool(engine.lines))
        await engine.lines[0].send(b"HTTP/1.1 200 OK\r\n\r\n")
        await until(lambda: not pool.idle)
        assert pool.reuse() is None
        assert not connection.open


async def test_bytes_and_the_end_of_a_connection_go_to_its_receiver() -> None:
    async with pooled() as (pool, engine):
        connection, listener = await pool.connect(), Listener()
        connection.receiver = listener
        connection.transport.write(b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc")
        await until(lambda: listener.data == b"abc")
        engine.lines[0].close()
        async with asyncio.timeout(1):
            await listener.ended.wait()
        assert connection.receiver is None


async def test_a_pool_that_is_closed_keeps_nothing() -> None:
    async with pooled() as (pool, engine):
        kept, used = await pool.connect(), await pool.connect()
        pool.give_back(kept)
        pool.close()
        pool.give_back(used)
        assert pool.idle == 0
        await until(lambda: not engine.open)


async def test_an_engine_that_refuses_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    await _unreachable(url, Reason.ENGINE_UNAVAILABLE, "connection refused")


async def test_a_socket_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    await _unreachable(f"unix:{tmp_path}/none", Reason.ENGINE_UNAVAILABLE, "no such socket")


async def test_a_name_without_an_address_is_unavailable() -> None:
    await _unreachable("http://engine.invalid", Reason.ENGINE_UNAVAILABLE, "not reached")


async def test_an_engine_without_tls_is_unavailable_over_https() -> None:
    async def play(line: Line) -> None:
        await line.gone()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 no TLS here\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await _unreachable(f"https://127.0.0.1:{port}", Reason.ENGINE_UNAVAILABLE, "TLS failed")


async def test_an_engine_that_does_not_take_a_connection_in_time_is_late() -> None:
    """A queue of one that is full: further connections get no answer."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        queued = [socket.socket() for _ in range(4)]
        for one in queued:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        await asyncio.sleep(0.05)
        await _unreachable(f"http://127.0.0.1:{full.getsockname()[1]}", Reason.ENGINE_TIMEOUT, "connect")
        for one in queued:
            one.close()


async def _unreachable(url: str, reason: Reason, detail: str) -> None:
    pool = EnginePool(engine_address(url), idle=1, keep_alive_s=1, connect_s=0.3)
    with pytest.raises(Unavailable) as unavailable:
        await pool.connect()
    assert (unavailable.value.reason, unavailable.value.detail) == (reason, detail)


async def test_an_engine_on_a_unix_socket_is_reached(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(9))
        writer.close()

    async with await asyncio.start_unix_server(echo, tmp_path / "engine"):
        pool = EnginePool(engine_address(f"unix:{tmp_path}/engine"), idle=1, keep_alive_s=1, connect_s=1)
        connection, listener = await pool.connect(), Listener()
        connection.receiver = listener
        connection.transport.write(b"abc")
        async with asyncio.timeout(1):
            await listener.ended.wait()
        assert listener.data == b"abc"


async def test_a_certificate_is_checked() -> None:
    """The pool of an https engine trusts the system's authorities and demands the engine's name."""
    pool = EnginePool(engine_address("https://engine.internal"), idle=1, keep_alive_s=1, connect_s=1)
    assert pool._tls is not None
    assert pool._tls.check_hostname
    assert pool._tls.verify_mode is ssl.CERT_REQUIRED


async def test_the_authorities_of_a_file_are_the_only_ones_that_are_believed(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    pair = ours.server("engine")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.cert, pair.key)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(9))
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0, ssl=tls) as server:
        address = engine_address(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        pool = EnginePool(address, idle=1, keep_alive_s=1, connect_s=2, tls=trust(ours.ca))
        connection, listener = await pool.connect(), Listener()
        connection.receiver = listener
        connection.transport.write(b"abc")
        async with asyncio.timeout(2):
            await listener.ended.wait()
        assert listener.data == b"abc"
        for believed in (trust(theirs.ca), None):
            wary = EnginePool(address, idle=1, keep_alive_s=1, connect_s=2, tls=believed)
            with pytest.raises(Unavailable) as unavailable:
                await wary.connect()
            assert (unavailable.value.reason, unavailable.value.detail) == (Reason.ENGINE_UNAVAILABLE, "TLS failed")


async def test_a_file_of_authorities_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    none, empty = tmp_path / "none.pem", tmp_path / "empty.pem"
    empty.write_text("no certificate", "utf-8")
    for file, why in ((none, "cannot be read"), (empty, "holds no certificate in PEM")):
        with pytest.raises(CaFileUnusable, match=why):
            trust(file)


async def test_a_connection_that_ends_before_anybody_has_it_is_no_connection() -> None:
    class Ended(EngineConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            transport.close()
            self.connection_lost(None)

    class Unlucky(EnginePool):
        def _protocol(self) -> EngineConnection:
            return Ended(self._forget)

    async with pooled() as (pool, _):
        unlucky = Unlucky(pool.address, idle=1, keep_alive_s=1, connect_s=1)
        with pytest.raises(Unavailable) as unavailable:
            await unlucky.connect()
        assert (unavailable.value.reason, unavailable.value.detail) == (Reason.ENGINE_UNAVAILABLE, "connection closed")
