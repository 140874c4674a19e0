"""The ledger that many gateways share: Valkey or Redis, asked once for each step of a request.

Enters: holders and limits. Leaves: leases and refusals, or ``Unavailable(LEDGER_UNAVAILABLE)`` within a bounded time:
what cannot be counted is not let in. Names of clients and people never reach the server, only digests of them. A lease
ends by itself when the gateway that holds it dies; while it lives, the lease is renewed.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import structlog
from valkey.asyncio import BlockingConnectionPool, Connection, SSLConnection, UnixDomainSocketConnection, Valkey
from valkey.exceptions import NoScriptError, ValkeyError

from gateway.adapters.ledger_scripts import Script, Scripts
from gateway.adapters.walk import in_task
from gateway.addresses import Unix
from gateway.limits.ledger import Lease, Quota, Refused
from gateway.limits.tally import DAY_US
from gateway.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from ssl import SSLContext

    from gateway.addresses import LedgerAddress
    from gateway.limits.ledger import Holder, Share
    from gateway.limits.limit import Limit

ANSWER_S = 1.0
"""Seconds within which the server must have answered, from the moment it is asked, connecting included."""

CONNECTIONS = 32
"""Connections at one time; a call that finds none free waits for one within its second."""

LEASE_S = 30.0
"""Seconds for which a lease holds unless it is renewed: so long do the places of a gateway that died stay taken."""

UNSETTLED_AT_MOST = 10_000
"""Settlements that are kept for a server that does not answer; of more, the oldest stay charged as reserved."""

UNDECIDED_AT_MOST = 1_000
"""Among them, of those who never learnt whether they were let in; a place of theirs may be taken for ``LEASE_S``."""

SETTLE_AGAIN_S = 1.0
"""Seconds between attempts to settle what is left: so long after its return, a server holds nothing against anybody."""

_REFUSALS = {1: Reason.OVER_RATE, 2: Reason.OVER_CONCURRENCY, 3: Reason.OVER_TOKENS}
_OF_MODEL = 10
_NO_LIMIT = -1
_NO_DAY = -1
_PING_KEY = ("vgw:{ping}:sums",)
_log = structlog.get_logger("gateway.ledger")


class ValkeyLedger:
    """The ``Ledger`` of all gateways that name one server. ``password`` is sent to it and kept nowhere else.

    ``tls``: whose certificates are believed, where the address has TLS; without it those that the system believes.
    ``open``: requests under way in this process, by plane and client. ``ready``: whether the server answered last time.
    """

    def __init__(
        self,
        address: LedgerAddress,
        password: str | None = None,
        tls: SSLContext | None = None,
        *,
        scripts: Scripts | None = None,
        answer_s: float = ANSWER_S,
        lease_s: float = LEASE_S,
    ) -> None:
        self._scripts = scripts or Scripts.on()
        self._answer_s = answer_s
        self._lease_s = lease_s
        self._holds = round(lease_s * 1_000_000)
        self._server: Any = Valkey(connection_pool=_pool(address, password, tls))  # its commands have no types
        self.open: Counter[tuple[str, str]] = Counter()
        self._held: dict[Holder, set[str]] = {}
        self._unsettled: deque[tuple[Lease, int]] = deque(maxlen=UNSETTLED_AT_MOST)
        self.ready = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Renew what is held within this block; behind it, settle what is left and close the connections."""
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._keep())
                try:
                    yield
                finally:
                    renewing.cancel()
            await self.keep()
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._server.connection_pool.disconnect()

    async def count(self, holder: Holder, limit: Limit) -> None:
        """Count a request that is refused already."""
        await self._enter(holder, limit, "")

    async def enter(self, holder: Holder, limit: Limit) -> Lease | Refused:
        """Let a request in, or not: one question."""
        lease_id = uuid4().hex
        try:
            verdict, wait, counted, reset, now, *tokens = await self._enter(holder, limit, lease_id)
        except (Unavailable, asyncio.CancelledError):
            if len(self._unsettled) < UNDECIDED_AT_MOST:
                self._unsettled.append((Lease(holder, limit, 0, f":{lease_id}"), 0))
            raise
        left = max(0, limit.requests_per_minute - counted)
        if verdict:
            requests = Quota(limit.requests_per_minute, left, reset)
            used, reset, spent = tokens
            return Refused(_REFUSALS[verdict], wait, requests, *_quotas(limit, used, reset, spent, now % DAY_US))
        lease_id = f"{now}:{lease_id}"
        self._held.setdefault(holder, set()).add(lease_id)
        self.open[holder[:2]] += 1
        return Lease(holder, limit, left, lease_id)

    async def reserve(self, lease: Lease, tokens: int, model: Share | None = None) -> Refused | None:
        """Count the most that a call can use: one question, whether its model is limited or not."""
        limit = lease.limit
        requests, _, *keys = _keys(lease.holder)
        keys.insert(0, requests)
        numbers: tuple[int, ...] = (tokens, *_tokens(limit), limit.requests_per_minute)
        if model is not None:
            holder, shared = model
            keys += _keys(holder)
            numbers += (shared.requests_per_minute, shared.concurrent_requests, *_tokens(shared), self._holds)
        try:
            answer = await self._ask(self._scripts.reserve, tuple(keys), (lease.id, *numbers))
        except (Unavailable, asyncio.CancelledError):
            lease.on_day = _NO_DAY
            lease.shared = Lease(*model, 0, lease.id) if model is not None else None
            raise
        verdict, wait, used, reset, spent, day, into_day = answer
        minute, today = _quotas(limit, used, reset, spent, into_day)
        if verdict:
            reason = _REFUSALS[verdict % _OF_MODEL]
            return Refused(reason, wait, lease.requests, minute, today, shared=verdict > _OF_MODEL)
        lease.reserved, lease.on_day = tokens, day
        if minute is not None:
            lease.minute_left = minute.left
        if today is not None:
            lease.day_left, lease.day_reset_us = today.left, today.reset_us
        if model is not None:
            lease.shared = Lease(*model, 0, lease.id)
            self._held.setdefault(model[0], set()).add(lease.id)
        return None

    async def settle(self, lease: Lease, tokens: int) -> None:
        """Free the place and count what was used: one question, asked again later if nobody answers."""
        if lease.settled:
            return
        lease.settled = True
        self.open[lease.holder[:2]] -= 1
        for one in (lease, lease.shared):
            held = self._held.get(one.holder) if one is not None else None
            if held is not None and one is not None:
                held.discard(lease.id)
                if not held:
                    del self._held[one.holder]
        if lease.on_day == _NO_DAY:  # what was asked last may come to pass behind this: once more, then
            self._unsettled.append((lease, tokens))
        try:
            await self._settle(lease, tokens)
        except (Unavailable, asyncio.CancelledError) as error:
            self._unsettled.append((lease, tokens))
            if isinstance(error, asyncio.CancelledError):
                raise

    async def ping(self) -> None:
        """Ask whether the server is there and can count. Raises ``Unavailable``, with what went wrong."""
        await self._ask(self._scripts.ping, _PING_KEY, ())

    async def answers(self) -> bool:
        """Ask whether the server is there, for those who ask whether this process can do its work."""
        with suppress(Unavailable):
            await self.ping()
        return self.ready

    async def keep(self) -> None:
        """Renew what is held, and settle what could not be settled when it was due."""
        with suppress(Unavailable):
            await self._settle_left()
            for holder, held in list(self._held.items()):
                _, leases, _, _ = _keys(holder)
                await self._ask(self._scripts.renew, (leases,), (self._holds, *held))

    async def _settle_left(self) -> None:
        """Settle what could not be settled when it was due. Raises ``Unavailable``; nothing is lost by that."""
        while self._unsettled:
            left = self._unsettled.popleft()
            try:
                await self._settle(*left)
            except (Unavailable, asyncio.CancelledError):
                self._unsettled.appendleft(left)
                raise

    async def _keep(self) -> None:
        every = self._lease_s / 3
        step = min(every, SETTLE_AGAIN_S)
        waited = 0.0
        while True:
            await asyncio.sleep(step)
            waited += step
            if waited >= every:
                waited = 0.0
                await self.keep()
            elif self._unsettled:
                with suppress(Unavailable):
                    await self._settle_left()

    async def _enter(self, holder: Holder, limit: Limit, lease_id: str) -> list[int]:
        arguments = (limit.requests_per_minute, limit.concurrent_requests, lease_id, self._holds)
        return await self._ask(self._scripts.enter, _keys(holder), arguments)

    async def _settle(self, lease: Lease, tokens: int) -> None:
        keys: tuple[str, ...] = _keys(lease.holder)[1:3]
        if lease.shared is not None:
            keys += _keys(lease.shared.holder)[1:3]
        await self._ask(self._scripts.settle, keys, (lease.id, tokens, lease.reserved, lease.on_day))

    async def _ask(self, script: Script, keys: tuple[str, ...], arguments: tuple[int | str, ...]) -> list[int]:
        """Run a script; its text is sent only to a server that has not seen it. Raises ``Unavailable``."""
        rest = (len(keys), *keys, *arguments)
        try:
            answer = await self._command("EVALSHA", script.digest, *rest)
        except NoScriptError:
            answer = await self._command("EVAL", script.text, *rest)
        return cast("list[int]", answer)

    async def _command(self, *words: int | str) -> Any:  # noqa: ANN401  (any answer of the server's)
        """Send one command. Raises ``Unavailable`` and, for a script that the server has not seen, its error."""
        await in_task()
        try:
            async with asyncio.timeout(self._answer_s):
                answer = await self._server.execute_command(*words)
        except NoScriptError:
            raise
        except (ValkeyError, OSError, TimeoutError) as error:
            if self.ready:
                _log.error("the ledger does not answer: nobody is let in", error=type(error).__name__)
            self.ready = False
            raise Unavailable(Reason.LEDGER_UNAVAILABLE, type(error).__name__, retry_after=1) from None
        if not self.ready:
            _log.info("the ledger answers again")
        self.ready = True
        return answer


@lru_cache(maxsize=4096)
def _keys(holder: Holder) -> tuple[str, str, str, str]:
    """Name the keys of a holder: requests, leases, sums and calls, those of a plane within one slot of a cluster."""
    tag, digest = _digest(holder.plane)[:16], _digest(json.dumps(holder))
    return (
        f"vgw:{{{tag}}}:{digest}:requests",
        f"vgw:{{{tag}}}:{digest}:leases",
        f"vgw:{{{tag}}}:{digest}:sums",
        f"vgw:{{{tag}}}:{digest}:calls",
    )


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]


def _quotas(limit: Limit, used: int, reset: int, spent: int, into_day: int) -> tuple[Quota | None, Quota | None]:
    """Say what is left of the tokens of the minute and of the day, where they are limited."""
    per_minute, per_day = limit.tokens_per_minute, limit.tokens_per_day
    return (
        None if per_minute is None else Quota(per_minute, max(0, per_minute - used), reset),
        None if per_day is None else Quota(per_day, max(0, per_day - spent), DAY_US - into_day),
    )


def _tokens(limit: Limit) -> tuple[int, int]:
    """Give the most tokens of a minute and a day, as the script takes them."""
    per_minute, per_day = limit.tokens_per_minute, limit.tokens_per_day
    return _NO_LIMIT if per_minute is None else per_minute, _NO_LIMIT if per_day is None else per_day


class _Trusting(SSLConnection):
    """A connection that believes whom it is told to; the library would believe the system's authorities besides."""

    def __init__(self, tls: SSLContext | None = None, **rest: Any) -> None:  # noqa: ANN401  (the library's own)
        super().__init__(**rest)
        if tls is not None:
            self.ssl_context.context = tls


def _pool(address: LedgerAddress, password: str | None, tls: SSLContext | None) -> BlockingConnectionPool:
    """Make the pool; a certificate must be good and for this very host, which the library leaves out by default."""
    where = address.where
    shared: dict[str, Any] = {
        "max_connections": CONNECTIONS,
        "timeout": None,
        "socket_timeout": None,  # a wait_for, which on 3.11 can swallow a cancellation; `_command` has its own deadline
        "db": address.database,
        "username": address.name,
        "password": password,
        "client_name": "vllm-gateway",
    }
    if isinstance(where, Unix):
        return BlockingConnectionPool(connection_class=UnixDomainSocketConnection, path=where.path, **shared)
    if address.tls:
        return BlockingConnectionPool(
            connection_class=_Trusting, host=where.host, port=where.port, ssl_check_hostname=True, tls=tls, **shared
        )
    return BlockingConnectionPool(connection_class=Connection, host=where.host, port=where.port, **shared)
