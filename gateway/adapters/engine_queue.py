"""The bound on what an engine does at one time: who comes when it is full waits a moment for a turn, or is sent away.

Enters: judged requests, with the client's connection. Leaves: the same requests to the relay, never more at one time
than the bound; ``Unavailable(ENGINE_OVERLOADED)`` for those who find no seat or wait too long; and a free seat at once
when a client leaves. A long line in vLLM would be served in its own order, by nobody's priority, and to nobody's end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from gateway.adapters.walk import in_task
from gateway.limits.waiting_room import WaitingRoom
from gateway.ports import Delivery, Ending
from gateway.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from gateway.adapters.downstream import Downstream
    from gateway.adapters.metrics import Metrics
    from gateway.ports import Dispatcher, UpstreamRequest

RETRY_AFTER_S = 1
"""Seconds after which those who were sent away may try again: a guess, since nobody knows when an answer ends."""


class Waiter:
    """One who waits, as the client's connection sees it.

    ``turn`` becomes true for a place, and false for none. ``placed``: the place is this one's, taken up or not.
    """

    __slots__ = ("placed", "turn")

    def __init__(self) -> None:
        self.turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.placed = False

    def client_left(self) -> None:
        """Learn that the client is gone."""
        self.end(turn=False)

    def client_ready(self) -> None:
        """Learn that the client takes bytes again: none are being written."""

    def end(self, *, turn: bool) -> None:
        """Tell that the waiting is over."""
        if not self.turn.done():
            self.turn.set_result(turn)


class EngineQueue:
    """The places of one engine: ``in_flight`` of them, ``waiting`` seats, and ``wait_s`` seconds on a seat."""

    def __init__(self, in_flight: int, waiting: int, wait_s: float) -> None:
        self.room: WaitingRoom[Waiter] = WaitingRoom(in_flight, waiting)
        self._wait_s = wait_s

    def enter(self, rank: int) -> Waiter | None:
        """Take a place (``None``), or a seat on which to wait. Raises ``Unavailable(ENGINE_OVERLOADED)``."""
        waiter = Waiter()
        entry = self.room.enter(rank, waiter)
        if entry.displaced is not None:
            entry.displaced.end(turn=False)
        if entry.inside:
            return None
        if not entry.waits:
            raise overloaded()
        return waiter

    async def turn(self, waiter: Waiter) -> bool:
        """Wait for a place; tell whether it came. Without one, or when cancelled, nothing is kept from anybody."""
        came = False
        try:
            await in_task()
            async with asyncio.timeout(self._wait_s):
                came = await waiter.turn
        except TimeoutError:
            came = waiter.placed  # at the very last moment
        finally:
            if not came and waiter.placed:
                self.leave()
            elif not came:
                self.room.give_up(waiter)
        return came

    def leave(self) -> None:
        """Give a place to the next."""
        following = self.room.leave()
        if following is not None:
            following.placed = True
            following.end(turn=True)


class QueuedDispatcher:
    """The enforcement's ``Dispatcher``: another one, behind the queues of the engines that have one."""

    def __init__(self, dispatcher: Dispatcher[Downstream], queues: Mapping[str, EngineQueue], metrics: Metrics) -> None:
        self._dispatcher = dispatcher
        self._queues = queues
        self._metrics = metrics

    def chooses(self, engine: str) -> bool:
        """Tell what the other one tells."""
        return self._dispatcher.chooses(engine)

    def forward(self, request: UpstreamRequest, inbound: Downstream) -> Coroutine[Any, Any, Delivery]:
        """Relay one call when it is its turn. Raises ``Unavailable`` as the relay does, and ``ENGINE_OVERLOADED``."""
        queue = self._queues.get(request.engine)
        if queue is None:
            return self._dispatcher.forward(request, inbound)
        return self._forward_in_turn(queue, request, inbound)

    async def _forward_in_turn(self, queue: EngineQueue, request: UpstreamRequest, inbound: Downstream) -> Delivery:
        waiter = queue.enter(request.rank)
        came = waiter is None or await self._turn(queue, waiter, request.engine, inbound)
        try:
            if inbound.disconnected:
                return Delivery(Ending.CLIENT_LEFT, sent=False)
            if not came:
                raise overloaded()
            return await self._dispatcher.forward(request, inbound)
        finally:
            if came:
                queue.leave()

    async def _turn(self, queue: EngineQueue, waiter: Waiter, engine: str, inbound: Downstream) -> bool:
        inbound.exchange = waiter
        if inbound.disconnected:  # and nobody will say so again
            waiter.client_left()
        self._metrics.began_to_wait(engine)
        try:
            return await queue.turn(waiter)
        finally:
            self._metrics.waits_no_longer(engine)
            if inbound.exchange is waiter:
                inbound.exchange = None


def overloaded() -> Unavailable:
    """Give the refusal for those who got no place."""
    return Unavailable(Reason.ENGINE_OVERLOADED, "the gateway keeps no longer line", retry_after=RETRY_AFTER_S)
