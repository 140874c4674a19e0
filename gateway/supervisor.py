"""The command ``serve`` with several processes: one that looks after the others and serves operators for all of them.

Enters: settings, and the environment that they were read from. Leaves: an exit status: 0 after a graceful stop, 1 when
no worker stays up, 2 when the configuration does not hold. It binds every socket once, so a worker that dies takes no
waiting connection with it; it reads the policy files, so all workers have the same; no request passes through it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import structlog
import uvloop
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gateway import __version__
from gateway.adapters.listening import Unusable, assigned, bind, inherited, release
from gateway.adapters.logs import configured
from gateway.adapters.metrics import Metrics
from gateway.adapters.metrics_sum import MetricsSum
from gateway.adapters.ops import Workers
from gateway.adapters.policy_files import PolicyFiles, PolicyFilesMissing
from gateway.adapters.readiness_sum import Together, together
from gateway.adapters.worker_process import WorkerProcess
from gateway.adapters.write_turns import WriteTurns
from gateway.app import Misfit, served_by
from gateway.environment import variable
from gateway.listener import Door, Listener
from gateway.policy.cache_salt import SHORTEST_SECRET
from gateway.policy.source import PolicyError
from gateway.process import certificates, operators, warn
from gateway.server import WATCH_S, WRONG, listening, not_reloaded, reloaded, told_within
from gateway.settings import OPS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket

    from gateway.settings import Settings

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


class NoWorkerStaysUp(Exception):  # noqa: N818  (says what is so)
    """Workers end as often as they are started."""


def supervise(settings: Settings, environ: Mapping[str, str]) -> int:
    """Run until SIGTERM or SIGINT. ``environ`` holds the settings as values. Give the exit status."""
    # One for all: each would otherwise make its own, and find nothing of the others' in an engine's prefix cache.
    environ = {variable(("cache_salt_secret",)): token_hex(SHORTEST_SECRET), **environ}
    try:
        given = assigned(settings.listeners, inherited(os.environ, os.getpid()))
        with (
            configured(settings.log_level),
            ExitStack() as stack,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(_run(settings, environ, given, stack))
    except NoWorkerStaysUp as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except WRONG as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


async def _run(settings: Settings, environ: Mapping[str, str], given: Mapping[str, socket], stack: ExitStack) -> None:
    files = PolicyFiles(settings.policies)
    planes = files.load()
    served_by(settings, planes)
    warn(settings, planes)
    sockets = dict(given)
    for name, address in settings.listeners.items():
        if name not in given:
            try:
                sockets[name] = stack.enter_context(bind(address))
            except OSError as error:
                raise Unusable(f"Cannot listen on {address}: {error.strerror}.") from None
            stack.callback(release, address)
    supervisor = Supervisor(settings, environ, files, sockets)
    await supervisor.run()
    _log.info("stopped")


class _Slot:
    """The place of one worker, whichever process fills it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.worker: WorkerProcess | None = None
        self.serving = False
        self.failures = 0
        self.tried: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        """The problems of the first start."""


class Supervisor:
    """All workers."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        files: PolicyFiles,
        sockets: Mapping[str, socket],
        times: Times | None = None,
    ) -> None:
        self._times = times or Times()
        self._settings = settings
        self._environ = environ
        self._files = files
        self._policies = files.texts
        self._sockets = sockets
        self._turns = WriteTurns.new()
        self._slots = [_Slot(number) for number in range(1, settings.workers + 1)]
        self._own = Metrics()
        self._sum = MetricsSum()
        self._ends = 0
        self._stop = asyncio.Event()
        self._at_once = asyncio.Event()
        self._reload = asyncio.Event()
        self._changing = asyncio.Lock()  # while policies change nobody starts with the old ones
        self._draining = False
        self._gave_up = False
        self._ops: list[Listener] = []
        self._certificates = certificates(settings) if OPS in settings.tls_files else {}
        if OPS in settings.listeners:
            app = operators(settings, self._ready, self._exposition, self._workers)
            failed = partial(self._own.handshake_failed, OPS)
            door = Door(app, "httptools", sockets[OPS], self._certificates.get(OPS), failed)
            self._ops.append(Listener(settings, OPS, door))

    async def run(self) -> None:
        """Serve until told to stop. Raises what is among ``WRONG``, and ``NoWorkerStaysUp``."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        first, *others = self._slots
        unusable: Unusable | None = None
        async with asyncio.TaskGroup() as group:
            self._lines = group
            lives = [group.create_task(self._keep(first))]  # alone: what is wrong is said once, and engines warm up
            helping: list[asyncio.Task[None]] = []
            problems = await first.tried
            if problems:
                unusable = Unusable("\n".join(problems))
            else:
                try:
                    for listener in self._ops:
                        await listener.open()
                        helping.append(group.create_task(listener.main_loop()))
                except Unusable as error:
                    unusable = error
            if unusable is None:
                lives += [group.create_task(self._keep(slot)) for slot in others]
                listening(self._settings)
                looking = [group.create_task(self._watch()), group.create_task(self._poll())]
                await self._stop.wait()
                for task in looking:
                    task.cancel()
            await self._drain(lives)
            for task in helping:
                task.cancel()
        await asyncio.gather(*(listener.close() for listener in self._ops if listener.started))
        if unusable is not None:
            raise unusable
        if self._gave_up:
            raise NoWorkerStaysUp("No worker stays up: the lines above say how each of them ended.")

    # Lives

    async def _keep(self, slot: _Slot) -> None:
        """Have a worker in this place until told to stop."""
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            began = loop.time()
            served = await self._live(slot)
            slot.failures = 0 if served and loop.time() - began > self._times.steady else slot.failures + 1
            if not any(one.serving for one in self._slots) and all(
                one.failures >= MOST_FAILURES for one in self._slots
            ):
                self._gave_up = True
                self._stop.set()
            pause_s = min(self._times.pause, 2.0 ** (slot.failures - 2)) if slot.failures else 0.0
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()

    async def _live(self, slot: _Slot) -> bool:
        """Lead one worker from its start to its end; tell whether it served."""

        async def told(_what: str, facts: dict[str, Any]) -> dict[str, Any]:
            self._sum.note(slot.number, facts["metrics"])  # the last word of a worker
            return {}

        sockets = {name: one.fileno() for name, one in self._sockets.items() if name != OPS}
        try:
            worker = await WorkerProcess.start([*sockets.values(), self._turns.number], os.environ, told)
        except OSError as error:
            return self._failed(slot, [f"it cannot be started: {error.strerror}"])
        slot.worker = worker
        self._lines.create_task(worker.run())
        problems = await self._begin(slot, worker, sockets)
        if problems:
            self._failed(slot, problems)
            worker.hang_up()
        else:
            slot.serving = True
            _log.info("worker serves", worker=slot.number, process=worker.number)
            if not slot.tried.done():
                slot.tried.set_result([])
            if self._draining:
                await self._told(slot, "drain")
        how = await worker.ended()
        served, slot.serving, slot.worker = slot.serving, False, None
        self._sum.end(slot.number)
        if not self._draining:
            self._ends += 1
            _log.error("worker ended", worker=slot.number, process=worker.number, how=how)
        return served

    async def _begin(self, slot: _Slot, worker: WorkerProcess, sockets: dict[str, int]) -> list[str]:
        """Give a worker what it needs, and the problems that keep it from serving."""
        try:
            async with self._changing, asyncio.timeout(self._times.start):
                answer = await worker.ask(
                    "serve",
                    version=__version__,
                    number=slot.number,
                    environ=self._environ,
                    policies=self._policies,
                    sockets=sockets,
                    turns=self._turns.number,
                )
        except ConnectionError:
            return ["it ended before it served"]
        except TimeoutError:
            worker.kill()
            return [f"it did not begin within {self._times.start:g} s"]
        return list(answer.get("problems", ()))

    def _failed(self, slot: _Slot, problems: list[str]) -> bool:
        if slot.tried.done():
            _log.error("worker cannot begin", worker=slot.number, problems=problems)
        else:
            slot.tried.set_result(problems)  # they are what the command ends with
        return False

    # Orders

    async def _told(
        self,
        slot: _Slot,
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

    async def _all_told(
        self,
        what: str,
        *,
        within_s: float | None = None,
        **facts: Any,  # noqa: ANN401  (JSON)
    ) -> list[tuple[_Slot, dict[str, Any]]]:
        """Ask all that serve; give the answers that came."""
        asked = [slot for slot in self._slots if slot.serving]
        answers = await asyncio.gather(*(self._told(slot, what, within_s=within_s, **facts) for slot in asked))
        return [(slot, answer) for slot, answer in zip(asked, answers, strict=True) if answer is not None]

    def stop(self) -> None:
        """Stop; told twice, do not wait for what is under way."""
        if self._stop.is_set():
            self._at_once.set()
        self._stop.set()

    async def _hurry(self) -> None:
        await self._at_once.wait()
        await self._all_told("end", within_s=self._times.answer)
        for listener in self._ops:
            listener.force_exit = True

    async def _drain(self, lives: list[asyncio.Task[None]]) -> None:
        """Have all workers drain, and end those that do not come to an end."""
        deadlines = self._settings.deadlines
        _log.info("draining", seconds=deadlines.drain)
        self._stop.set()
        self._draining = True
        for one in self._sockets.values():
            one.close()  # the workers have their own, and close them in their turn
        await self._all_told("drain", within_s=self._times.answer)
        for slot in self._slots:
            if slot.worker is not None and not slot.serving:
                slot.worker.hang_up()
        hurrying = self._lines.create_task(self._hurry())
        _, late = await asyncio.wait(lives, timeout=deadlines.notice + deadlines.drain + self._times.close)
        for slot in self._slots:
            if late and slot.worker is not None:
                slot.worker.kill()
        hurrying.cancel()

    async def _watch(self) -> None:
        """Reload when a policy changes or SIGHUP comes, which also opens all audit logs anew."""
        while True:
            told = await told_within(self._reload, WATCH_S)
            for certificate in self._certificates.values():
                await asyncio.to_thread(certificate.refresh)
            if told:
                await self._all_told("refresh")
            if told or await asyncio.to_thread(self._files.changed):
                await self._load()

    async def _load(self) -> None:
        """Put new policies in place in all workers, or in none."""
        try:
            served = served_by(self._settings, await asyncio.to_thread(self._files.load))
        except (PolicyError, PolicyFilesMissing, Misfit) as error:
            not_reloaded(str(error).splitlines())
            return
        async with self._changing:
            prepared = await self._all_told("prepare", policies=self._files.texts)
            problems = [problem for _, answer in prepared for problem in answer.get("problems", ())]
            if problems:
                not_reloaded(problems)
                return
            self._policies = self._files.texts  # what whoever is started from now on gets
            changed = [slot for slot, _ in await self._all_told("commit")]
            for slot in self._slots:
                if slot.serving and slot not in changed and slot.worker is not None:
                    slot.worker.kill()
        reloaded(self._settings, list(served.values()))

    # What operators see

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._times.poll)
            await self._count(None)

    async def _count(self, within_s: float | None) -> None:
        for slot, answer in await self._all_told("metrics", within_s=within_s):
            if slot.serving:
                self._sum.note(slot.number, answer["metrics"])

    async def _exposition(self) -> bytes:
        await self._count(self._times.answer)
        self._sum.note(0, self._own.render().decode())
        running = GaugeMetricFamily("gateway_workers", "Worker processes that serve.", value=self._workers().running)
        ends = CounterMetricFamily("gateway_worker_ends", "Workers that ended and were not told to.", value=self._ends)
        return self._sum.render(running, ends)

    async def _ready(self) -> Together:
        answers = await self._all_told("ready", within_s=self._times.answer)
        reports = [answer["report"] for _, answer in answers if "report" in answer]
        found = self._workers()
        return together(reports, of=found.of, running=found.running, draining=self._draining)

    def _workers(self) -> Workers:
        return Workers(len(self._slots), sum(slot.serving for slot in self._slots))
