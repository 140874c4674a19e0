"""The ops listener: is the process alive, is it ready, and what does it count.

Enters: GET requests of orchestrators, load balancers and Prometheus, on a listener of its own. Leaves: JSON, or the
exposition of the metrics. It is no plane: it reaches no engine, and it says nothing about clients or their requests.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from gateway.adapters.metrics import CONTENT_TYPE
from gateway.adapters.ops_door import HEADERS
from gateway.reasons import ANSWERS, Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.wire.hosts import HostRule


@dataclass(frozen=True, slots=True)
class CallerReadiness:
    """Whether the keys for one caller's credentials are at hand; ``age_s`` is the time since they were fetched."""

    ready: bool
    age_s: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaReadiness:
    """Whether a replica takes requests; ``state`` says why not, ``missing`` which models of the policy it lacks."""

    ready: bool
    state: str = ""
    missing: tuple[str, ...] = ()
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class EngineReadiness:
    """Whether an engine can take requests, and which models of the policy it serves or lacks; replicas by address."""

    ready: bool
    state: str = ""
    models: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    replicas: Mapping[str, ReplicaReadiness] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlaneReadiness:
    """The state of one plane. ``policy``: digest of its file; ``not_enforced``: what the file says in vain."""

    ready: bool
    policy: str
    listener: str
    open: bool
    not_enforced: tuple[str, ...] = ()
    callers: Mapping[str, CallerReadiness] = field(default_factory=dict)
    engines: Mapping[str, EngineReadiness] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Readiness:
    """The state of the process. ``problems``: what is wrong beside the planes."""

    ready: bool
    planes: Mapping[str, PlaneReadiness] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class Report(Protocol):
    """What ``/readyz`` says, to be written as JSON."""

    @property
    def ready(self) -> bool:
        """Whether requests can be served."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Of how many worker processes how many run, and how many of them can serve requests."""

    of: int
    running: int
    ready: int | None = None


def ops_app(
    readiness: Callable[[], Awaitable[Report]],
    exposition: Callable[[], Awaitable[bytes]],
    hosts: HostRule,
    *,
    loopback: bool,
    token: str | None = None,
    workers: Callable[[], Workers] | None = None,
) -> ASGIApp:
    """Make the application. Beyond loopback, metrics need ``token``; without one they are never given there.

    ``exposition``: the metrics as Prometheus reads them. ``workers``: set where this process only looks after others.
    """

    async def live(_request: Request) -> Response:
        if workers is None:
            return _json({"alive": True})
        found = workers()
        alive = found.running > 0
        return _json({"alive": alive, "workers": {"of": found.of, "running": found.running}}, 200 if alive else 503)

    async def ready(_request: Request) -> Response:
        report = await readiness()
        return _json(report, 200 if report.ready else 503)

    async def count(request: Request) -> Response:
        if not loopback and not _authorized(request, token):
            return _json(
                {"error": "Beyond loopback, metrics need 'Authorization: Bearer' with the value of GATEWAY_OPS_TOKEN."},
                401,
                {"www-authenticate": 'Bearer realm="vllm-gateway ops"'},
            )
        return Response(await exposition(), headers=HEADERS, media_type=CONTENT_TYPE)

    routes = [Route("/livez", live), Route("/readyz", ready), Route("/metrics", count)]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _failed})
    app.router.redirect_slashes = False
    return _HostCheck(app, hosts)


class _HostCheck:
    """Lets a request pass that has one Host, and one that is served here."""

    def __init__(self, app: ASGIApp, hosts: HostRule) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            found = [value for name, value in scope["headers"] if name == b"host"]
            try:
                self._hosts.check(found[0] if len(found) == 1 else None)
            except Malformed as malformed:
                answer = ANSWERS[malformed.reason]
                await _json({"error": answer.sentence}, answer.status)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _authorized(request: Request, token: str | None) -> bool:
    """Compare the bearer token in constant time."""
    fields = request.headers.getlist("authorization")
    if token is None or len(fields) != 1:
        return False
    scheme, _, given = fields[0].partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), token.encode())


async def _refused(_request: Request, error: Exception) -> Response:
    """Answer for a path or method that does not exist here."""
    refusal = cast("HTTPException", error)  # it is registered for this class alone
    return _json({"error": refusal.detail}, refusal.status_code, refusal.headers)


async def _failed(_request: Request, _error: Exception) -> Response:
    """Answer for a bug of ours; the server logs it."""
    answer = ANSWERS[Reason.INTERNAL]
    return _json({"error": answer.sentence}, answer.status)


def _json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, {**HEADERS, **(headers or {})}, "application/json")
