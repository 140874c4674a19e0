from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.worker_process import WorkerProcess

pytestmark = pytest.mark.anyio


async def silent(_what: str, _facts: dict[str, Any]) -> dict[str, Any]:
    """Have nothing to say."""
    return {}


def names_of(process: int) -> set[bytes]:
    """Name what is in the environment of a process."""
    return {entry.partition(b"=")[0] for entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")}


async def test_a_process_is_started_without_the_settings_and_its_end_is_told() -> None:
    environ = {**os.environ, "GATEWAY_OPS_TOKEN": "secret", "LISTEN_FDS": "1"}
    worker = await WorkerProcess.start([], environ, silent)
    names = names_of(worker.number)
    assert b"PATH" in names
    assert not names & {b"GATEWAY_OPS_TOKEN", b"LISTEN_FDS"}
    async with asyncio.TaskGroup() as group:
        line = group.create_task(worker.run())
        worker.kill()
        assert await worker.ended() == "SIGKILL"
        worker.kill()
        await line
    with pytest.raises(ConnectionError):
        await worker.ask("ready")


async def test_a_descriptor_that_is_not_open_is_an_error() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        await WorkerProcess.start([9999], os.environ, silent)
