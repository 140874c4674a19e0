"""A worker, as its supervisor has it: asked over a line, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gateway import __version__
from gateway.adapters.worker_process import WorkerProcess
from gateway.adapters.write_turns import WriteTurns
from tests.adapters.relaying import playing
from tests.e2e.steady import LET_IN
from tests.running import answers
from tests.simulators.resp_server import resp_server
from tests.small_house import INSIDE, POLICY, environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Begun:
    """A worker, and what it is begun with."""

    def __init__(self, worker: WorkerProcess, facts: dict[str, Any], said: list[dict[str, Any]]) -> None:
        self.worker = worker
        self.facts = facts
        self.said = said

    async def serve(self, **others: Any) -> Any:  # noqa: ANN401  (JSON)
        """Have it begin; give the problems."""
        return (await self.worker.ask("serve", **{**self.facts, **others})).get("problems")


@asynccontextmanager
async def begun(folder: Path) -> AsyncIterator[Begun]:
    """Start a worker that does not serve yet."""
    said: list[dict[str, Any]] = []

    async def answer(what: str, facts: dict[str, Any]) -> dict[str, Any]:
        said.append({what: facts})
        return {}

    turns = WriteTurns.new()
    async with resp_server() as ledger, playing(answers) as (_, url), asyncio.TaskGroup() as group:
        ledger.answers = [LET_IN]
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{bound.getsockname()[1]}"
            more = {"WORKERS": "3", "LEDGER": str(ledger.address), "LISTENERS__PUBLIC": address}
            facts = {
                "version": __version__,
                "number": 2,
                "environ": environment(folder, url, **more),
                "policies": {"demo.yaml": POLICY},
                "sockets": {"public": bound.fileno()},
                "turns": turns.number,
            }
            worker = await WorkerProcess.start([bound.fileno(), turns.number], os.environ, answer)
            line = group.create_task(worker.run())
            try:
                yield Begun(worker, facts, said)
            finally:
                worker.kill()
                await line
                await worker.ended()
    os.close(turns.number)


async def test_a_worker_does_what_it_is_asked_and_its_last_word_is_what_it_counted(tmp_path: Path) -> None:
    async with begun(tmp_path) as one:
        assert await one.worker.ask("metrics") == {}, "before it serves there is nothing to tell"
        assert await one.serve() is None
        report = (await one.worker.ask("ready"))["report"]
        assert (report["ready"], list(report["planes"])) == (True, ["demo"])
        assert "gateway_build_info" in (await one.worker.ask("metrics"))["metrics"]
        assert await one.worker.ask("prepare", policies={"demo.yaml": "policy: 2"}) != {}
        (problem,) = (await one.worker.ask("prepare", policies={"demo.yaml": INSIDE}))["problems"]
        assert "'public'" in problem
        changed = POLICY.replace("at_most: 2", "at_most: 1").replace("n: 2", "n: 1")
        assert await one.worker.ask("prepare", policies={"demo.yaml": changed}) == {}
        before = (await one.worker.ask("ready"))["report"]["planes"]["demo"]["policy"]
        assert before == report["planes"]["demo"]["policy"], "prepared is not in force"
        assert await one.worker.ask("commit") == {}
        assert (await one.worker.ask("ready"))["report"]["planes"]["demo"]["policy"] != before
        assert await one.worker.ask("refresh") == {}
        assert await one.worker.ask("drain") == {}
        assert await one.worker.ended() == "status 0"
        assert "gateway_build_info" in one.said[-1]["counted"]["metrics"]


@pytest.mark.parametrize(
    "others, problem",
    [
        ({"version": "0.0.1"}, f"Version {__version__} was installed while 0.0.1 runs: restart the gateway."),
        ({"policies": {"demo.yaml": INSIDE}}, "The listener 'public' is configured, but no policy file has it"),
    ],
)
async def test_what_keeps_a_worker_from_serving_is_its_answer(
    tmp_path: Path, others: dict[str, Any], problem: str
) -> None:
    async with begun(tmp_path) as one:
        (said,) = await one.serve(**others)
        assert said.startswith(problem)
        one.worker.hang_up()
        assert await one.worker.ended() == "status 2"


async def test_a_worker_that_is_told_by_a_signal_drains_and_the_supervisors_signals_do_not_end_it(
    tmp_path: Path,
) -> None:
    async with begun(tmp_path) as one:
        assert await one.serve() is None
        os.kill(one.worker.number, signal.SIGHUP)
        assert (await one.worker.ask("ready"))["report"]["ready"]
        os.kill(one.worker.number, signal.SIGTERM)
        assert await one.worker.ended() == "status 0"


async def test_a_worker_without_a_supervisor_ends(tmp_path: Path) -> None:
    async with begun(tmp_path) as one:
        one.worker.hang_up()
        assert await one.worker.ended() == "status 2"


async def test_a_worker_that_serves_and_loses_its_supervisor_drains(tmp_path: Path) -> None:
    async with begun(tmp_path) as one:
        assert await one.serve() is None
        one.worker.hang_up()
        assert await one.worker.ended() == "status 0"


async def test_told_to_end_it_does_not_wait(tmp_path: Path) -> None:
    async with begun(tmp_path) as one:
        assert await one.serve() is None
        await one.worker.ask("end")
        assert await one.worker.ended() == "status 0"
