"""A supervisor in the test's own process, with workers in theirs, and what it says.

Enters: a folder, and how patient it is. Leaves: the supervisor, the task that it runs in, and its lines.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from gateway.adapters.policy_files import PolicyFiles
from gateway.settings import load_settings
from gateway.supervisor import Supervisor
from tests.adapters.relaying import playing
from tests.e2e.steady import LET_IN
from tests.running import answers
from tests.simulators.resp_server import resp_server
from tests.small_house import POLICY, environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.crew import Times

PATIENCE_S = 60


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


class Supervised(NamedTuple):
    """A supervisor that runs."""

    supervisor: Supervisor
    running: asyncio.Task[None]
    said: Said


@asynccontextmanager
async def supervised(folder: Path, times: Times, **more: str) -> AsyncIterator[Supervised]:
    """Begin a supervisor of two workers; it has ended behind this block."""
    async with AsyncExitStack() as stack:
        said = Said()
        structlog.configure(processors=[said])
        stack.callback(structlog.reset_defaults)
        bound = stack.enter_context(socket.socket())
        bound.bind(("127.0.0.1", 0))
        bound.setblocking(False)
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
            yield Supervised(supervisor, running, said)
        finally:
            supervisor.stop()
            await asyncio.wait([running], timeout=PATIENCE_S)
            assert running.done()
