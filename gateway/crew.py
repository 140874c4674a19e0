"""The workers of one gateway: each has a place, in which there is always a process, and all can be asked together.

Enters: what a worker is begun with, and when to stop. Leaves: workers that serve, in place of those that end, and their
answers. When policies change, when all stop and what operators are told is the business of ``supervisor``.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from gateway import __version__
from gateway.adapters.metrics_sum import MetricsSum
from gateway.adapters.worker_process import WorkerProcess
from gateway.adapters.write_turns import WriteTurns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket

MOST_FAILURES = 4
"""Failures in a row of every worker, none of them serving, after which the gateway gives up."""

_log = structlog.get_logger("gateway.supervisor")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: for an answer while an operator waits, for any answer before a worker is ended, for its start.

    ``steady``: of service after which an end is no failure to stay up. ``pause``: at most between an end and the next
    start. ``poll``: between two looks at what workers have counted; so much is lost with one that is killed. ``close``:
    beyond the drain deadline, after which a worker is ended.
    """

    answer: float = 2.0
    hang: float = 30.0
    start: float = 60.0
    steady: float = 10.0
    pause: float = 8.0
    poll: float = 5.0
    close: float = 10.0


class Slot:
    """The place of one worker, whichever process fills it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.worker: WorkerProcess | None = None
        self.serving = False
        self.failures = 0
        self.tried: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        """The problems of the first start."""


class Crew:
    """All workers. ``policies`` are the texts that whoever is started from now on gets, by name of the file.

    ``changing`` is held while policies change, so that nobody starts with the old ones; ``stop`` is set when no more
    are to be started; ``draining``: they were told to end. ``total`` is what all of them have counted.
    """

    def __init__(
        self,
        size: int,
        environ: Mapping[str, str],
        policies: Mapping[str, str],
        sockets: Mapping[str, socket],
        times: Times,
    ) -> None:
        self.policies = policies
        self.slots = [Slot(number) for number in range(1, size + 1)]
        self.total = MetricsSum()
        self.ends = 0
        self.gave_up = False
        self.draining = False
        self.stop = asyncio.Event()
        self.changing = asyncio.Lock()
        self.turns = WriteTurns.new()
        self._environ = environ
        self._sockets = sockets
        self._times = times

    async def keep(self, slot: Slot, group: asyncio.TaskGroup) -> None:
        """Have a worker in this place until told to stop, and its line in this group."""
        loop = asyncio.get_running_loop()
        while not self.stop.is_set():
            began = loop.time()
            served = await self._live(slot, group)
            slot.failures = 0 if served and loop.time() - began > self._times.steady else slot.failures + 1
            if not any(one.serving for one in self.slots) and all(one.failures >= MOST_FAILURES for one in self.slots):
                self.gave_up = True
                self.stop.set()
            pause_s = min(self._times.pause, 2.0 ** (slot.failures - 2)) if slot.failures else 0.0
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self.stop.wait()

    async def _live(self, slot: Slot, group: asyncio.TaskGroup) -> bool:
        """Lead one worker from its start to its end; tell whether it served."""

        async def last_word(_what: str, facts: dict[str, Any]) -> dict[str, Any]:
            self.total.note(slot.number, facts["metrics"])
            return {}

        sockets = {name: one.fileno() for name, one in self._sockets.items()}
        try:
            worker = await WorkerProcess.start([*sockets.values(), self.turns.number], os.environ, last_word)
        except OSError as error:
            return self._failed(slot, [f"it cannot be started: {error.strerror}"])
        slot.worker = worker
        group.create_task(worker.run())
        problems = await self._begin(slot, worker, sockets)
        if problems:
            self._failed(slot, problems)
            worker.hang_up()
        else:
            slot.serving = True
            _log.info("worker serves", worker=slot.number, process=worker.number)
            if not slot.tried.done():
                slot.tried.set_result([])
            if self.draining:
                await self.told(slot, "drain")
        how = await worker.ended()
        served, slot.serving, slot.worker = slot.serving, False, None
        self.total.end(slot.number)
        if not self.draining:
            self.ends += 1
            _log.error("worker ended", worker=slot.number, process=worker.number, how=how)
        return served

    async def _begin(self, slot: Slot, worker: WorkerProcess, sockets: dict[str, int]) -> list[str]:
        """Give a worker what it needs, and the problems that keep it from serving."""
        try:
            async with self.changing, asyncio.timeout(self._times.start):
                answer = await worker.ask(
                    "serve",
                    version=__version__,
                    number=slot.number,
                    environ=self._environ,
                    policies=self.policies,
                    sockets=sockets,
                    turns=self.turns.number,
                )
        except ConnectionError:
            return ["it ended before it served"]
        except TimeoutError:
            worker.kill()
            return [f"it did not begin within {self._times.start:g} s"]
        return list(answer.get("problems", ()))

    def _failed(self, slot: Slot, problems: list[str]) -> bool:
        if slot.tried.done():
            _log.error("worker cannot begin", worker=slot.number, problems=problems)
        else:
            slot.tried.set_result(problems)  # they are what the command ends with
        return False

    async def told(
        self,
        slot: Slot,
        what: str,
        *,
        within_s: float | None = None,
        **facts: Any,  # noqa: ANN401  (JSON)
    ) -> dict[str, Any] | None:
        """Ask a worker; ``None`` if it has ended, or does not answer in time. One that hangs is ended."""
        worker = slot.worker
        if worker is None:
            return None
        try:
            async with asyncio.timeout(within_s or self._times.hang):
                return await worker.ask(what, **facts)
        except ConnectionError:
            return None
        except TimeoutError:
            if within_s is None:
                _log.error("worker hangs: it is ended", worker=slot.number, process=worker.number)
                worker.kill()
            return None

    async def all_told(
        self,
        what: str,
        *,
        within_s: float | None = None,
        **facts: Any,  # noqa: ANN401  (JSON)
    ) -> list[tuple[Slot, dict[str, Any]]]:
        """Ask all that serve; give the answers that came."""
        asked = [slot for slot in self.slots if slot.serving]
        answers = await asyncio.gather(*(self.told(slot, what, within_s=within_s, **facts) for slot in asked))
        return [(slot, answer) for slot, answer in zip(asked, answers, strict=True) if answer is not None]
