"""The process: listeners, signals, reload and drain around uvicorn.

Enters: settings. Leaves: an exit status: 0 after a graceful stop, 2 when the configuration does not hold. uvicorn
accepts connections and writes the Date field; everything that it would decide about a request is ``adapters.edge``'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import signal
import sys
from typing import TYPE_CHECKING, Any, cast

import structlog
import uvicorn
import uvloop

from gateway.adapters.audit_log import AuditLog
from gateway.adapters.edge import EdgeLimits, EdgeProtocol
from gateway.adapters.handshakes import HandshakeLimits, Handshakes
from gateway.adapters.listening import Unusable, bind, give_way, release
from gateway.adapters.logs import configured
from gateway.adapters.metrics import Metrics
from gateway.adapters.ops import ops_app
from gateway.adapters.policy_files import PolicyFiles, PolicyFilesMissing
from gateway.adapters.revoked_file import RevokedFileUnusable
from gateway.adapters.server_certificate import ServerCertificate, TlsFiles
from gateway.addresses import Unix
from gateway.app import Gateway, Misfit
from gateway.policy.source import PolicyError
from gateway.settings import OPS

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from gateway.adapters.ops import Readiness
    from gateway.addresses import Tcp
    from gateway.settings import Settings

KEEP_ALIVE_S = 95
"""Seconds that an idle connection stays open: cloudflared keeps its own for 90 s, and whoever closes first must not be
us.
"""

WATCH_S = 2.0
"""Seconds between two looks at the files of policies and of revoked tokens."""

BACKLOG = 4096

_log = structlog.get_logger("gateway.server")


def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. Give the exit status."""
    try:
        with configured(settings.log_level), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings))
    except (Misfit, PolicyFilesMissing, PolicyError, RevokedFileUnusable, Unusable) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


async def _run(settings: Settings) -> None:
    files = PolicyFiles(settings.policies)
    planes = files.load()
    try:
        log = AuditLog.open(settings.audit_log)
    except OSError as error:
        raise Unusable(f"GATEWAY_AUDIT_LOG cannot be opened: {error.strerror}.") from None
    try:
        metrics = Metrics(lambda: gateway.ages_s, lambda: gateway.ledger.open)
        gateway = Gateway(settings, planes, log, metrics)
        for plane in planes:
            if plane.listener not in settings.listeners:
                _log.warning(
                    "plane stays closed: its listener has no address", plane=plane.name, listener=plane.listener
                )
        _say(gateway)
        process = _Process(settings, gateway, files, log, metrics)
        unusable: Unusable | None = None
        async with gateway.running():
            try:
                await process.open()
            except Unusable as error:
                unusable = error  # raised in here it would come out as one of a group
            else:
                await process.run()
        if unusable is not None:
            raise unusable
    finally:
        log.close()


def _say(gateway: Gateway) -> None:
    """Warn of what stands in a policy and is not carried out: a policy never lies."""
    for plane in gateway.planes:
        for key in plane.not_enforced:
            _log.warning("not enforced by this version", plane=plane.name, key=key)


class Listener(uvicorn.Server):
    """One address.

    Signals are the process's, not uvicorn's, which would raise SIGTERM again and end with its status.
    """

    def __init__(
        self, config: uvicorn.Config, address: Tcp | Unix, tls: Callable[[Listener], Handshakes] | None = None
    ) -> None:
        super().__init__(config)
        self._address = address
        self._sockets: list[socket] | None = None
        self._handshakes = tls and tls(self)

    async def open(self) -> None:
        """Begin to accept connections. Raises ``Unusable``."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        try:
            self._sockets = bind(self._address)
            if self._handshakes is None:
                await self.startup(self._sockets)
            else:
                self._listen(self._sockets or [])
            give_way(self._address)
        except OSError as error:
            raise Unusable(f"Cannot listen on {self._address}: {error.strerror}.") from None

    def _listen(self, sockets: list[socket]) -> None:
        """Do what uvicorn's ``startup`` does, and leave the accepting to ``main_loop``."""
        for one in sockets:
            one.listen(self.config.backlog)
        self.servers = []
        self.started = True

    async def main_loop(self) -> None:
        """Accept, where uvicorn does not, and keep the Date field until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._handshakes is not None:
                for one in self._sockets or []:
                    group.create_task(self._handshakes.accept(one))
            await super().main_loop()

    def protocol(self) -> asyncio.Protocol:
        """Make the protocol of one connection, as uvicorn does."""
        return self.config.http_protocol_class(
            config=self.config,  # type: ignore[call-arg]  # any class that uvicorn takes has these three
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    async def close(self) -> None:
        """Stop accepting, let what is under way finish within the drain deadline, and end the rest cleanly."""
        await self.shutdown(self._sockets)
        for task in self.server_state.tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while self.server_state.tasks:  # noqa: ASYNC110  (records are to be written; uvicorn's set has no event)
                    await asyncio.sleep(0.01)
        release(self._address)


class _Process:
    """All listeners, from the first connection to the last record."""

    def __init__(
        self, settings: Settings, gateway: Gateway, files: PolicyFiles, log: AuditLog, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._gateway = gateway
        self._files = files
        self._log = log
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()
        self.draining = False
        limits = EdgeLimits(settings.deadlines.head, settings.deadlines.body, settings.max_connections)
        protocol = functools.partial(EdgeProtocol, limits=limits)
        self._metrics = metrics
        self._limits = HandshakeLimits(limits.head_s, limits.linger_s, limits.connections)
        self._certificates = {
            name: ServerCertificate(TlsFiles(f"GATEWAY_TLS__{name.upper().replace('-', '_')}", *files))
            for name, files in settings.tls_files.items()
        }
        metrics.certificates = self._certificates
        self._planes = [self._listener(name, app, protocol) for name, app in gateway.apps.items()]
        self._ops: list[Listener] = []
        if OPS in settings.listeners:
            address = settings.listeners[OPS]
            token = settings.ops_token.get_secret_value() if settings.ops_token else None
            ops = ops_app(self._ready, metrics, settings.host_rule(OPS), loopback=address.loopback, token=token)
            self._ops.append(self._listener(OPS, ops, "httptools"))

    def _listener(self, name: str, app: Any, protocol: object) -> Listener:  # noqa: ANN401  (any ASGI application)
        address, certificate = self._settings.listeners[name], self._certificates.get(name)
        config = self._config(app, address, protocol)
        if certificate is None:
            return Listener(config, address)
        failed = functools.partial(self._metrics.handshake_failed, name)

        def door(listener: Listener) -> Handshakes:
            connections = listener.server_state.connections
            return Handshakes(certificate, listener.protocol, self._limits, connections, failed)

        return Listener(config, address, door)

    def _config(self, app: Any, address: Tcp | Unix, protocol: object) -> uvicorn.Config:  # noqa: ANN401  (any ASGI application)
        return uvicorn.Config(
            app,
            uds=address.path if isinstance(address, Unix) else None,
            http=cast("Any", protocol),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(self._settings.deadlines.drain)),
            backlog=BACKLOG,
        )

    async def open(self) -> None:
        """Begin to accept connections on all listeners, or on none. Raises ``Unusable``."""
        opened: list[Listener] = []
        try:
            for listener in (*self._planes, *self._ops):
                await listener.open()
                opened.append(listener)
        except Unusable:
            await asyncio.gather(*(listener.close() for listener in opened))
            raise

    async def run(self) -> None:
        """Serve until told to stop; then drain."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        for name, address in self._settings.listeners.items():
            _log.info("listening", listener=name, address=str(address), tls=name in self._certificates)
        _settle_memory()
        try:
            async with asyncio.TaskGroup() as group:
                operating = [group.create_task(listener.main_loop()) for listener in self._ops]
                await self._serve()
                for task in operating:
                    task.cancel()
        finally:
            await asyncio.gather(*(listener.close() for listener in self._ops))
        _log.info("stopped")

    async def _serve(self) -> None:
        """Serve the planes until told to stop; then drain, while operators may still ask."""
        try:
            async with asyncio.TaskGroup() as group:
                ticking = [group.create_task(listener.main_loop()) for listener in self._planes]
                watching = group.create_task(self._watch())
                await self._stop.wait()
                for task in (*ticking, watching):
                    task.cancel()
            _log.info("draining", seconds=self._settings.deadlines.drain)
            self.draining = True
        finally:
            await asyncio.gather(*(listener.close() for listener in self._planes))

    async def _ready(self) -> Readiness:
        return await self._gateway.readiness(draining=self.draining)

    def _on_stop(self) -> None:
        """Stop; told twice, do not wait for what is under way."""
        if self._stop.is_set():
            for listener in [*self._planes, *self._ops]:
                listener.force_exit = True
        self._stop.set()

    async def _watch(self) -> None:
        """Reload policies, revocations and certificates when a file changes or SIGHUP comes.

        SIGHUP also opens the audit log anew.
        """
        while True:
            told = False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    told = await self._reload.wait()
            self._reload.clear()
            if told:
                self._log.reopen()
            for certificate in self._certificates.values():
                await asyncio.to_thread(certificate.refresh)
            # Before the policies and whatever becomes of them: one that does not compile keeps nobody in.
            await asyncio.to_thread(self._gateway.revoked.refresh)
            if told or await asyncio.to_thread(self._files.changed):
                await self._load()

    async def _load(self) -> None:
        """Put the new policies in place, or say why not and keep the old ones."""
        try:
            planes = await asyncio.to_thread(self._files.load)
            self._gateway.reload(planes)
        except (PolicyError, PolicyFilesMissing, Misfit) as error:
            _log.error("policies not reloaded: the old ones stay in force", problems=str(error).splitlines())
            return
        _say(self._gateway)
        _log.info("policies reloaded", planes={plane.name: plane.digest[:12] for plane in self._gateway.planes})


def _settle_memory() -> None:
    """Keep what start-up made out of every later collection: it was a tenth of the cost of a request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
