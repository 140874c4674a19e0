"""Coroutines that are stepped by hand, and what moves them into a task."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from gateway.adapters.walk import Promise, Walk, in_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

pytestmark = pytest.mark.usefixtures("nothing_left")


class Path:
    """One walk and what became of it; it begins in a turn of the loop that is no task's."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.under_way: set[Walk] = set()
        self.ends = 0
        self.walk = Walk(coroutine, asyncio.get_running_loop(), self.under_way, self._end)
        asyncio.get_running_loop().call_soon(self.walk.step)

    def _end(self) -> None:
        self.ends += 1

    async def end(self) -> None:
        """Wait for the end."""
        async with asyncio.timeout(5):
            while self.under_way:  # noqa: ASYNC110  (the set of a server has no event)
                await asyncio.sleep(0)
        assert self.ends == 1


@pytest.fixture
async def reported() -> AsyncIterator[list[dict[str, Any]]]:
    """Give what the loop was told of errors."""
    loop, told = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, said: told.append(said))
    yield told
    loop.set_exception_handler(None)


async def test_who_awaits_promises_alone_gets_no_task_and_goes_on_at_once() -> None:
    promise, seen = Promise[int](), list[object]()

    async def steps() -> None:
        seen.append(asyncio.current_task())
        seen.append(await promise)
        seen.append(await promise)
        seen.append(asyncio.current_task())

    path = Path(steps())
    await asyncio.sleep(0)
    assert seen == [None]
    asyncio.get_running_loop().call_soon(promise.keep, 7)
    await path.end()
    assert seen == [None, 7, 7, None]


async def test_a_promise_is_kept_once() -> None:
    promise = Promise[int]()
    promise.keep(1)
    promise.keep(2)
    assert promise.kept
    assert await promise == 1


async def test_a_task_may_await_a_promise_too() -> None:
    promise = Promise[str]()
    asyncio.get_running_loop().call_soon(promise.keep, "here")
    assert await promise == "here"


async def test_a_promise_may_be_kept_behind_a_task_that_gave_up() -> None:
    promise = Promise[str]()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_await(promise))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(promise.keep, "late")
        waiting.cancel()
    assert waiting.cancelled()
    assert promise.kept


async def _await(promise: Promise[str]) -> None:
    await promise


# A thread that ends at once need not be awaited: since Python 3.14 its value is there already.
@pytest.mark.parametrize("wait", [in_task, lambda: asyncio.sleep(0.001), lambda: asyncio.to_thread(time.sleep, 0.01)])
async def test_whatever_else_is_awaited_moves_the_walk_into_a_task(wait: Callable[[], Awaitable[object]]) -> None:
    promise, seen = Promise[int](), list[object]()

    async def steps() -> None:
        await wait()
        task = asyncio.current_task()
        assert task is not None
        await in_task()
        async with asyncio.timeout(5):
            seen.append(await promise)
        seen.append(asyncio.current_task() is task)

    path = Path(steps())
    asyncio.get_running_loop().call_later(0.02, promise.keep, 7)
    await path.end()
    assert seen == [7, True]


async def test_an_error_that_is_thrown_into_the_task_reaches_the_walk() -> None:
    seen: list[str] = []

    async def steps() -> None:
        await in_task()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.get_running_loop().create_future()
        seen.append("late")
        await asyncio.sleep(0)
        seen.append("and on")

    await Path(steps()).end()
    assert seen == ["late", "and on"]


async def test_a_walk_may_begin_another() -> None:
    first, second, seen = Promise[int](), Promise[int](), list[object]()

    async def inner() -> None:
        seen.append(await second)

    async def outer() -> None:
        Walk(inner(), asyncio.get_running_loop(), set(), lambda: None).step()
        seen.append(await first)

    path = Path(outer())
    loop = asyncio.get_running_loop()
    loop.call_soon(first.keep, 1)
    loop.call_soon(second.keep, 2)
    await path.end()
    await asyncio.sleep(0)
    assert seen == [1, 2]


@pytest.mark.parametrize("moved", [False, True])
async def test_a_walk_that_is_cancelled_can_clean_up_and_ends(*, moved: bool) -> None:
    promise, seen = Promise[int](), list[str]()

    async def steps() -> None:
        if moved:
            await in_task()
        try:
            await promise
        finally:
            await asyncio.sleep(0.001)
            seen.append("cleaned up")

    path = Path(steps())
    await asyncio.sleep(0.01)
    path.walk.cancel("the gateway stops")
    assert path.under_way, "the set is being walked through by whoever cancels"
    await path.end()
    assert seen == ["cleaned up"]
    promise.keep(1)
    path.walk.cancel()
    await asyncio.sleep(0)
    assert seen == ["cleaned up"]


async def test_a_walk_that_moves_into_a_task_while_it_is_cancelled_can_clean_up_too() -> None:
    promise, seen = Promise[int](), list[str]()

    async def steps() -> None:
        await promise
        try:
            await in_task()
        finally:
            await asyncio.sleep(0.001)
            seen.append("cleaned up")

    path = Path(steps())
    await asyncio.sleep(0)
    path.walk.cancel()
    promise.keep(1)
    await path.end()
    assert seen == ["cleaned up"]


async def test_a_walk_may_outlive_its_cancelling_by_awaiting_another_promise() -> None:
    first, second, seen = Promise[int](), Promise[int](), list[int]()

    async def steps() -> None:
        try:
            await first
        except asyncio.CancelledError:
            seen.append(await second)

    path = Path(steps())
    await asyncio.sleep(0)
    path.walk.cancel()
    await asyncio.sleep(0)
    first.keep(1)
    assert path.under_way
    second.keep(2)
    await path.end()
    assert seen == [2]


async def test_a_walk_that_is_cancelled_before_it_began_never_begins() -> None:
    seen: list[str] = []

    async def steps() -> None:
        seen.append("begun")

    walks, ends = set[Walk](), list[str]()
    walk = Walk(steps(), asyncio.get_running_loop(), walks, lambda: ends.append("end"))
    walk.cancel()
    await asyncio.sleep(0)
    walk.step()
    assert (seen, ends, walks) == ([], ["end"], set())


@pytest.mark.parametrize("moved", [False, True])
async def test_an_error_ends_the_walk_and_is_reported(*, moved: bool, reported: list[dict[str, Any]]) -> None:
    async def steps() -> None:
        if moved:
            await in_task()
        raise ValueError("a bug")

    await Path(steps()).end()
    (said,) = reported
    assert repr(said["exception"]) == "ValueError('a bug')"


async def test_what_ends_the_process_is_not_held_back() -> None:
    async def steps() -> None:
        raise SystemExit(3)

    walk = Walk(steps(), asyncio.get_running_loop(), set(), lambda: None)
    with pytest.raises(SystemExit):
        walk.step()


async def test_a_walk_is_freed_without_the_garbage_collector() -> None:
    promise, freed = Promise[int](), list[str]()

    async def steps() -> None:
        await promise

    gc.collect()
    gc.disable()
    try:
        path = Path(_watched(steps(), freed))
        await asyncio.sleep(0)
        promise.keep(1)
        await path.end()
        del path
        await asyncio.sleep(0)
        assert freed == ["walk"]
    finally:
        gc.enable()


class _Thing:
    """Lives as long as the frame that holds it."""


async def _watched(rest: Coroutine[Any, Any, None], freed: list[str]) -> None:
    thing = _Thing()
    weakref.finalize(thing, freed.append, "walk")
    await rest
