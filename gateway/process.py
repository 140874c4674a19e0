"""The planes of one process: opened together, served until somebody says stop, and drained together.

Enters: settings, the planes in force, sockets that are bound already. Leaves: answers and records. When to stop and
when to reload is told from outside: by signals (``server``), or by the supervisor (``worker``).
"""

from __future__ import annotations

import asyncio
import functools
import gc
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from gateway.adapters.audit_log import AuditLog
from gateway.adapters.edge import EdgeProtocol
from gateway.adapters.edge_limits import EdgeLimits
from gateway.adapters.listening import Unusable
from gateway.adapters.metrics import Metrics
from gateway.adapters.ops import ops_app
from gateway.adapters.ops_door import OpsDoor
from gateway.adapters.outbox import Outbox
from gateway.adapters.server_certificate import ServerCertificate, TlsFiles
from gateway.app import Gateway
from gateway.environment import variable
from gateway.listener import Door, Listener
from gateway.settings import EDGE, OPS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
    from socket import socket

    from gateway.adapters.ops import Readiness, Report, Workers
    from gateway.adapters.write_turns import WriteTurns
    from gateway.policy.model import Plane
    from gateway.settings import Settings

RETIRE_S = 0.1
"""Seconds between two looks at the connections that came while the end was announced."""

_log = structlog.get_logger("gateway.server")


@asynccontextmanager
async def opened(
    settings: Settings, planes: Sequence[Plane], given: Mapping[str, socket], turns: WriteTurns | None = None
) -> AsyncIterator[Process]:
    """Open everything, the listeners last. ``turns``: set where other processes write to the same audit log.

    Raises ``Unusable``, ``Misfit``, ``RevokedFileUnusable``.
    """
    try:
        log = AuditLog.open(settings.audit_log, turns)
    except OSError as error:
        raise Unusable(f"GATEWAY_AUDIT_LOG cannot be opened: {error.strerror}.") from None
    try:
        metrics = Metrics(lambda: gateway.ages_s, lambda: gateway.ledger.open)
        gateway = Gateway(settings, planes, log, metrics)
        process = Process(settings, gateway, log, metrics, given)
        unusable: Unusable | None = None
        async with gateway.running():
            try:
                await process.open()
            except Unusable as error:
                unusable = error  # raised in here it would come out as one of a group
            else:
                yield process
        if unusable is not None:
            raise unusable
    finally:
        log.close()


def warn(settings: Settings, planes: Sequence[Plane]) -> None:
    """Warn of what stands in a policy and is not carried out, and of settings for what stands in none."""
    for plane in planes:
        if plane.listener not in settings.listeners:
            _log.warning("plane stays closed: its listener has no address", plane=plane.name, listener=plane.listener)
            continue
        for key in plane.not_enforced:
            _log.warning("not enforced by this version", plane=plane.name, key=key)
    engines = {model.engine for plane in planes for model in plane.models.values()}
    issuers = {name for plane in planes for name in (*plane.callers, *((EDGE,) if plane.edge else ()))}
    idle = [("engines", name) for name in settings.engines if name not in engines]
    idle += [("issuers", name) for name in settings.issuers if name not in issuers]
    for place in idle:
        _log.warning("no policy has what this setting is for", setting=variable(place))


def certificates(settings: Settings, listeners: Iterable[str]) -> dict[str, ServerCertificate]:
    """Read what these listeners speak TLS with, where they do. Raises ``Unusable``."""
    return {
        name: ServerCertificate(TlsFiles(f"GATEWAY_TLS__{name.upper().replace('-', '_')}", *files))
        for name, files in settings.tls_files.items()
        if name in listeners
    }


def door(settings: Settings) -> Callable[..., EdgeProtocol]:
    """Make what makes the protocol of a connection, with the bounds that the settings give each listener."""
    limits = EdgeLimits(settings.deadlines.head, settings.deadlines.body, settings.max_connections)
    return functools.partial(EdgeProtocol, limits=limits, outbox=Outbox())


class Process:
    """All listeners of one process, from the first connection to the last record."""

    def __init__(
        self, settings: Settings, gateway: Gateway, log: AuditLog, metrics: Metrics, given: Mapping[str, socket]
    ) -> None:
        self.gateway = gateway
        self.metrics = metrics
        self.draining = False
        self._settings = settings
        self._log = log
        self._stop = asyncio.Event()
        self._certificates = metrics.certificates = certificates(settings, settings.listeners)
        protocol = door(settings)

        def listener(name: str, app: object) -> Listener:
            failed = functools.partial(metrics.handshake_failed, name)
            return Listener(settings, name, Door(app, protocol, given.get(name), self._certificates.get(name), failed))

        self._planes = [listener(name, app) for name, app in gateway.apps.items()]
        self._ops = [
            listener(name, operators(settings, self.ready, self._exposition))
            for name in settings.listeners
            if name == OPS
        ]

    async def open(self) -> None:
        """Begin to accept connections on all listeners, or on none. Raises ``Unusable``."""
        begun: list[Listener] = []
        try:
            for listener in (*self._planes, *self._ops):
                await listener.open()
                begun.append(listener)
        except Unusable:
            await asyncio.gather(*(listener.close() for listener in begun))
            raise

    async def run(self, watching: Coroutine[Any, Any, None]) -> None:
        """Serve until told to stop, while ``watching`` runs; then drain."""
        _settle_memory()
        try:
            async with asyncio.TaskGroup() as group:
                operating = [group.create_task(listener.main_loop()) for listener in self._ops]
                await self._serve(watching)
                for task in operating:
                    task.cancel()
        finally:
            await asyncio.gather(*(listener.close() for listener in self._ops))
        _log.info("stopped")

    async def _serve(self, watching: Coroutine[Any, Any, None]) -> None:
        """Serve the planes until told to stop; then drain, while operators may still ask."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(listener.main_loop()) for listener in self._planes]
                tasks.append(group.create_task(watching))
                await self._stop.wait()
                _log.info("draining", seconds=self._settings.deadlines.drain)
                self.draining = True
                await self._announce(self._settings.deadlines.notice)
                for task in tasks:
                    task.cancel()
        finally:
            await asyncio.gather(*(listener.close() for listener in self._planes))

    async def _announce(self, seconds: float) -> None:
        """Give whoever looks at ``/readyz`` the time to send new connections elsewhere, and old ones a good end."""
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until and not self._planes[0].force_exit:
            for listener in self._planes:
                listener.retire()
            await asyncio.sleep(RETIRE_S)

    def stop(self) -> None:
        """Stop, and let what is under way finish."""
        self._stop.set()

    def stop_at_once(self) -> None:
        """Stop without waiting for what is under way."""
        for listener in [*self._planes, *self._ops]:
            listener.force_exit = True
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether somebody said stop."""
        return self._stop.is_set()

    async def ready(self) -> Readiness:
        """Report whether this process can do its work."""
        return await self.gateway.readiness(draining=self.draining)

    async def refresh(self, *, told: bool) -> None:
        """Look at the files of certificates and of revoked tokens; when told, also open the audit log anew."""
        if told:
            self._log.reopen()
        for certificate in self._certificates.values():
            await asyncio.to_thread(certificate.refresh)
        # Before the policies and whatever becomes of them: one that does not compile keeps nobody in.
        await asyncio.to_thread(self.gateway.revoked.refresh)

    async def _exposition(self) -> bytes:
        return self.metrics.render()


def operators(
    settings: Settings,
    readiness: Callable[[], Awaitable[Report]],
    exposition: Callable[[], Awaitable[bytes]],
    workers: Callable[[], Workers] | None = None,
) -> OpsDoor:
    """Make the application of the ops listener."""
    token = settings.ops_token.get_secret_value() if settings.ops_token else None
    loopback = settings.listeners[OPS].loopback
    hosts = settings.host_rule(OPS)
    app = ops_app(readiness, exposition, hosts, loopback=loopback, token=token, workers=workers)
    return OpsDoor(app)


def _settle_memory() -> None:
    """Keep what start-up made out of every later collection: it was a tenth of the cost of a request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
