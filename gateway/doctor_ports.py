"""The ways to everything that the settings name, for the doctor.

Enters: settings, planes, and the wishes of the command line. Leaves: ``Surroundings``. Each way keeps its own key,
token or password, so that nothing that judges or prints ever has one.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gateway.adapters.authenticator import signers_of
from gateway.adapters.clock import SystemClock
from gateway.adapters.engine_pool import CaFileUnusable, trust
from gateway.adapters.inquirer import Inquirer, origin, own_addresses, pinned
from gateway.adapters.issuer_probe import IssuerProbe
from gateway.adapters.jwks import IssuerSource
from gateway.adapters.logs import configured
from gateway.adapters.tool import told_by
from gateway.addresses import Tcp
from gateway.app import Misfit, introspection_sources, key_source
from gateway.identity.issuer import CloudflareAccess, IntrospectionIssuer
from gateway.policy.model import Deadlines
from gateway.reasons import Unavailable
from gateway.review.load_findings import QUERY
from gateway.review.surroundings import EngineAt, IssuerAt, ListenerAt, ReplicaAt, Surroundings, Visitor
from gateway.settings import OPS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from gateway.policy.model import Plane
    from gateway.settings import Settings

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (who listens everywhere is asked on loopback)
_OF_A_FIELD = range(0x21, 0x7F)


class Misasked(Exception):  # noqa: N818  (says what is so)
    """The wishes do not fit; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says. ``token`` is for one plane; ``gateway`` an origin at which that plane is asked."""

    public_url: str | None = None
    plane: str | None = None
    gateway: str | None = None
    token: str | None = field(default=None, repr=False)
    within_s: float = 60.0


def surroundings(settings: Settings, planes: Sequence[Plane], wishes: Wishes) -> Surroundings:
    """Make a way to each thing. Raises ``Misfit`` where ``serve`` would not start, and ``Misasked``."""
    served = [plane for plane in planes if plane.listener in settings.listeners]
    listeners = {plane.listener: _listener(settings, plane.listener) for plane in served}
    visitor = None
    if wishes.token is not None or wishes.gateway is not None:
        plane = _plane(served, wishes)
        ways = _ways(settings, plane.listener, wishes)
        if wishes.gateway is not None:
            listeners[plane.listener] = replace(
                listeners[plane.listener], address=wishes.gateway, ask=ways[0], closed=""
            )
        if wishes.token is not None:
            visitor = Visitor(plane.name, ways[1])
    limits = settings.deadlines
    issuers = _issuers(settings, served)
    return Surroundings(
        planes=served,
        closed=[plane for plane in planes if plane.listener not in settings.listeners],
        engines={name: _engine(settings, name) for name in settings.engines},
        issuers=issuers,
        listeners=listeners,
        deadlines=Deadlines(limits.first_byte, limits.idle, limits.total),
        keep_alive_s=settings.sse_keep_alive,
        now=SystemClock().now,
        gpus=_gpus,
        ops=_listener(settings, OPS) if OPS in settings.listeners else None,
        ledger=_ledger(settings),
        public_url=wishes.public_url or "",
        public=None if wishes.public_url is None else _outside(wishes.public_url, "--public-url"),
        visitor=visitor,
        within_s=wishes.within_s,
        idle=[f"GATEWAY_ISSUERS__{_upper(name)}" for name in settings.issuers if name not in issuers],
    )


def _plane(planes: Sequence[Plane], wishes: Wishes) -> Plane:
    """Find the plane that a token or an address is for. Raises ``Misasked``."""
    known = {plane.name: plane for plane in planes}
    if wishes.plane is None and len(known) == 1:
        return planes[0]
    if wishes.plane not in known:
        raise Misasked(f"Say which plane --token-env and --gateway are for: --plane with one of {', '.join(known)}.")
    return known[wishes.plane]


def _ways(settings: Settings, listener: str, wishes: Wishes) -> tuple[Inquirer, Inquirer]:
    """Give the ways to one plane: without a credential, and with the token. Raises ``Misasked``."""
    token = wishes.token
    if token is not None and not (token and all(ord(character) in _OF_A_FIELD for character in token)):
        raise Misasked("The token must be printable ASCII without spaces.")
    if wishes.gateway is not None:
        return _outside(wishes.gateway, "--gateway"), _outside(wishes.gateway, "--gateway", token)
    return _inside(settings, listener), _inside(settings, listener, token)


def _outside(url: str, option: str, token: str | None = None) -> Inquirer:
    """Lead to a URL of the command line. Raises ``Misasked``."""
    try:
        address, target = origin(url)
    except ValueError as error:
        raise Misasked(f"{option} {error}.") from None
    if target != "/" or address.plain_beyond_loopback:
        raise Misasked(f"{option} must be an origin such as https://llm.example.com; http is for loopback hosts alone.")
    return Inquirer.of_origin(address, bearer=token)


def _inside(settings: Settings, name: str, token: str | None = None) -> Inquirer:
    """Lead to a listener of the settings, by a host name that it serves. Raises ``Misfit``."""
    address, hosts = settings.listeners[name], settings.hosts.get(name)
    host = hosts[0] if hosts else "localhost"
    server_name = host.partition(":")[0] if hosts and not host.startswith("[") else None
    if isinstance(address, Tcp):
        address = replace(address, host=_ANYWHERE.get(address.host, address.host))
        if name == OPS or settings.listeners[name].loopback:
            host = str(address)
    tls = None
    if name in settings.tls_files:
        try:
            tls = pinned(settings.tls_files[name][0])
        except OSError as error:
            raise Misfit(f"GATEWAY_TLS__{_upper(name)}__CERT cannot be used: {error.strerror or error}.") from None
    return Inquirer(address, host, tls=tls, server_name=server_name, bearer=token)


def _listener(settings: Settings, name: str) -> ListenerAt:
    closed = ""
    if name in settings.tls_files and settings.tls_files[name][2] is not None:
        closed = "it asks for a client's certificate, and the doctor has none"
    address = str(settings.listeners[name])
    return ListenerAt(address, f"GATEWAY_LISTENERS__{_upper(name)}", _inside(settings, name), closed)


def _engine(settings: Settings, name: str) -> EngineAt:
    """Lead to each replica of an engine, with our key and without. Raises ``Misfit``."""
    engine = settings.engines[name]
    variable = f"GATEWAY_ENGINES__{_upper(name)}"
    key = engine.api_key.get_secret_value() if engine.api_key else None
    try:
        tls = trust(engine.ca_file) if any(url.tls for url in engine.urls) else None
    except CaFileUnusable as unusable:
        raise Misfit(f"{variable}__CA_FILE {unusable}.") from None
    replicas = []
    for url in engine.urls:
        elsewhere = {}
        if isinstance(url.where, Tcp) and url.where.loopback:
            others = [replace(url.where, host=host) for host in own_addresses()]
            elsewhere = {str(other): Inquirer(other, str(other), tls=tls if url.tls else None) for other in others}
        with_key, without = Inquirer.of_origin(url, tls, key), Inquirer.of_origin(url, tls)
        replicas.append(ReplicaAt(str(url), url.where.loopback, with_key, without, elsewhere))
    return EngineAt(variable, key is not None, replicas)


def _issuers(settings: Settings, planes: Sequence[Plane]) -> dict[str, IssuerAt]:
    """Lead to each issuer whose keys or answers a plane needs."""
    asked = introspection_sources(settings)
    found: dict[str, IssuerAt] = {}
    for plane in planes:
        about_tokens = {name: one for name, one in plane.callers.items() if isinstance(one, IntrospectionIssuer)}
        for name, party in {**about_tokens, **signers_of(plane)}.items():
            source = key_source(settings, name) if name in settings.issuers else IssuerSource()
            if isinstance(party, CloudflareAccess) and source.jwks_url is None:
                source = replace(source, jwks_url=party.keys_url)
            probe = IssuerProbe(party.issuer, source, asked.get(name))
            found[name] = IssuerAt(f"GATEWAY_ISSUERS__{_upper(name)}", probe)
    return found


def _ledger(settings: Settings) -> Callable[[], Awaitable[str]] | None:
    """Lead to the server of limits, if the settings name one; its client takes a while to import."""
    address, password = settings.ledger, settings.ledger_password
    if address is None:
        return None

    async def ask() -> str:
        from gateway.adapters.ledger_valkey import ValkeyLedger  # noqa: PLC0415  (as said)

        try:
            authorities = trust(settings.ledger_ca_file) if address.tls else None
        except CaFileUnusable as unusable:
            return f"GATEWAY_LEDGER_CA_FILE {unusable}"
        ledger = ValkeyLedger(address, password.get_secret_value() if password else None, authorities)
        try:
            with configured("error", io.StringIO()):  # what it would log is what is found here
                await ledger.ping()
        except Unavailable as failure:
            return failure.detail
        finally:
            await ledger.close()
        return ""

    return ask


async def _gpus() -> tuple[bool, str] | None:
    return await told_by("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits")


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
