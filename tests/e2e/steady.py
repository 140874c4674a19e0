"""Callers that ask without a pause, each time on a connection of its own, and gateways of several processes.

Enters: how to ask once. Leaves: what became of every request: statuses, and errors of those that got no answer.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.adapters.wiring import Cut, get
from tests.free_port import free_port
from tests.running import running
from tests.simulators.resp_server import numbers, resp_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.running import Running

LET_IN = numbers(0, 0, 1, 60_000_000, 1_728_000_000_000_000)
"""What a shared ledger answers to every question: there is room."""


OK = 200
PAUSE_S = 0.01
"""Seconds between two requests of one caller, so that engine and ledger, which live in the test, have their turns."""


def code(body: bytes) -> str:
    """Give the reason of a refusal."""
    return str(json.loads(body)["error"]["code"])


class Steady:
    """Counts what became of requests: 200, another status with its reason, or the name of an error."""

    def __init__(self) -> None:
        self.outcomes: Counter[object] = Counter()
        self._more = asyncio.Event()
        self._stopped = False

    async def call(self, ask: Callable[[], Awaitable[tuple[int, bytes]]]) -> None:
        """Ask again and again until told to stop."""
        while not self._stopped:
            try:
                status, body = await ask()
                self.outcomes[status if status == OK else (status, code(body))] += 1
            except (OSError, EOFError, Cut) as error:
                self.outcomes[type(error).__name__] += 1
            self._more.set()
            await asyncio.sleep(PAUSE_S)

    async def reach(self, more: int) -> None:
        """Wait until so many more requests have ended."""
        until = self.outcomes.total() + more
        async with asyncio.timeout(60):
            while self.outcomes.total() < until:
                self._more.clear()
                await self._more.wait()

    def stop(self) -> None:
        """Let each caller end behind what it waits for."""
        self._stopped = True


@asynccontextmanager
async def steady(ask: Callable[[], Awaitable[tuple[int, bytes]]], callers: int = 4) -> AsyncIterator[Steady]:
    """Have so many callers ask while this block runs."""
    calls = Steady()
    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(calls.call(ask))
        try:
            yield calls
        finally:
            calls.stop()


@asynccontextmanager
async def crew(folder: Path, engine: str, ends_with: int = 0, /, **more: str) -> AsyncIterator[Running]:
    """Run a gateway of two workers within this block, from the moment that both of them serve."""
    async with resp_server() as ledger:
        ledger.answers = [LET_IN]
        settings = {"WORKERS": "2", "LEDGER": str(ledger.address), "LISTENERS__OPS": f"127.0.0.1:{free_port()}"}
        async with running(folder, engine, ends_with, **{**settings, **more}) as gateway:
            for number in (1, 2):
                await gateway.said("worker serves", worker=number)
            yield gateway


async def operators(gateway: Running, path: str) -> tuple[int, bytes]:
    """Ask the ops listener."""
    host = gateway.address("OPS").encode()
    return await gateway.ask(get(path).replace(b"host: x", b"host: " + host), "OPS")
