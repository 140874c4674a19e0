"""The supervisor in the test's own process, with workers in theirs.

``tests/e2e/test_workers.py`` has what the whole command does.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from gateway.crew import Times
from gateway.settings import load_settings
from gateway.supervisor import supervise
from tests.small_house import environment
from tests.supervised import PATIENCE_S, supervised

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_worker_that_does_not_come_to_its_end_is_ended(tmp_path: Path) -> None:
    times = Times(close=0.5, answer=0.2)
    async with supervised(tmp_path, times, DEADLINES__DRAIN="1s") as (supervisor, running, said):
        lines = [await said.wait_for("worker serves", worker=worker) for worker in (1, 2)]
        os.kill(lines[1]["process"], signal.SIGSTOP)
        supervisor.stop()
        await running
    assert not [line for line in said if line["event"] == "worker ended"], "it was told to"


async def test_told_to_stop_before_anybody_serves_it_ends_well(tmp_path: Path) -> None:
    async with supervised(tmp_path, Times()) as (supervisor, running, said):
        worker = None
        async with asyncio.timeout(PATIENCE_S):
            while worker is None:
                await asyncio.sleep(0.01)
                worker = supervisor.crew.slots[0].worker
        supervisor.stop()
        worker.kill()  # as a service's supervisor does that signals all processes
        await running
    assert not [line for line in said if line["event"] == "listening"]


def test_a_configuration_that_does_not_hold_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = environment(tmp_path, "http://127.0.0.1:9", WORKERS="2", LEDGER="valkey://127.0.0.1:9")
    assert supervise(load_settings(environ), environ) == 2
    assert "holds no *.yaml file" in capsys.readouterr().err
