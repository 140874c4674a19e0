"""The supervisor in the test's own process, with workers in theirs: what it does when they fail it.

``tests/e2e/test_workers.py`` has what the whole command does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.adapters.listening import Unusable
from gateway.adapters.policy_files import PolicyFiles
from gateway.adapters.write_turns import WriteTurns
from gateway.settings import load_settings
from gateway.supervisor import NoWorkerStaysUp, Supervisor, Times, supervise
from tests.adapters.relaying import playing
from tests.e2e.steady import LET_IN
from tests.running import answers
from tests.simulators.resp_server import resp_server
from tests.small_house import POLICY, environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

PATIENCE_S = 60
QUICK = Times(pause=0.05, steady=600)


class Said(list[dict[str, Any]]):
    """Log lines; whoever waits for one is told when it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def __call__(self, _logger: object, _method: str, event: Any) -> Any:  # noqa: ANN401  (structlog's)
        self.append(dict(event))
        self._more.set()
        raise structlog.DropEvent

    async def wait_for(self, event: str, **facts: object) -> dict[str, Any]:
        """Wait for a line with these facts, and take it off."""
        wanted = {"event": event, **facts}.items()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for line in self:
                    if wanted <= line.items():
                        self.remove(line)
                        return line
                self._more.clear()
                await self._more.wait()


@pytest.fixture
async def said() -> AsyncIterator[Said]:
    said = Said()
    structlog.configure(processors=[said])
    yield said
    structlog.reset_defaults()


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.setblocking(False)
        yield bound


@asynccontextmanager
async def supervised(
    folder: Path, bound: socket.socket, times: Times, **more: str
) -> AsyncIterator[tuple[Supervisor, asyncio.Task[None]]]:
    """Begin a supervisor of two workers; it has ended behind this block."""
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(resp_server())
        ledger.answers = [LET_IN]
        _, url = await stack.enter_async_context(playing(answers))
        (folder / "demo.yaml").write_text(POLICY, "utf-8")
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        settings = {"WORKERS": "2", "LEDGER": str(ledger.address), "LISTENERS__PUBLIC": address, **more}
        environ = environment(folder, url, **settings)
        files = PolicyFiles([folder])
        files.load()
        supervisor = Supervisor(load_settings(environ), environ, files, {"public": bound}, times)
        running = asyncio.ensure_future(supervisor.run())
        try:
            yield supervisor, running
        finally:
            supervisor.stop()
            await asyncio.wait([running], timeout=PATIENCE_S)
            assert running.done()


async def test_a_worker_that_hangs_is_ended_and_another_takes_its_place(
    tmp_path: Path, bound: socket.socket, said: Said
) -> None:
    async with supervised(tmp_path, bound, Times(hang=2.0, poll=0.2)) as (_, running):
        lines = [await said.wait_for("worker serves", worker=worker) for worker in (1, 2)]
        os.kill(lines[1]["process"], signal.SIGSTOP)
        await said.wait_for("worker hangs: it is ended", worker=2)
        assert (await said.wait_for("worker ended", worker=2))["how"] == "SIGKILL"
        await said.wait_for("worker serves", worker=2)
    await running


async def test_when_no_worker_stays_up_the_supervisor_gives_up(
    tmp_path: Path, bound: socket.socket, said: Said
) -> None:
    async with supervised(tmp_path, bound, QUICK) as (supervisor, running):
        processes = [(await said.wait_for("worker serves", worker=worker))["process"] for worker in (1, 2)]
        supervisor._turns = WriteTurns(9999)  # with such a descriptor nobody can be started any more
        for process in processes:
            os.kill(process, signal.SIGKILL)
        await asyncio.wait([running], timeout=PATIENCE_S)
        with pytest.raises(NoWorkerStaysUp):
            await running
        line = await said.wait_for("worker cannot begin", worker=1)
        assert line["problems"] == ["it cannot be started: Bad file descriptor"]


async def test_a_first_worker_that_does_not_begin_is_the_end(tmp_path: Path, bound: socket.socket, said: Said) -> None:
    async with supervised(tmp_path, bound, Times(start=0.01)) as (_, running):
        await asyncio.wait([running], timeout=PATIENCE_S)
        with pytest.raises(Unusable, match="it did not begin within"):
            await running
    assert not [line for line in said if line["event"] == "listening"]


async def test_a_worker_that_does_not_come_to_its_end_is_ended(
    tmp_path: Path, bound: socket.socket, said: Said
) -> None:
    times = Times(close=0.5, answer=0.2)
    async with supervised(tmp_path, bound, times, DEADLINES__DRAIN="1s") as (supervisor, running):
        lines = [await said.wait_for("worker serves", worker=worker) for worker in (1, 2)]
        os.kill(lines[1]["process"], signal.SIGSTOP)
        supervisor.stop()
        await running
    assert not [line for line in said if line["event"] == "worker ended"], "it was told to"


def test_a_configuration_that_does_not_hold_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = environment(tmp_path, "http://127.0.0.1:9", WORKERS="2", LEDGER="valkey://127.0.0.1:9")
    assert supervise(load_settings(environ), environ) == 2
    assert "holds no *.yaml file" in capsys.readouterr().err
