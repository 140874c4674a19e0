"""One address: opened, announced as closing, and closed, on sockets of its own and on those of others.

``tests/test_server.py`` and ``tests/e2e`` have what the whole process does with it.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from typing import TYPE_CHECKING

import pytest
import uvloop

from gateway.adapters.edge import EdgeProtocol
from gateway.adapters.edge_limits import EdgeLimits
from gateway.adapters.listening import Unusable, bind
from gateway.addresses import Unix
from gateway.listener import Door, Listener
from tests.adapters.wiring import Client, get
from tests.free_port import free_port
from tests.small_house import settings_of

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from gateway.adapters.downstream import Downstream


async def answer(request: Downstream) -> None:
    """Answer anything."""
    request.answer(200, [], b"yes")


PROTOCOL = functools.partial(EdgeProtocol, limits=EdgeLimits())


def listener(folder: Path, address: str, given: socket.socket | None = None) -> Listener:
    settings = settings_of(folder, LISTENERS__PUBLIC=address, DEADLINES__DRAIN="1s")
    return Listener(settings, "public", Door(answer, PROTOCOL, given))


def run(work: Coroutine[None, None, None]) -> None:
    """Run with the event loop that a gateway has."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, str]:
    """Ask once; give the fields of the answer."""
    client = Client(reader, writer)
    client.send(get())
    return (await client.answer()).headers


def test_a_listener_makes_its_unix_socket_and_takes_it_away(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"

    async def work() -> None:
        one = listener(tmp_path, f"unix:{path}")
        await one.open()
        reader, writer = await asyncio.open_unix_connection(str(path))
        await asked(reader, writer)
        await one.close()
        assert not path.exists()
        writer.transport.abort()

    run(work())


def test_a_socket_that_was_given_stays_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"

    async def work() -> None:
        with bind(Unix(str(path))) as bound:
            one = listener(tmp_path, f"unix:{path}", bound.dup())
            await one.open()
            reader, writer = await asyncio.open_unix_connection(str(path))
            await asked(reader, writer)
            await one.close()
            writer.transport.abort()
            _, waiting = await asyncio.open_unix_connection(str(path))  # the queue is still there
            waiting.transport.abort()
        assert path.exists()

    run(work())


def test_connections_are_announced_to_end_with_their_next_answer(tmp_path: Path) -> None:
    async def work() -> None:
        port = free_port()
        one = listener(tmp_path, f"127.0.0.1:{port}")
        await one.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert "connection" not in await asked(reader, writer)
        one.retire()
        assert (await asked(reader, writer))["connection"] == "close"
        writer.transport.abort()
        await one.close()

    run(work())


def test_an_address_that_cannot_be_listened_on_is_said(tmp_path: Path) -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(Unusable, match=f"Cannot listen on {address}: Address already in use"):
                await listener(tmp_path, address).open()

    run(work())


def test_an_address_that_somebody_bound_first_and_listens_on_is_said(tmp_path: Path) -> None:
    async def work() -> None:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
            one = listener(tmp_path, f"127.0.0.1:{other.getsockname()[1]}")
            await one.open()
            with pytest.raises(OSError, match="in use"):
                other.listen()
            await one.close()

    run(work())
