"""What becomes of workers that fail: replaced, ended, given up."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.listening import Unusable
from gateway.adapters.write_turns import WriteTurns
from gateway.crew import Times
from gateway.supervisor import NoWorkerStaysUp
from tests.supervised import PATIENCE_S, supervised

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

QUICK = Times(pause=0.05, steady=600)


async def test_a_worker_that_hangs_is_ended_and_another_takes_its_place(tmp_path: Path) -> None:
    async with supervised(tmp_path, Times(hang=2.0, poll=0.2)) as (_, running, said):
        lines = [await said.wait_for("worker serves", worker=worker) for worker in (1, 2)]
        os.kill(lines[1]["process"], signal.SIGSTOP)
        await said.wait_for("worker hangs: it is ended", worker=2)
        assert (await said.wait_for("worker ended", worker=2))["how"] == "SIGKILL"
        await said.wait_for("worker serves", worker=2)
    await running


async def test_when_no_worker_stays_up_the_supervisor_gives_up(tmp_path: Path) -> None:
    async with supervised(tmp_path, QUICK) as (supervisor, running, said):
        processes = [(await said.wait_for("worker serves", worker=worker))["process"] for worker in (1, 2)]
        supervisor.crew.turns = WriteTurns(9999)  # with such a descriptor nobody can be started any more
        for process in processes:
            os.kill(process, signal.SIGKILL)
        await asyncio.wait([running], timeout=PATIENCE_S)
        with pytest.raises(NoWorkerStaysUp):
            await running
        line = await said.wait_for("worker cannot begin", worker=1)
        assert line["problems"] == ["it cannot be started: Bad file descriptor"]


async def test_a_first_worker_that_does_not_begin_is_the_end(tmp_path: Path) -> None:
    async with supervised(tmp_path, Times(start=0.01)) as (_, running, said):
        await asyncio.wait([running], timeout=PATIENCE_S)
        with pytest.raises(Unusable, match="it did not begin within"):
            await running
    assert not [line for line in said if line["event"] == "listening"]
