"""Two gateways are restarted one after the other while callers go on: no connection is refused, no request fails."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from gateway.listener import BACKLOG
from tests.adapters.relaying import LAST, STREAM, chunk, playing, warmed
from tests.adapters.wiring import Client, Cut
from tests.e2e.steady import operators, steady
from tests.free_port import free_port
from tests.running import answers, refused, running
from tests.small_house import POLICY, chat

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.adapters.relaying import Line
    from tests.running import Running

HOST = "llm.example"
MANY = POLICY.replace("600", "60000")
EVENT = b'data: {"choices":[]}\n\n'


async def once(port: int, *, keep: bool = False) -> tuple[int, bytes]:
    """Ask once, or twice on one connection if that is kept, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = Client(reader, writer)
    try:
        client.send(chat(HOST))
        answer = await client.answer()
        if keep and answer.headers.get("connection") != "close":
            client.send(chat(HOST))
            answer = await client.answer()
        return answer.status, answer.body
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


# One socket for both, which whoever started them holds


@pytest.fixture
def held() -> Iterator[socket.socket]:
    """Bind and hold a socket as a socket unit of systemd does."""
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as server:
        yield server


async def test_gateways_on_one_socket_are_restarted_in_turn_and_nobody_notices(
    tmp_path: Path, held: socket.socket
) -> None:
    go = asyncio.Event()

    async def play(line: Line) -> None:
        if b'"stream":true' not in line.body.replace(b" ", b""):
            await answers(line)
            return
        await line.send(STREAM + chunk(EVENT))
        await go.wait()
        await line.send(chunk(EVENT) + LAST)

    (tmp_path / "demo.yaml").write_text(MANY, "utf-8")
    port = held.getsockname()[1]
    public = {"LISTENERS__PUBLIC": f"127.0.0.1:{port}", "HOSTS__PUBLIC": HOST}

    async with playing(warmed(play)) as (_, url):

        @asynccontextmanager
        async def gateway() -> AsyncIterator[Running]:
            async with running(tmp_path, url, 0, [held], **public) as one:
                yield one

        async with AsyncExitStack() as first, AsyncExitStack() as second:
            await first.enter_async_context(gateway())
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stream = Client(reader, writer)
            stream.send(chat(HOST, stream=True))
            await stream.head()
            assert await stream.chunk() == EVENT
            await second.enter_async_context(gateway())
            async with steady(lambda: once(port)) as calls:
                await calls.reach(20)
                ending = asyncio.ensure_future(first.aclose())  # drains, with the stream under way
                await calls.reach(20)
                assert not ending.done()
                go.set()
                assert [await stream.chunk(), await stream.chunk()] == [EVENT, b""]
                await ending
                async with gateway():
                    await calls.reach(20)
                    await second.aclose()
                    await calls.reach(20)
                    async with gateway():  # so that there is always one
                        await calls.reach(20)
                        calls.stop()
            writer.transport.abort()
    assert set(calls.outcomes) == {200}


async def test_a_socket_that_nobody_is_to_listen_on_is_status_2(tmp_path: Path, held: socket.socket) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    said = await refused(tmp_path, [held])
    assert said.startswith(f"LISTEN_FDS hands over a socket of 127.0.0.1:{held.getsockname()[1]}, which is the address")


# Two addresses, and something in front that sends callers to whoever is ready


class Front:
    """A balancer of the plainest kind: asks each gateway every 50 ms whether it is ready, and takes turns."""

    def __init__(self, gateways: list[Running | None]) -> None:
        self.gateways = gateways
        self.ready: list[bool] = [False] * len(gateways)
        self._turn = 0
        self._looked = asyncio.Condition()

    async def look(self) -> None:
        """Look for ever."""
        while True:
            for place, gateway in enumerate(self.gateways):
                self.ready[place] = False if gateway is None else await _is_ready(gateway)
            async with self._looked:
                self._looked.notify_all()
            await asyncio.sleep(0.05)

    async def sees(self, place: int) -> None:
        """Wait until a gateway is seen to be ready."""
        async with self._looked:
            await self._looked.wait_for(lambda: self.ready[place])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        places = [place for place, ready in enumerate(self.ready) if ready]
        self._turn += 1
        gateway = self.gateways[places[self._turn % len(places)]]
        assert gateway is not None
        host, _, port = gateway.address().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass(reader, back))
            group.create_task(_pass(there, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()


async def _is_ready(gateway: Running) -> bool:
    with suppress(OSError, Cut):
        return (await operators(gateway, "/readyz"))[0] == 200
    return False


async def test_gateways_behind_a_balancer_are_restarted_in_turn_with_a_notice(tmp_path: Path) -> None:
    settings = [
        {
            "LISTENERS__PUBLIC": f"127.0.0.1:{free_port()}",
            "LISTENERS__OPS": f"127.0.0.1:{free_port()}",
            "HOSTS__PUBLIC": HOST,
            "DEADLINES__NOTICE": "2s",
        }
        for _ in range(2)
    ]
    (tmp_path / "demo.yaml").write_text(MANY, "utf-8")
    front = Front([None, None])
    async with playing(answers) as (_, url), asyncio.TaskGroup() as group:
        server = await asyncio.start_server(front.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        looking = group.create_task(front.look())
        stacks = [AsyncExitStack(), AsyncExitStack()]
        for place in (0, 1):
            front.gateways[place] = await stacks[place].enter_async_context(running(tmp_path, url, **settings[place]))
            await front.sees(place)
        async with steady(lambda: once(port, keep=True)) as calls:
            for place in (0, 1):
                await calls.reach(20)
                gateway = front.gateways[place]
                assert gateway is not None
                gateway.tell(signal.SIGTERM)
                await gateway.said("stopped")
                await stacks[place].aclose()
                front.gateways[place] = await stacks[place].enter_async_context(
                    running(tmp_path, url, **settings[place])
                )
                await front.sees(place)
            await calls.reach(20)
        for stack in stacks:
            await stack.aclose()
        looking.cancel()
        server.close()
    assert set(calls.outcomes) == {200}
