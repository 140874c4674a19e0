"""The relay: which replica gets a request, and which once more where no byte of it can have run.

Enters: an ``UpstreamRequest`` and the ``Downstream`` that waits for the answer. Leaves: an ``Exchange`` on a connection
to the engine, and the ``Delivery`` that comes of it. What became of it is told to the replica.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from gateway.adapters.engine import NOBODY
from gateway.adapters.exchange import Exchange
from gateway.adapters.upload import send
from gateway.engine.signal import Signal, signal_of
from gateway.ports import Delivery, Ending
from gateway.reasons import Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from gateway.adapters.downstream import Downstream
    from gateway.adapters.engine import Engine, EngineReplica
    from gateway.adapters.metrics import Metrics
    from gateway.engine.replica import Ticket
    from gateway.ports import UpstreamRequest


_DELIVERED, _GOOD, _NONE = Ending.DELIVERED, Signal.GOOD, Signal.NONE  # looked up once, as in exchange.py


class Relay:
    """Forwards judged requests to their engines (the enforcement's ``Dispatcher``).

    ``silence_s``: seconds of silence after which a stream gets a comment, since the tunnel's edge gives up at 100 s
    (Cloudflare error 524); 0 for never.
    """

    def __init__(self, engines: Mapping[str, Engine], metrics: Metrics, silence_s: float) -> None:
        self._engines = engines
        self._metrics = metrics
        self._silence_s = silence_s

    def chooses(self, engine: str) -> bool:
        """Tell whether an engine has several replicas."""
        return len(self._engines[engine].replicas) > 1

    def forward(self, request: UpstreamRequest, inbound: Downstream) -> Coroutine[Any, Any, Delivery]:
        """Send a request to its engine and the answer to the client.

        Raises ``Unavailable`` as ``Engine.choose`` and ``EnginePool.connect`` do.
        """
        return self._forward_stream(request, inbound) if request.stream else self._forward(request, inbound)

    async def _forward_stream(self, request: UpstreamRequest, inbound: Downstream) -> Delivery:
        self._metrics.stream_opened(request.plane, request.engine)
        try:
            return await self._forward(request, inbound)
        finally:
            self._metrics.stream_closed(request.plane, request.engine)

    async def _forward(self, request: UpstreamRequest, inbound: Downstream) -> Delivery:
        """Send it to one replica; to another only where the first has not had a byte of it (RFC 9110 §9.2.2)."""
        engine, now = self._engines[request.engine], inbound.edge.loop.time
        tried: tuple[EngineReplica, ...] = NOBODY
        while True:
            replica = engine.choose(request.mark, request.model, tried)
            ticket = replica.send(now())
            exchange, shown, detail = None, _NONE, ""
            try:
                exchange = self._at_once(request, inbound, replica, ticket)
                delivery = None if exchange is None else await exchange
                if delivery is None:
                    delivery = await self._send(request, inbound, replica, ticket, fresh=exchange is not None)
                if delivery.ending is _DELIVERED:
                    shown = _GOOD
                else:
                    detail = delivery.detail
                    shown = signal_of(delivery.engine_status, delivery.reason, detail)
            except Unavailable as failure:
                detail = failure.detail
                shown = signal_of(None, failure.reason, detail)
                tried = (*tried, replica)
                if ticket.begun or not engine.another(tried):
                    raise
            else:
                return delivery
            finally:
                if exchange is not None and not exchange.kept:
                    exchange.cancel()  # because this was
                replica.end(ticket, shown, detail, now())

    def _at_once(
        self, request: UpstreamRequest, inbound: Downstream, replica: EngineReplica, ticket: Ticket
    ) -> Exchange | None:
        """Send it on a pooled connection, as nearly always; ``None`` where there is none, or more to do."""
        if request.upload is not None or inbound.disconnected:
            return None
        connection = replica.client.pool.reuse()
        if connection is None:
            return None
        ticket.begun = True
        return Exchange(request, inbound, replica, ticket, connection, ticket.since, self._silence_s)

    async def _send(
        self, request: UpstreamRequest, inbound: Downstream, replica: EngineReplica, ticket: Ticket, *, fresh: bool
    ) -> Delivery:
        """Try on a pooled connection unless it must be a fresh one; on that where the engine had closed the other."""
        pool = replica.client.pool
        connection = None if fresh else pool.reuse()
        while True:
            if connection is None:
                connection = await pool.connect()
            if inbound.disconnected:
                pool.give_back(connection)
                return Delivery(Ending.CLIENT_LEFT, sent=False)
            ticket.begun = True
            begun = inbound.edge.loop.time()
            exchange = Exchange(request, inbound, replica, ticket, connection, begun, self._silence_s)
            try:
                if request.upload is not None:
                    await send(request.upload, connection)
                connection = None  # it is the exchange's now
                delivery = await exchange
            except (CancelledError, Unavailable):
                exchange.cancel()
                raise
            if delivery is not None:
                return delivery
