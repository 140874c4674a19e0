"""Keeps true what is known of an engine's replicas: warms up what is out, looks at what is in, and tries suspects.

Enters: an engine, and what its models are to be asked. Leaves: circuits that close behind a warm-up that was answered
and open when a replica is gone, silent, asleep or started anew, and each replica's list of models. Everything sent here
bears the user-agent of the gateway's own traffic, and one replica that hangs keeps no other from being looked at.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from gateway.dialects.openai_models import served_models
from gateway.engine.signal import unreached
from gateway.engine.vitals import UNKNOWN, Vitals, read_vitals
from gateway.reasons import Malformed, Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence

    from gateway.adapters.engine import Engine, EngineReplica
    from gateway.dialects.openai_models import ServedModel
    from gateway.policy.warm_up import WarmUp

MISSED = 2
"""Looks in a row that find no list of models, behind which a replica is tried."""

_OK = 200
_LEAST_ERROR, _SERVER_ERROR = 400, 500
_REFUSED = (401, 403)
_BUSY = (408, 429)
_log = structlog.get_logger("gateway.engine")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: between two looks at a replica that is in, for such a look, for one warm-up, for the trial of a suspect.

    ``vitals``: between two looks at its metrics as well, which cost an engine some milliseconds. ``tick``: how often it
    is asked whether anything is due.
    """

    look: float = 2.0
    vitals: float = 10.0
    answer: float = 5.0
    warm_up: float = 60.0
    suspect: float = 10.0
    tick: float = 0.1


class EngineWatch:
    """The watch over one engine. ``warm_ups`` may be replaced while it runs: a reload has other models."""

    def __init__(self, engine: Engine, times: Times | None = None) -> None:
        self.engine = engine
        self.warm_ups: Sequence[WarmUp] = ()
        self._times = times or Times()
        self._first = asyncio.Event()
        self._tried: set[EngineReplica] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch within this block."""
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(self._watch(replica)) for replica in self.engine.replicas]
            try:
                yield
            finally:
                for task in watching:
                    task.cancel()
                for replica in self.engine.replicas:
                    replica.watched.close()

    async def tried(self) -> None:
        """Wait until each replica has been tried once."""
        await self._first.wait()

    async def _watch(self, replica: EngineReplica) -> None:
        loop = asyncio.get_running_loop()
        looked_at = loop.time()
        while True:
            step = self._due(replica, looked_at)
            if step is not None:
                try:
                    await step(replica)
                except Exception as error:  # noqa: BLE001  (a bug of ours must neither end the watch nor the process)
                    _log.error("internal error", engine=self.engine.name, replica=replica.name, exc_info=error)
                    replica.circuit.fail_trial("internal", loop.time())
                looked_at = loop.time()
            await asyncio.sleep(self._times.tick)

    def _due(
        self, replica: EngineReplica, looked_at: float
    ) -> Callable[[EngineReplica], Coroutine[Any, Any, None]] | None:
        """Give what is to be done with a replica now, if anything."""
        now = asyncio.get_running_loop().time()
        if not replica.circuit.closed:
            return self._try if replica.circuit.trial_due(now) else None
        if replica.circuit.doubted and self.engine.another([replica]):
            return self._eject
        if replica.watched.lost:
            return self._look_behind_a_loss
        if replica.suspect(now):
            return self._question
        if self._cold(replica):
            return self._warm_more
        return self._look if now - looked_at >= self._times.look else None

    async def _try(self, replica: EngineReplica) -> None:
        """Warm a replica up, and close its circuit if it has answered."""
        replica.circuit.begin_trial()
        replica.warm, replica.missed = frozenset(), 0
        replica.watched.settle()
        try:
            replica.served = await self._models(replica)
            replica.vitals = await self._vitals(replica)
            _awake(replica.vitals)
            await self._warm(replica)
        except Unavailable as failure:
            why = _why(failure)
            replica.circuit.fail_trial(why, asyncio.get_running_loop().time())
            _log.warning("engine is not ready", engine=self.engine.name, replica=replica.name, why=why)
        else:
            replica.circuit.pass_trial()
            _log.info("engine is ready", engine=self.engine.name, replica=replica.name, models=len(replica.served))
        self._tried.add(replica)
        if len(self._tried) == len(self.engine.replicas):
            self._first.set()

    def _cold(self, replica: EngineReplica) -> list[WarmUp]:
        """Give what a replica serves and was not yet warmed up for."""
        return [one for one in self.warm_ups if one.served_as in replica.served and one.served_as not in replica.warm]

    async def _warm(self, replica: EngineReplica) -> None:
        """Ask each model once, then several times at once: the first batch compiles what one request does not."""
        for warm_up in self._cold(replica):
            await self._ask(replica, warm_up, warm_up.alone, self._times.warm_up)
            answers = [self._ask(replica, warm_up, body, self._times.warm_up) for body in warm_up.together]
            for outcome in await asyncio.gather(*answers, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
            replica.warm |= {warm_up.served_as}

    async def _warm_more(self, replica: EngineReplica) -> None:
        """Warm up what a reload or the engine has added, beside the requests that go on."""
        try:
            await self._warm(replica)
        except Unavailable as failure:
            self._take_out(replica, _why(failure))

    async def _question(self, replica: EngineReplica) -> None:
        """Find out whether a silent replica still answers; one that only says so is taken out."""
        try:
            replica.served = await self._models(replica)
            for warm_up in [one for one in self.warm_ups if one.served_as in replica.served][:1]:
                await self._ask(replica, warm_up, warm_up.alone, self._times.suspect)
        except Unavailable as failure:
            self._take_out(replica, f"requests {'fail' if replica.circuit.doubted else 'hang'}: {_why(failure)}")
        else:
            replica.cleared(asyncio.get_running_loop().time())

    async def _look(self, replica: EngineReplica) -> None:
        """Look whether a replica is there, what it serves now, and from time to time how it is."""
        due = asyncio.get_running_loop().time() - replica.examined_at >= self._times.vitals
        if await self._there(replica) and due:
            self._examine(replica, await self._vitals(replica))

    async def _look_behind_a_loss(self, replica: EngineReplica) -> None:
        """Find out why a replica has ended a connection that it used to keep: one that has started anew is cold.

        Where it does not tell when it was started, it is warmed up beside the requests that go on.
        """
        if await self._there(replica):
            vitals = await self._vitals(replica)
            replica.watched.settle()
            if None in {vitals.started, replica.vitals.started}:
                replica.warm = frozenset()
            self._examine(replica, vitals)

    async def _there(self, replica: EngineReplica) -> bool:
        """Ask what a replica serves; take it out when it is gone, or has missed the question too often."""
        try:
            replica.served = await self._models(replica)
        except Unavailable as failure:
            replica.missed += 1
            if _gone(failure) or replica.missed >= MISSED:
                self._take_out(replica, _why(failure))
            return False
        replica.missed = 0
        return True

    def _examine(self, replica: EngineReplica, vitals: Vitals) -> None:
        """Take out a replica that sleeps, or that is another process than the one that was warmed up."""
        try:
            _awake(vitals)
        except Unavailable as failure:
            self._take_out(replica, _why(failure))
            return
        if replica.vitals.started is None:
            replica.vitals = vitals
        elif vitals.started not in {None, replica.vitals.started}:
            self._take_out(replica, "it was started anew")

    async def _eject(self, replica: EngineReplica) -> None:
        """Leave out a replica whose requests fail while others answer theirs."""
        replica.circuit.eject(asyncio.get_running_loop().time())
        _log.warning("engine is left out", engine=self.engine.name, replica=replica.name, why=replica.circuit.why)

    def _take_out(self, replica: EngineReplica, why: str) -> None:
        replica.circuit.open(why, asyncio.get_running_loop().time())
        _log.warning("engine is taken out", engine=self.engine.name, replica=replica.name, why=why)

    async def _models(self, replica: EngineReplica) -> Mapping[str, ServedModel]:
        """Ask a replica what it serves. Raises ``Unavailable``."""
        status, body = await replica.watched.fetch("/v1/models", timeout_s=self._times.answer)
        if status in _REFUSED:
            raise Unavailable(Reason.ENGINE_REFUSED_GATEWAY)
        if status != _OK:
            raise Unavailable(Reason.ENGINE_ERROR, f"status {status}")
        try:
            return served_models(body)
        except Malformed as malformed:
            raise Unavailable(malformed.reason, malformed.detail) from None

    async def _vitals(self, replica: EngineReplica) -> Vitals:
        """Ask a replica how it is; nothing is known where its metrics are hidden or do not come."""
        replica.examined_at = asyncio.get_running_loop().time()
        try:
            status, body = await replica.watched.fetch("/metrics", timeout_s=self._times.answer)
        except Unavailable:
            return UNKNOWN
        return read_vitals(body) if status == _OK else UNKNOWN

    async def _ask(self, replica: EngineReplica, warm_up: WarmUp, body: bytes, timeout_s: float) -> None:
        """Ask a model. An answer that refuses the question is an answer. Raises ``Unavailable``."""
        status, _ = await replica.client.fetch(warm_up.method, warm_up.path, timeout_s=timeout_s, body=body)
        if status in _REFUSED:
            raise Unavailable(Reason.ENGINE_REFUSED_GATEWAY)
        if status >= _SERVER_ERROR or status in _BUSY or status < _OK:
            raise Unavailable(Reason.ENGINE_ERROR, f"status {status} to the warm-up")
        if status >= _LEAST_ERROR:
            _log.warning("the warm-up was refused", engine=self.engine.name, replica=replica.name, status=status)


def _awake(vitals: Vitals) -> None:
    """Refuse one that sleeps: whatever it is asked waits until it is woken. Raises ``Unavailable``."""
    if vitals.asleep:
        raise Unavailable(Reason.ENGINE_ASLEEP)


def _gone(failure: Unavailable) -> bool:
    """Tell whether a replica cannot serve anybody: it is not there, or our key is not its key."""
    return failure.reason is Reason.ENGINE_REFUSED_GATEWAY or unreached(failure.reason, failure.detail)


def _why(failure: Unavailable) -> str:
    """Word a failure for readiness, records and callers: no address and no model is in it."""
    return f"{failure.reason} ({failure.detail})" if failure.detail else str(failure.reason)
