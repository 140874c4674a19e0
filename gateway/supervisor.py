"""The command ``serve`` with several processes: one that looks after the others and serves operators for all of them.

Enters: settings, and the environment that they were read from. Leaves: an exit status: 0 after a graceful stop, 1 when
no worker stays up, 2 when the configuration does not hold. It binds every socket once, so a worker that dies takes no
waiting connection with it; it reads the policy files, so all workers have the same; no request passes through it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import ExitStack
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING

import structlog
import uvloop
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gateway.adapters.listening import Unusable, assigned, bind, inherited, release
from gateway.adapters.logs import configured
from gateway.adapters.metrics import Metrics
from gateway.adapters.ops import Workers
from gateway.adapters.policy_files import PolicyFiles, PolicyFilesMissing
from gateway.adapters.readiness_sum import Together, together
from gateway.app import Misfit, served_by
from gateway.crew import Crew, Times
from gateway.environment import variable
from gateway.listener import Door, Listener
from gateway.policy.cache_salt import SHORTEST_SECRET
from gateway.policy.source import PolicyError
from gateway.process import certificates, door, operators, warn
from gateway.server import WATCH_S, WRONG, heeding, listening, not_reloaded, reloaded, told_within
from gateway.settings import OPS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket

    from gateway.crew import Slot
    from gateway.settings import Settings

_log = structlog.get_logger("gateway.supervisor")


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
    with heeding(supervisor.stop, supervisor.reload):
        await supervisor.run()
        _log.info("stopped")


class Supervisor:
    """Decides for all workers, and speaks for them."""

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
        self._files = files
        self._sockets = sockets
        served = {name: one for name, one in sockets.items() if name != OPS}
        self.crew = Crew(settings.workers, environ, files.texts, served, self._times)
        self._at_once = asyncio.Event()
        self._reload = asyncio.Event()
        self._own = Metrics()
        self._ops: list[Listener] = []
        self._certificates = self._own.certificates = certificates(settings, {OPS})
        if OPS in settings.listeners:
            app = operators(settings, self._ready, self._exposition, self._workers)
            failed = partial(self._own.handshake_failed, OPS)
            behind = Door(app, door(settings), sockets[OPS], self._certificates.get(OPS), failed)
            self._ops.append(Listener(settings, OPS, behind))

    async def run(self) -> None:
        """Serve until told to stop. Raises what is among ``WRONG``, and ``NoWorkerStaysUp``."""
        crew = self.crew
        first, *others = crew.slots
        async with asyncio.TaskGroup() as group:
            # Alone: what is wrong is said once, and engines are warm for the others.
            lives = [group.create_task(crew.keep(first, group))]
            helping = [group.create_task(self._hurry())]
            unusable = await self._opened(first)
            told = crew.stop.is_set()  # then a worker may have ended before it served
            if unusable is None:
                lives += [group.create_task(crew.keep(slot, group)) for slot in others]
                helping += [group.create_task(listener.main_loop()) for listener in self._ops]
                listening(self._settings)
                looking = [group.create_task(self._watch()), group.create_task(self._poll())]
                await crew.stop.wait()
                for task in looking:
                    task.cancel()
            await self._drain(lives)
            for task in helping:
                task.cancel()
        await asyncio.gather(*(listener.close() for listener in self._ops if listener.started))
        if unusable is not None and not told:
            raise unusable
        if crew.gave_up:
            raise NoWorkerStaysUp("No worker stays up: the lines above say how each of them ended.")

    async def _opened(self, first: Slot) -> Unusable | None:
        """Wait until a worker serves, and let operators in; give what is against it."""
        problems = await first.tried
        if problems:
            return Unusable("\n".join(problems))
        try:
            for listener in self._ops:
                await listener.open()
        except Unusable as error:
            return error
        return None

    def stop(self) -> None:
        """Stop; told twice, do not wait for what is under way."""
        if self.crew.stop.is_set():
            self._at_once.set()
        self.crew.stop.set()

    def reload(self) -> None:
        """Look at the files now, and open all audit logs anew."""
        self._reload.set()

    async def _hurry(self) -> None:
        await self._at_once.wait()
        await self.crew.all_told("end", within_s=self._times.answer)
        for listener in self._ops:
            listener.force_exit = True

    async def _drain(self, lives: list[asyncio.Task[None]]) -> None:
        """Have all workers drain, and end those that do not come to an end."""
        crew, deadlines = self.crew, self._settings.deadlines
        _log.info("draining", seconds=deadlines.drain)
        crew.stop.set()
        crew.draining = True
        for one in self._sockets.values():
            one.close()  # the workers have their own, and close them in their turn
        await crew.all_told("drain", within_s=self._times.answer)
        for slot in crew.slots:
            if slot.worker is not None and not slot.serving:
                slot.worker.hang_up()
        _, late = await asyncio.wait(lives, timeout=deadlines.notice + deadlines.drain + self._times.close)
        for slot in crew.slots:
            if late and slot.worker is not None:
                slot.worker.kill()

    async def _watch(self) -> None:
        """Reload when a policy changes or SIGHUP comes, which also opens all audit logs anew."""
        while True:
            told = await told_within(self._reload, WATCH_S)
            for certificate in self._certificates.values():
                await asyncio.to_thread(certificate.refresh)
            if told:
                await self.crew.all_told("refresh")
            if told or await asyncio.to_thread(self._files.changed):
                await self._load()

    async def _load(self) -> None:
        """Put new policies in place in all workers, or in none."""
        try:
            served = served_by(self._settings, await asyncio.to_thread(self._files.load))
        except (PolicyError, PolicyFilesMissing, Misfit) as error:
            not_reloaded(str(error).splitlines())
            return
        async with self.crew.changing:
            prepared = await self.crew.all_told("prepare", policies=self._files.texts)
            problems = [problem for _, answer in prepared for problem in answer.get("problems", ())]
            if problems:
                not_reloaded(problems)
                return
            self.crew.policies = self._files.texts  # what whoever is started from now on gets
            changed = [slot for slot, _ in await self.crew.all_told("commit")]
            for slot in self.crew.slots:
                if slot.serving and slot not in changed and slot.worker is not None:
                    slot.worker.kill()
        reloaded(self._settings, list(served.values()))

    # What operators see

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._times.poll)
            await self._count(None)

    async def _count(self, within_s: float | None) -> None:
        for slot, answer in await self.crew.all_told("metrics", within_s=within_s):
            if slot.serving:
                self.crew.total.note(slot.number, answer["metrics"])

    async def _exposition(self) -> bytes:
        await self._count(self._times.answer)
        self.crew.total.note(0, self._own.render().decode())
        running = GaugeMetricFamily("gateway_workers", "Worker processes that serve.", value=self._workers().running)
        ends = CounterMetricFamily(
            "gateway_worker_ends", "Workers that ended and were not told to.", value=self.crew.ends
        )
        return self.crew.total.render(running, ends)

    async def _ready(self) -> Together:
        answers = await self.crew.all_told("ready", within_s=self._times.answer)
        reports = [answer["report"] for _, answer in answers if "report" in answer]
        found = self._workers()
        return together(reports, of=found.of, running=found.running, draining=self.crew.draining)

    def _workers(self) -> Workers:
        return Workers(len(self.crew.slots), sum(slot.serving for slot in self.crew.slots))
