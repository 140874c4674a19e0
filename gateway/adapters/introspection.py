"""Asks issuers about opaque tokens, as seldom as it may (RFC 7662 §2.1, §4).

Enters: an opaque token with its SHA-256, the issuer as the policy states it, its ``IntrospectionSource`` from the
environment. Leaves: a ``Principal``, or ``Malformed`` and ``Unavailable`` as ``identity.introspection`` judges them.
Each token is asked for in one flight, whoever waits; what was said is remembered for a bounded time under the token's
hash, in two bounded lists, so that a flood of tokens that do not hold cannot drive out those that do.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import quote_plus

import structlog

from gateway.adapters.issuer_http import is_safe, within
from gateway.identity import introspection
from gateway.reasons import Malformed, Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from gateway.identity.issuer import IntrospectionIssuer
    from gateway.identity.principal import Principal

LONGEST_CACHE_S = 60.0
LONGEST_REFUSED_S = 10.0
"""Seconds for which a refusal is remembered: a new token may reach the issuer's replicas late."""
MOST_REMEMBERED = 10_000
MOST_ASKED_AT_ONCE = 64

_log = structlog.get_logger("gateway.introspection")


@dataclass(frozen=True, slots=True)
class IntrospectionSource:
    """How to ask the issuer of one caller; times are in seconds.

    Without ``url`` the issuer's metadata name the address. ``cache_s``: for how long an answer counts, at most a minute
    (RFC 7662 §4: no longer than a revocation may go unseen); 0 asks each time. ``timeout_s``: the deadline of one
    question, the issuer's metadata included. Raises ``ValueError``.
    """

    client_id: str
    client_secret: str = field(repr=False)
    url: str | None = None
    cache_s: float = LONGEST_CACHE_S
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if self.url is not None and not is_safe(self.url, loopback=True):
            raise ValueError("an introspection URL is https, or http on a loopback host, without credentials")
        if self.cache_s > LONGEST_CACHE_S:
            raise ValueError(f"an answer counts for at most {LONGEST_CACHE_S:g} s")

    @property
    def authorization(self) -> str:
        """The client's own credential, in the form of ``client_secret_basic`` (RFC 6749 §2.3.1)."""
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        return f"Basic {b64encode(pair.encode()).decode()}"


class Asking(Protocol):
    """The way to the issuers (``adapters.issuer_http.IssuerHttp``)."""

    async def post(self, url: str, form: Mapping[str, str], authorization: str) -> bytes:
        """Ask. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""

    async def endpoint(self, issuer: str, member: str) -> str:
        """Find an address in the issuer's metadata. Raises ``Unavailable(KEYS_UNAVAILABLE)``."""


@dataclass(frozen=True, slots=True)
class Active:
    """What an issuer said of a token that holds."""

    principal: Principal
    token_id: str | None


_T = TypeVar("_T")
_Said = Active | Malformed | Unavailable
_Place = tuple["IntrospectionIssuer", str]


class Introspector:
    """Asks the issuers of all planes; it outlives every policy, and what it remembers is bound to the policy's words.

    ``sources`` are by caller. It asks within ``running`` alone.
    """

    def __init__(self, sources: Mapping[str, IntrospectionSource], asking: Asking) -> None:
        self._sources = sources
        self._asking = asking
        self._active: OrderedDict[_Place, tuple[float, Active]] = OrderedDict()
        self._refused: OrderedDict[_Place, tuple[float, str]] = OrderedDict()
        self._flights: dict[_Place, asyncio.Task[_Said]] = {}
        self._addresses: dict[str, str] = {}
        self._group: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer within this block."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                for flight in self._flights.values():
                    flight.cancel()

    def known(self, issuer: IntrospectionIssuer, sha256: str, now: float) -> Active | None:
        """Give what was said of a token a short while ago, if it held."""
        said = self._active.get((issuer, sha256))
        return said[1] if said is not None and now < said[0] else None

    async def ask(self, issuer: IntrospectionIssuer, token: str, sha256: str, now: float) -> Active:
        """Find out about a token.

        Raises ``Malformed(CREDENTIAL_INVALID)`` and ``Unavailable(KEYS_UNAVAILABLE)``.
        """
        said = self._remembered(issuer, sha256, now) or await self._fly(issuer, token, sha256, now)
        if isinstance(said, Active):
            return said
        raise said

    def _remembered(self, issuer: IntrospectionIssuer, sha256: str, now: float) -> Active | Malformed | None:
        refused = self._refused.get((issuer, sha256))
        if refused is not None and now < refused[0]:
            return Malformed(Reason.CREDENTIAL_INVALID, refused[1])
        return self.known(issuer, sha256, now)

    async def _fly(self, issuer: IntrospectionIssuer, token: str, sha256: str, now: float) -> _Said:
        """Ask, or wait for the question under way, which goes on when the one who caused it leaves."""
        place = (issuer, sha256)
        flight = self._flights.get(place)
        if flight is None:
            if self._group is None or len(self._flights) >= MOST_ASKED_AT_ONCE:
                return Unavailable(Reason.KEYS_UNAVAILABLE, "too many opaque tokens are asked about", retry_after=1)
            flight = self._flights[place] = self._group.create_task(self._question(place, token, now))
            flight.add_done_callback(lambda _: self._flights.pop(place, None))
        await asyncio.wait((flight,))
        return Unavailable(Reason.DRAINING) if flight.cancelled() else flight.result()

    async def _question(self, place: _Place, token: str, now: float) -> _Said:
        """Ask, judge and remember. What went wrong is a value: raised, it would end all other flights."""
        issuer, _ = place
        source = self._sources[issuer.caller]
        try:
            principal, token_id = introspection.judge(await self._answer(issuer, source, token), issuer, now)
        except Malformed as refusal:
            _keep(self._refused, place, now + min(source.cache_s, LONGEST_REFUSED_S), refusal.detail)
            return refusal
        except Unavailable as failure:
            self._addresses.pop(issuer.caller, None)
            _log.warning("opaque token not checked", caller=issuer.caller, why=failure.detail)
            return failure
        except Exception as error:  # noqa: BLE001  (a bug of ours must not end the other flights, nor the process)
            _log.exception("opaque token not checked: bug", caller=issuer.caller)
            return Unavailable(Reason.INTERNAL, type(error).__name__)
        active = Active(principal, token_id)
        until = now + source.cache_s
        _keep(self._active, place, min(until, principal.expires_at or until), active)
        return active

    async def _answer(self, issuer: IntrospectionIssuer, source: IntrospectionSource, token: str) -> bytes:
        """Ask the issuer: the token is one parameter of a form, whatever characters it has."""
        form = {"token": token, "token_type_hint": "access_token"}
        async with within(source.timeout_s):
            url = source.url or self._addresses.get(issuer.caller)
            if url is None:
                url = await self._asking.endpoint(issuer.issuer, "introspection_endpoint")
                self._addresses[issuer.caller] = url
            return await self._asking.post(url, form, source.authorization)


def _keep(memory: OrderedDict[_Place, tuple[float, _T]], place: _Place, until: float, what: _T) -> None:
    """Remember something; the oldest leaves when there is too much."""
    memory[place] = (until, what)
    memory.move_to_end(place)
    if len(memory) > MOST_REMEMBERED:
        memory.popitem(last=False)
