from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gateway.adapters.channel import Channel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

Facts = dict[str, Any]


async def echo(what: str, facts: Facts) -> Facts:
    """Answer with the question; a slow one after the next."""
    if what == "slow":
        await asyncio.sleep(0.05)
    return {"asked": what, **facts}


@asynccontextmanager
async def line() -> AsyncIterator[tuple[Channel, Channel]]:
    """Give both ends of a line."""
    ends = socket.socketpair()
    one, other = [await Channel.of(end, echo) for end in ends]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(end.run()) for end in (one, other)]
        yield one, other
        for task in tasks:
            task.cancel()


async def test_either_end_may_ask_and_gets_the_answer_to_its_own_question() -> None:
    async with line() as (one, other):
        slow, quick, back = await asyncio.gather(
            one.ask("slow", number=1), one.ask("quick", number=2), other.ask("back", text="é" * 100_000)
        )
    assert slow == {"asked": "slow", "number": 1}
    assert quick == {"asked": "quick", "number": 2}
    assert back == {"asked": "back", "text": "é" * 100_000}


async def test_whoever_waits_for_an_end_that_goes_learns_it_and_so_does_who_asks_later() -> None:
    async with line() as (one, other):
        asked = asyncio.ensure_future(one.ask("slow"))
        await asyncio.sleep(0.01)
        other.close()
        with pytest.raises(ConnectionError):
            await asked
        with pytest.raises(ConnectionError):
            await one.ask("quick")


async def test_an_answer_that_nobody_waits_for_any_more_is_dropped() -> None:
    async with line() as (one, _):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await one.ask("slow")
        await asyncio.sleep(0.1)
        assert await one.ask("quick") == {"asked": "quick"}
