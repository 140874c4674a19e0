from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.adapters.engine_queue import EngineQueue, QueuedDispatcher
from gateway.adapters.metrics import Metrics
from gateway.dialects.registry import DIALECTS
from gateway.limits.waiting_room import RANKS
from gateway.policy.model import Deadlines
from gateway.ports import Delivery, Ending, UpstreamRequest
from gateway.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.adapters.downstream import Exchange


class Client:
    """A connection of a client, as far as a queue looks at it."""

    def __init__(self, name: str, rank: str = "normal", engine: str = "main") -> None:
        self.name = name
        self.exchange: Exchange | None = None
        self.disconnected = False
        self.request = UpstreamRequest(
            "0" * 32, "public", engine, "POST", "/", b"", False, DIALECTS["openai-chat"], Deadlines(), [],
            rank=RANKS[rank],
        )  # fmt: skip

    def leave(self) -> None:
        """Go away, as ``Downstream.lost`` tells it."""
        self.disconnected = True
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_ready()
            exchange.client_left()


class Engine:
    """A dispatcher that ends each request when a test says so."""

    def __init__(self) -> None:
        self.inside: dict[str, asyncio.Future[Delivery]] = {}
        self.order: list[str] = []

    def chooses(self, engine: str) -> bool:
        """Have one replica."""
        return False

    async def forward(self, request: UpstreamRequest, inbound: Client) -> Delivery:
        self.order.append(inbound.name)
        self.inside[inbound.name] = asyncio.get_running_loop().create_future()
        try:
            return await self.inside[inbound.name]
        finally:
            del self.inside[inbound.name]


class Queue:
    """A queue before an engine, and those who came to it."""

    def __init__(self, in_flight: int = 1, waiting: int = 2, wait_s: float = 60.0) -> None:
        self.engine = Engine()
        self.metrics = Metrics()
        self.queue = EngineQueue(in_flight, waiting, wait_s)
        self.dispatcher = QueuedDispatcher(cast("Any", self.engine), {"main": self.queue}, self.metrics)
        self.clients: dict[str, Client] = {}
        self.tasks: dict[str, asyncio.Task[Delivery]] = {}

    async def come(self, group: asyncio.TaskGroup, *clients: Client) -> None:
        for client in clients:
            self.clients[client.name] = client
            forward = self.dispatcher.forward(client.request, cast("Any", client))
            self.tasks[client.name] = group.create_task(forward)
            await self.settle()

    async def end(self, name: str) -> None:
        """Let the engine answer."""
        self.engine.inside[name].set_result(Delivery(Ending.DELIVERED))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    @property
    def waiting(self) -> int:
        return self.metrics._waiting["main"]


async def refusal(task: asyncio.Task[Delivery]) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        await task
    return caught.value


Story = "Callable[[Queue, asyncio.TaskGroup], Awaitable[None]]"


async def played(queue: Queue, story: Callable[[asyncio.TaskGroup], Awaitable[None]]) -> None:
    """Play a story, let everybody out and look whether all is free again."""
    async with asyncio.TaskGroup() as group:
        await story(group)
        while queue.engine.inside:
            await queue.end(next(iter(queue.engine.inside)))
    assert queue.queue.room.busy == 0
    assert len(queue.queue.room) == 0
    assert queue.waiting == 0


async def test_an_engine_never_has_more_at_one_time_and_each_gets_its_turn() -> None:
    queue = Queue(in_flight=2, waiting=3)

    async def story(group: asyncio.TaskGroup) -> None:
        await queue.come(group, *map(Client, "abcde"))
        assert (set(queue.engine.inside), queue.waiting) == ({"a", "b"}, 3)
        await queue.end("b")
        assert set(queue.engine.inside) == {"a", "c"}

    await played(queue, story)
    assert queue.engine.order == list("abcde")
    assert all(task.result().ending is Ending.DELIVERED for task in queue.tasks.values())


async def test_the_urgent_go_first() -> None:
    queue = Queue(waiting=3)

    async def story(group: asyncio.TaskGroup) -> None:
        await queue.come(group, Client("a"), Client("l", "low"), Client("n"), Client("h", "high"))

    await played(queue, story)
    assert queue.engine.order == ["a", "h", "n", "l"]


async def test_who_finds_no_seat_is_sent_away_at_once_and_told_when_to_come_back() -> None:
    queue = Queue(waiting=0)
    async with asyncio.TaskGroup() as group:
        await queue.come(group, Client("a"))
        late = Client("b")
        with pytest.raises(Unavailable) as caught:
            await queue.dispatcher.forward(late.request, cast("Any", late))
        assert (caught.value.reason, caught.value.retry_after) == (Reason.ENGINE_OVERLOADED, 1)
        await queue.end("a")
    assert queue.queue.room.busy == 0


async def test_who_loses_a_seat_to_a_more_urgent_one_is_sent_away() -> None:
    queue = Queue(waiting=1)
    low = Client("low", "low")
    sent_away = asyncio.Event()

    async def waits() -> None:
        with pytest.raises(Unavailable):
            await queue.dispatcher.forward(low.request, cast("Any", low))
        sent_away.set()

    async def story(group: asyncio.TaskGroup) -> None:
        await queue.come(group, Client("a"))
        group.create_task(waits())
        await queue.settle()
        await queue.come(group, Client("h", "high"))
        await sent_away.wait()

    await played(queue, story)
    assert queue.engine.order == ["a", "h"]


async def test_who_waits_too_long_is_sent_away_and_leaves_no_seat_taken() -> None:
    queue = Queue(wait_s=0.01)

    async def story(group: asyncio.TaskGroup) -> None:
        await queue.come(group, Client("a"))
        late = Client("b")
        with pytest.raises(Unavailable):
            await queue.dispatcher.forward(late.request, cast("Any", late))
        assert late.exchange is None

    await played(queue, story)


async def test_who_leaves_while_waiting_frees_the_seat_and_costs_nothing() -> None:
    queue = Queue(waiting=1)

    async def story(group: asyncio.TaskGroup) -> None:
        await queue.come(group, Client("a"), Client("b"))
        queue.clients["b"].leave()
        await queue.settle()
        delivery = queue.tasks["b"].result()
        assert (delivery.ending, delivery.sent) == (Ending.CLIENT_LEFT, False)
        await queue.come(group, Client("c"))
        assert queue.waiting == 1

    await played(queue, story)
    assert queue.engine.order == ["a", "c"]


async def test_who_has_left_before_takes_no_place() -> None:
    queue = Queue()

    async def story(group: asyncio.TaskGroup) -> None:
        for _ in range(2):  # to a free place, and to a seat
            client = Client("gone")
            client.leave()
            delivery = await queue.dispatcher.forward(client.request, cast("Any", client))
            assert (delivery.ending, delivery.sent) == (Ending.CLIENT_LEFT, False)
            await queue.come(group, Client("a"))

    await played(queue, story)
    assert set(queue.engine.order) == {"a"}


@pytest.mark.parametrize("way", ["leaves", "is cancelled"])
async def test_a_place_that_comes_to_somebody_who_goes_at_that_moment_goes_to_the_next(way: str) -> None:
    queue = Queue()

    async def story(group: asyncio.TaskGroup) -> None:
        await queue.come(group, *map(Client, "abc"))
        queue.engine.inside["a"].set_result(Delivery(Ending.DELIVERED))
        await asyncio.sleep(0)  # a's end is known to the engine, and not yet to the queue
        if way == "leaves":
            queue.clients["b"].leave()
        else:
            queue.tasks["b"].cancel()
        await queue.settle()
        assert set(queue.engine.inside) == {"c"}

    await played(queue, story)
    assert queue.engine.order == ["a", "c"]


async def test_a_turn_that_comes_at_the_last_moment_is_taken() -> None:
    queue = EngineQueue(1, 1, 0.0)
    assert queue.enter(1) is None
    waiter = queue.enter(1)
    assert waiter is not None
    queue.leave()
    assert await queue.turn(waiter)
    queue.leave()
    assert queue.room.busy == 0


async def test_a_failure_of_the_engine_frees_the_place() -> None:
    queue = Queue()

    async def story(group: asyncio.TaskGroup) -> None:
        await queue.come(group, *map(Client, "ab"))
        queue.engine.inside["a"].set_exception(Unavailable(Reason.ENGINE_UNAVAILABLE))
        with pytest.raises(Unavailable):
            await asyncio.shield(queue.tasks["a"])

    with pytest.RaisesGroup(Unavailable):
        await played(queue, story)
    assert queue.queue.room.busy == 0


async def test_an_engine_without_a_bound_gets_everything() -> None:
    queue = Queue()
    async with asyncio.TaskGroup() as group:
        await queue.come(group, *(Client(name, engine="other") for name in "abcdef"))
        assert len(queue.engine.inside) == 6
        for name in "abcdef":
            await queue.end(name)
    assert queue.queue.room.busy == 0
