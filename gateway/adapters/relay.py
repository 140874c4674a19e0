"""The relay: which replica gets a request, and which once more where no byte of it can have run.

Enters: an ``UpstreamRequest`` and the ``Downstream`` that waits for the answer. Leaves: an ``Exchange`` on a connection
to the engine, and the ``Delivery`` that comes of it. What became of it is told to the replica.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from gateway.adapters.exchange import Exchange
from gateway.adapters.upload import send
from gateway.engine.signal import signal_of
from gateway.ports import Delivery, Ending
from gateway.reasons import Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from gateway.adapters.downstream import Downstream
    from gateway.adapters.engine import Engine, EngineReplica
    from gateway.adapters.metrics import Metrics
    from gateway.engine.replica import Ticket
    from gateway.ports import UpstreamRequest


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
        tried: list[EngineReplica] = []
        while True:
            replica = engine.choose(request.mark, request.model, tried)
            ticket = replica.send(now())
            reason, detail, status = None, "", None
            try:
                delivery = await self._send(request, inbound, replica, ticket)
                reason, detail, status = delivery.reason, delivery.detail, delivery.engine_status
            except Unavailable as failure:
                reason, detail = failure.reason, failure.detail
                tried.append(replica)
                if ticket.begun or not engine.another(tried):
                    raise
            else:
                return delivery
            finally:
                replica.end(ticket, signal_of(status, reason, detail), detail, now())

    async def _send(
        self, request: UpstreamRequest, inbound: Downstream, replica: EngineReplica, ticket: Ticket
    ) -> Delivery:
        """Try on a pooled connection, and once more on a fresh one if the engine had closed it in the meantime."""
        pool = replica.client.pool
        connection = pool.reuse()
        begun = ticket.since
        while True:
            if connection is None:
                connection = await pool.connect()
                begun = inbound.edge.loop.time()
            if inbound.disconnected:
                pool.give_back(connection)
                return Delivery(Ending.CLIENT_LEFT, sent=False)
            ticket.begun = True
            exchange = Exchange(request, inbound, replica, ticket, begun, self._silence_s)
            exchange.begin(connection)
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
