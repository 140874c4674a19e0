"""The environment, read once at start-up: addresses, file paths and secrets. Rules stand in the policy files.

Enters: a mapping of environment variables. Leaves: ``Settings``, frozen and checked as a whole, or a
``SettingsError`` whose sentences name the variable and what to do. What several workers could not keep together is
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from gateway import setting_values as values
from gateway.addresses import Tcp, Unix
from gateway.environment import SettingsError, Shape, read, values_of, variable
from gateway.wire.hosts import HostRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["EDGE", "OPS", "Deadlines", "Engine", "Issuer", "Settings", "SettingsError", "load_settings"]

LONGEST_CACHE_S = 60.0
OPS = "ops"
"""The listener that no policy file has."""
EDGE = "edge"
"""The issuer of the edge lock, so no caller may have this name."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True)


class Engine(_Part):
    """How to reach one engine of the policies: replicas, the gateway's own key for it, and connections kept open.

    ``ca_file``: the only authorities whose certificates are believed, in PEM. ``affinity_slack``: how many requests
    busier than the least busy a replica may be and still get those that begin as its others do.
    ``in_flight``: the most requests that it gets at one time; so many more may be ``waiting``, and so long they
    ``wait``. Without it, whatever is permitted is sent at once.
    """

    urls: values.EngineUrls
    api_key: values.Secret | None = None
    ca_file: values.File | None = None
    affinity_slack: values.CountOrZero = 8
    pool: values.Count = 256
    keep_alive: values.SecondsOrZero = 4.0
    plain_http: values.Boolean = False
    in_flight: values.Count | None = None
    waiting: values.Count = 64
    wait: values.Seconds = 5.0


class Issuer(_Part):
    """How to reach the issuer behind one caller of the policies, and how long its answers are good."""

    jwks_url: values.HttpsUrl | None = None
    jwks_max_age: values.Seconds = 600.0
    jwks_max_stale: values.Seconds = 86_400.0
    jwks_cool_down: values.SecondsOrZero = 60.0
    timeout: values.Seconds = 5.0
    introspection_url: values.HttpsUrl | None = None
    client_id: str | None = None
    client_secret: values.Secret | None = None
    cache: values.SecondsOrZero = 60.0


class Tls(_Part):
    """Files of a listener that speaks TLS itself, in PEM; with ``client_ca`` it asks clients for certificates."""

    cert: values.File | None = None
    key: values.File | None = None
    client_ca: values.File | None = None


class Deadlines(_Part):
    """Time limits of a request in seconds; a policy may set others for an endpoint.

    ``notice``: how long connections are still accepted after SIGTERM, while ``/readyz`` says that the end is near.
    """

    head: values.Seconds = 15.0
    body: values.Seconds = 30.0
    connect: values.Seconds = 5.0
    first_byte: values.Seconds = 100.0
    idle: values.Seconds = 60.0
    total: values.Seconds = 600.0
    drain: values.Seconds = 30.0
    notice: values.SecondsOrZero = 0.0


class Settings(_Part):
    """All settings. Keys of mappings are names of the policies; ``policies`` are files, or folders of ``*.yaml``."""

    policies: values.Files = values.files("policies/")
    listeners: dict[str, values.ListenerAddress] = {}
    hosts: dict[str, values.Hosts] = {}
    tls: dict[str, Tls] = {}
    engines: dict[str, Engine] = {}
    issuers: dict[str, Issuer] = {}
    deadlines: Deadlines = Deadlines()
    ledger: values.Ledger = None
    ledger_password: values.Secret | None = None
    ledger_ca_file: values.File | None = None
    audit_log: str = "stdout"
    cache_salt_secret: values.LongSecret | None = None
    revoked_file: values.File | None = None
    max_connections: values.Count = 10_000
    sse_keep_alive: values.SecondsOrZero = 15.0
    workers: values.Count = 1
    ops_token: values.Secret | None = None
    log_level: values.LogLevel = "info"

    @property
    def tls_files(self) -> dict[str, tuple[Path, Path, Path | None]]:
        """Give certificate, key and the clients' authority for each listener that speaks TLS."""
        return {
            name: (tls.cert, tls.key, tls.client_ca)
            for name, tls in self.tls.items()
            if tls.cert is not None and tls.key is not None
        }

    def host_rule(self, listener: str) -> HostRule:
        """Make the rule for the Host field of one listener."""
        address, hosts = self.listeners[listener], self.hosts.get(listener, ())
        if isinstance(address, Tcp):
            return HostRule.of_tcp(address.port, hosts, loopback=address.loopback, ip_literals=listener == OPS)
        return HostRule.of_tcp(80, hosts, loopback=False) if hosts else HostRule.of_unix()


_SECTIONS: Mapping[str, type[_Part] | None] = {
    "listeners": None,
    "hosts": None,
    "tls": Tls,
    "engines": Engine,
    "issuers": Issuer,
}


def portion(settings: Settings, number: int) -> Settings:
    """Give the settings of one worker (the first is number 1): its share of each bound, and no ops listener.

    The shares together are the bound, so that several processes hold what one would.
    """

    def share(bound: int) -> int:
        each, left = divmod(bound, settings.workers)
        return each + (number <= left)

    engines = {
        name: engine
        if engine.in_flight is None
        else engine.model_copy(update={"in_flight": share(engine.in_flight), "waiting": share(engine.waiting)})
        for name, engine in settings.engines.items()
    }
    mine = {
        "engines": engines,
        "listeners": {name: address for name, address in settings.listeners.items() if name != OPS},
        "tls": {name: tls for name, tls in settings.tls.items() if name != OPS},
        "max_connections": share(settings.max_connections),
    }
    return settings.model_copy(update=mine)


def _fields(part: type[_Part]) -> frozenset[str]:
    return frozenset(name.upper() for name in part.model_fields)


_SHAPE = Shape(
    single=_fields(Settings) - {name.upper() for name in _SECTIONS} - {"DEADLINES"},
    fixed={"DEADLINES": _fields(Deadlines)},
    named={name.upper(): _fields(part) if part else frozenset() for name, part in _SECTIONS.items()},
    secrets=frozenset({"API_KEY", "CLIENT_SECRET", "CACHE_SALT_SECRET", "LEDGER_PASSWORD", "OPS_TOKEN"}),
)


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read all ``GATEWAY_*`` variables. Raises ``SettingsError`` with every problem found."""
    try:
        settings = Settings.model_validate(read(environ, _SHAPE))
    except ValidationError as error:
        raise SettingsError(*map(_sentence, error.errors(include_url=False, include_input=False))) from None
    problems = [*_too_many_workers(settings), *_contradictions(settings)]
    if problems:
        raise SettingsError(*problems)
    return settings


def resolved(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the same settings with what their files hold at the moment. Raises ``SettingsError``."""
    return values_of(environ, _SHAPE)


def _sentence(problem: Mapping[str, object]) -> str:
    """Turn one finding of pydantic into a sentence that begins with the variable."""
    place = tuple(str(part) for part in problem["loc"] if isinstance(part, str))  # type: ignore[attr-defined]  # a tuple
    if problem["type"] == "missing":
        return f"{variable(place)} is missing."
    return f"{variable(place)} {str(problem['msg']).removeprefix('Value error, ')}."


def _too_many_workers(settings: Settings) -> Iterator[str]:
    """Find what several processes could not keep together, and bounds that are too small to be shared out."""
    workers = settings.workers
    if workers > 1 and settings.ledger is None:
        yield (
            "GATEWAY_WORKERS must be 1: with a ledger in memory, each process would grant the limits anew. "
            "Set GATEWAY_LEDGER to a server that they share, such as valkey://127.0.0.1:6379."
        )
    bounds: dict[tuple[str, ...], int] = {("max_connections",): settings.max_connections}
    bounds |= {("engines", name, "in_flight"): engine.in_flight or workers for name, engine in settings.engines.items()}
    for place, bound in bounds.items():
        if bound < workers:
            yield f"{variable(place)} is less than GATEWAY_WORKERS, among which it is shared out."


def _halves(settings: Settings) -> Iterator[str]:
    """Find credentials of which one half is missing, and answers that would count for too long."""
    for name, issuer in settings.issuers.items():
        if (issuer.client_id is None) != (issuer.client_secret is None):
            missing = "client_id" if issuer.client_id is None else "client_secret"
            yield f"{variable(('issuers', name, missing))} is missing: an id and a secret go together."
        if issuer.cache > LONGEST_CACHE_S:
            yield f"{variable(('issuers', name, 'cache'))} is more than 60s: so long could a revoked token be used."


def _without_bound(settings: Settings) -> Iterator[str]:
    """Find a waiting room before an engine that nobody has to wait for, and a password that nobody asks for."""
    for name, engine in settings.engines.items():
        for field in ("waiting", "wait"):
            if field in engine.model_fields_set and engine.in_flight is None:
                bound = variable(("engines", name, "in_flight"))
                yield f"{variable(('engines', name, field))} has no meaning without a bound: set {bound}."
    if settings.ledger_password is not None and settings.ledger is None:
        yield "GATEWAY_LEDGER_PASSWORD has no server: set GATEWAY_LEDGER, such as valkey://127.0.0.1:6379."
    if settings.ledger_ca_file is not None and (settings.ledger is None or not settings.ledger.tls):
        yield "GATEWAY_LEDGER_CA_FILE has no use: GATEWAY_LEDGER is no URL with TLS, such as valkeys://cache.internal."


def _half_tls(settings: Settings) -> Iterator[str]:
    """Find listeners that could speak no TLS although they should."""
    for name, tls in settings.tls.items():
        for field in ("cert", "key"):
            if getattr(tls, field) is None:
                yield f"{variable(('tls', name, field))} is missing: a certificate and its key go together."
        if name not in settings.listeners:
            yield f"{variable(('tls', name))} has no listener: set {variable(('listeners', name))}."
        elif isinstance(settings.listeners[name], Unix):
            yield f"{variable(('tls', name))} is for a Unix socket, which speaks no TLS: remove it."


def _contradictions(settings: Settings) -> Iterator[str]:
    """Find what is well-formed alone and wrong together."""
    yield from _halves(settings)
    yield from _without_bound(settings)
    yield from _half_tls(settings)
    if not set(settings.listeners) - {OPS}:
        yield "No listener is configured: set one, such as GATEWAY_LISTENERS__PUBLIC=127.0.0.1:8080."
    seen: dict[Tcp | Unix, str] = {}
    for name, address in settings.listeners.items():
        if address in seen:
            other = variable(("listeners", seen[address]))
            yield f"{variable(('listeners', name))} has the same address as {other}."
        seen[address] = name
        if not address.loopback and name != OPS and name not in settings.hosts:
            yield f"{variable(('hosts', name))} is missing: beyond loopback, the accepted host names must be listed."
    for name in settings.hosts:
        if name not in settings.listeners:
            yield f"{variable(('hosts', name))} has no listener: set {variable(('listeners', name))}."
    for name, engine in settings.engines.items():
        if engine.ca_file is not None and not any(url.tls for url in engine.urls):
            yield f"{variable(('engines', name, 'ca_file'))} has no use: none of the engine's URLs is https."
        if not engine.plain_http and any(url.plain_beyond_loopback for url in engine.urls):
            yield (
                f"{variable(('engines', name, 'urls'))} has an http URL beyond loopback, where prompts and the "
                f"engine's key can be read: use https, or set {variable(('engines', name, 'plain_http'))}=true."
            )
