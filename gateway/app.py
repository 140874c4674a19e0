"""The composition root: settings and policies in, one application for each plane out.

Everything that outlives a policy is made here once (pools, keys, records); everything that a policy decides is made
anew at each reload and put in place in one step. A policy that does not fit the settings is refused as a whole, and
what was stays.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING, Any

import structlog

from gateway.adapters.authenticator import Authenticator, signers_of
from gateway.adapters.catalogue import EngineCatalogue
from gateway.adapters.clock import SystemClock, new_request_id
from gateway.adapters.engine import Engine
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import CaFileUnusable, EnginePool, trust
from gateway.adapters.engine_queue import EngineQueue, QueuedDispatcher
from gateway.adapters.engine_watch import EngineWatch
from gateway.adapters.introspection import IntrospectionSource, Introspector
from gateway.adapters.issuer_http import IssuerHttp
from gateway.adapters.journal import Journal
from gateway.adapters.jwks import IssuerSource, JwksFetcher
from gateway.adapters.key_sets import KeySets
from gateway.adapters.ledger_memory import MemoryLedger
from gateway.adapters.readiness import readiness
from gateway.adapters.relay import Relay
from gateway.adapters.revoked_file import RevokedFile
from gateway.adapters.temporary_file import TemporaryFile
from gateway.enforcement import Enforcement
from gateway.identity.confirmation import DPOP, MTLS
from gateway.identity.dpop import Proofs
from gateway.identity.issuer import AccessTokenIssuer, IntrospectionIssuer
from gateway.policy.cache_salt import SHORTEST_SECRET, CacheSalts
from gateway.policy.model import Deadlines
from gateway.policy.warm_up import warm_ups
from gateway.ports import Ports
from gateway.settings import OPS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence

    from gateway.adapters.audit_log import AuditLog
    from gateway.adapters.downstream import Downstream
    from gateway.adapters.ledger_valkey import ValkeyLedger
    from gateway.adapters.metrics import Metrics
    from gateway.adapters.ops import Readiness
    from gateway.policy.model import Plane
    from gateway.settings import Settings


FIRST_TRIES_S = 3.0
"""Seconds that engines have to get ready before listeners open without them."""


class Misfit(Exception):  # noqa: N818  (says what is so)
    """Policies and settings do not fit together; each of ``problems`` is a sentence."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PlaneApp:
    """The application of one listener; ``enforcement`` is replaced as a whole when the policy changes."""

    def __init__(self, enforcement: Enforcement[Downstream], metrics: Metrics) -> None:
        self.enforcement = enforcement
        self._metrics = metrics

    def __call__(self, inbound: Downstream) -> Coroutine[Any, Any, None]:
        """Answer one request that came through ``EdgeProtocol``; no other server shows the target as it was sent."""
        serving = self.enforcement.serve(inbound)
        if inbound.refusal is None and not inbound.more_body:
            return serving  # the parser has read all of it
        return self._counted(inbound, serving)

    async def _counted(self, inbound: Downstream, serving: Coroutine[Any, Any, None]) -> None:
        """Serve, and count what the parser refused."""
        try:
            await serving
        finally:
            if inbound.refusal is not None or inbound.body_fault is not None:
                self._metrics.parser_refused()


class Gateway:
    """All planes of one process."""

    def __init__(self, settings: Settings, planes: Sequence[Plane], log: AuditLog, metrics: Metrics) -> None:
        self.settings = settings
        self.engines = {name: _engine(settings, name) for name in settings.engines}
        self._watches = {name: EngineWatch(engine) for name, engine in self.engines.items()}
        self.catalogue = EngineCatalogue(self.engines)
        self._fetcher = JwksFetcher()
        self.key_sets = KeySets({name: key_source(settings, name) for name in settings.issuers}, self._fetcher)
        self._issuer_http = IssuerHttp()
        self._introspector = Introspector(introspection_sources(settings), self._issuer_http)
        self.revoked = RevokedFile(settings.revoked_file)
        self.revoked.load()
        queues = {
            name: EngineQueue(engine.in_flight, engine.waiting, engine.wait)
            for name, engine in settings.engines.items()
            if engine.in_flight is not None
        }
        relay = Relay(self.engines, metrics, settings.sse_keep_alive)
        self._dispatcher = QueuedDispatcher(relay, queues, metrics) if queues else relay
        self._journal = Journal(log, metrics)
        self._clock = SystemClock()
        self._shared = _shared_ledger(settings)
        self.ledger: MemoryLedger | ValkeyLedger = self._shared or MemoryLedger()
        self._proofs = Proofs(urandom(32))
        salt_secret = settings.cache_salt_secret
        # Without the setting nobody else can know the salts; a second gateway would then find nothing in the cache.
        self._salts = CacheSalts(salt_secret.get_secret_value().encode() if salt_secret else urandom(SHORTEST_SECRET))
        self.apps = {
            listener: PlaneApp(enforcement, metrics) for listener, enforcement in self._enforcements(planes).items()
        }

    @property
    def planes(self) -> list[Plane]:
        """The policies in force."""
        return [app.enforcement.plane for app in self.apps.values()]

    @property
    def ages_s(self) -> dict[str, float]:
        """Seconds since the keys of each caller were fetched, where there are some."""
        return {caller: age for caller, age in self.key_sets.ages_s().items() if age is not None}

    async def readiness(self, *, draining: bool) -> Readiness:
        """Report whether this process can do its work."""
        report = readiness(self.planes, self.engines, self.key_sets, draining=draining)
        if not self._journal.ready:  # each request gets 503: another gateway may have room
            report = replace(report, ready=False, problems=(*report.problems, "records cannot be written"))
        if self._shared is None or await self._shared.answers():
            return report
        return replace(report, ready=False, problems=(*report.problems, "the ledger does not answer"))

    def reload(self, planes: Sequence[Plane]) -> None:
        """Put new policies in place of all the old ones. Raises ``Misfit`` and changes nothing when they do not fit."""
        enforcements = self._enforcements(planes)
        for listener, enforcement in enforcements.items():
            self.apps[listener].enforcement = enforcement

    def _enforcements(self, planes: Sequence[Plane]) -> Mapping[str, Enforcement[Downstream]]:
        """Make what the policies decide. Raises ``Misfit``."""
        served = served_by(self.settings, planes)
        asked = warm_ups(served.values())
        for name, watch in self._watches.items():
            watch.warm_ups = [warm_up for warm_up in asked if warm_up.engine == name]
        self.key_sets.keep({name: signer for plane in served.values() for name, signer in signers_of(plane).items()})
        return {listener: self._enforcement(plane) for listener, plane in served.items()}

    def _enforcement(self, plane: Plane) -> Enforcement[Downstream]:
        ports = Ports(
            Authenticator(plane, self.key_sets, self._introspector, self.revoked),
            self._dispatcher,
            self.catalogue,
            self.ledger,
            self._journal,
            self._clock,
            self._proofs,
            self._salts,
            new_request_id,
            _report_bug,
            TemporaryFile,
            self.settings.workers,
        )
        limits = self.settings.deadlines
        deadlines = Deadlines(limits.first_byte, limits.idle, limits.total)
        return Enforcement(plane, self.settings.host_rule(plane.listener), deadlines, ports)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep keys fresh and engines watched within this block, and close what is open behind it.

        It begins when each replica has been tried once, or has had its time for that: a request that comes before
        would find no engine ready.
        """
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self.key_sets.running())
                await stack.enter_async_context(self._introspector.running())
                if self._shared is not None:
                    await stack.enter_async_context(self._shared.running())
                for watch in self._watches.values():
                    await stack.enter_async_context(watch.running())
                with suppress(TimeoutError):
                    async with asyncio.timeout(FIRST_TRIES_S):
                        for watch in self._watches.values():
                            await watch.tried()
                yield
        finally:
            for engine in self.engines.values():
                engine.close()
            await self._fetcher.close()
            await self._issuer_http.close()


def served_by(settings: Settings, planes: Sequence[Plane]) -> dict[str, Plane]:
    """Give the planes that have a listener, by its name. Raises ``Misfit`` when policies and settings do not fit."""
    served = {plane.listener: plane for plane in planes if plane.listener in settings.listeners}
    problems = misfits(settings, served)
    if problems:
        raise Misfit(*problems)
    return served


def misfits(settings: Settings, served: Mapping[str, Plane]) -> list[str]:
    """Find where policies and settings do not fit together."""
    problems = [
        f"The listener {name!r} is configured, but no policy file has it: "
        f"write one, or remove GATEWAY_LISTENERS__{_upper(name)}."
        for name in settings.listeners
        if name != OPS and name not in served
    ]
    for listener, plane in served.items():
        problems += [
            f"{plane.source}: the engine {engine!r} is not configured: set GATEWAY_ENGINES__{_upper(engine)}__URLS."
            for engine in sorted({model.engine for model in plane.models.values()} - set(settings.engines))
        ]
        problems += [
            f"{plane.source}: client {client.name!r} has 'from', but on the listener {listener!r} every caller comes "
            "from this host: remove 'from', or listen on an address of the network."
            for client in plane.clients.values()
            if client.networks and settings.listeners[listener].loopback and plane.edge is None
        ]
        problems += [
            f"{plane.source}: the caller {name!r} has 'sender: mtls', but the listener {listener!r} asks for no "
            f"client certificates: set GATEWAY_TLS__{_upper(listener)}__CERT, …__KEY and …__CLIENT_CA."
            for name, trust in plane.callers.items()
            if isinstance(trust, AccessTokenIssuer)
            and trust.sender == MTLS
            and not _asks_for_certificates(settings, listener)
        ]
        problems += [
            f"{plane.source}: the caller {name!r} has 'sender: dpop', whose nonces and proofs each process keeps for "
            "itself: set GATEWAY_WORKERS=1."
            for name, trust in plane.callers.items()
            if settings.workers > 1 and isinstance(trust, AccessTokenIssuer) and trust.sender == DPOP
        ]
        problems += [
            f"{plane.source}: the caller {name!r} asks its issuer about tokens, and has no credential for that: "
            f"set GATEWAY_ISSUERS__{_upper(name)}__CLIENT_ID and …__CLIENT_SECRET."
            for name, trust in plane.callers.items()
            if isinstance(trust, IntrospectionIssuer) and name not in introspection_sources(settings)
        ]
    return problems


def _engine(settings: Settings, name: str) -> Engine:
    """Make an engine with the connections of each of its replicas. Raises ``Misfit``."""
    engine = settings.engines[name]
    key = engine.api_key.get_secret_value() if engine.api_key else None
    try:
        tls = trust(engine.ca_file) if any(url.tls for url in engine.urls) else None
    except CaFileUnusable as unusable:
        raise Misfit(f"GATEWAY_ENGINES__{_upper(name)}__CA_FILE {unusable}.") from None
    clients = [
        EngineClient(
            EnginePool(
                url,
                idle=engine.pool,
                keep_alive_s=engine.keep_alive,
                connect_s=settings.deadlines.connect,
                tls=tls,
            ),
            key,
        )
        for url in engine.urls
    ]
    return Engine(name, clients, engine.affinity_slack, monotonic)


def _shared_ledger(settings: Settings) -> ValkeyLedger | None:
    """Make the ledger that gateways share, if the settings name its server; its client takes a while to import."""
    if settings.ledger is None:
        return None
    from gateway.adapters.ledger_valkey import ValkeyLedger  # noqa: PLC0415  (as said)

    password = settings.ledger_password
    try:
        authorities = trust(settings.ledger_ca_file) if settings.ledger.tls else None
    except CaFileUnusable as unusable:
        raise Misfit(f"GATEWAY_LEDGER_CA_FILE {unusable}.") from None
    return ValkeyLedger(settings.ledger, password.get_secret_value() if password else None, authorities)


def _asks_for_certificates(settings: Settings, listener: str) -> bool:
    return listener in settings.tls and settings.tls[listener].client_ca is not None


def _report_bug(request_id: str, error: BaseException) -> None:
    """Tell the operator where the gateway itself went wrong; the message of the error could quote a request."""
    structlog.get_logger("gateway").error("internal error", request=request_id, exc_info=error)


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def introspection_sources(settings: Settings) -> dict[str, IntrospectionSource]:
    """Give how to ask the issuers about tokens, by the callers for which the settings have a credential."""
    return {
        name: IntrospectionSource(
            issuer.client_id,
            issuer.client_secret.get_secret_value(),
            issuer.introspection_url,
            issuer.cache,
            issuer.timeout,
        )
        for name, issuer in settings.issuers.items()
        if issuer.client_id is not None and issuer.client_secret is not None
    }


def key_source(settings: Settings, caller: str) -> IssuerSource:
    """Give where the keys of a caller of the settings come from."""
    issuer = settings.issuers[caller]
    return IssuerSource(
        issuer.jwks_url, issuer.jwks_max_age, issuer.jwks_max_stale, issuer.jwks_cool_down, issuer.timeout
    )
