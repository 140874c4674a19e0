"""What an engine serves is asked of it, once for all who want to know."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.catalogue import EngineCatalogue
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.addresses import engine_address
from gateway.dialects.openai_models import ServedModel
from gateway.reasons import Reason, Unavailable
from tests.adapters.relaying import playing, whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.adapters.relaying import Line, PlayedEngine

pytestmark = pytest.mark.usefixtures("nothing_left")

LIST = json.dumps({"data": [{"id": "local", "created": 17, "max_model_len": 8, "root": "/models/secret"}]}).encode()


class Said:
    """What the engine says next."""

    def __init__(self) -> None:
        self.answer = whole(LIST)
        self.targets: list[bytes] = []

    async def __call__(self, line: Line) -> None:
        self.targets.append(line.head.split(b" ")[1])
        await asyncio.sleep(0.05)
        await line.send(self.answer)


@asynccontextmanager
async def cataloguing(said: Said) -> AsyncIterator[tuple[EngineCatalogue, PlayedEngine]]:
    async with playing(said) as (engine, url):
        pool = EnginePool(engine_address(url), idle=1, keep_alive_s=9, connect_s=1)
        yield EngineCatalogue({"main": EngineClient(pool, None)}), engine


async def test_the_models_are_those_that_the_engine_lists() -> None:
    said = Said()
    async with cataloguing(said) as (catalogue, _):
        assert await catalogue.served("main") == {"local": ServedModel(17, 8)}
    assert said.targets == [b"/v1/models"]


async def test_an_answer_is_good_for_a_while() -> None:
    async with cataloguing(Said()) as (catalogue, engine):
        for _ in range(3):
            await catalogue.served("main")
        assert engine.asked == 1


async def test_many_who_ask_at_once_share_one_answer() -> None:
    async with cataloguing(Said()) as (catalogue, engine), asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(catalogue.served("main")) for _ in range(20)]
        assert [await one for one in asking] == [{"local": ServedModel(17, 8)}] * 20
        assert engine.asked == 1


async def test_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    async with cataloguing(Said()) as (catalogue, engine), asyncio.TaskGroup() as tasks:
        first, second = (tasks.create_task(catalogue.served("main")) for _ in range(2))
        await asyncio.sleep(0.02)
        first.cancel()
        assert await second == {"local": ServedModel(17, 8)}
        assert engine.asked == 1


@pytest.mark.parametrize(
    "answer, reason, detail",
    [
        (whole(b"{}", status="401 Unauthorized"), Reason.ENGINE_REFUSED_GATEWAY, ""),
        (whole(b"{}", status="403 Forbidden"), Reason.ENGINE_REFUSED_GATEWAY, ""),
        (whole(b"{}", status="500 X"), Reason.ENGINE_ERROR, "status 500"),
        (whole(b"<html>"), Reason.ENGINE_MALFORMED, "the engine's list of models is not one"),
        (b"garbage\r\n\r\n", Reason.ENGINE_MALFORMED, "head"),
    ],
)
async def test_a_failure_is_told_and_not_kept(answer: bytes, reason: Reason, detail: str) -> None:
    said = Said()
    async with cataloguing(said) as (catalogue, _):
        said.answer = answer
        with pytest.raises(Unavailable) as unavailable:
            await catalogue.served("main")
        assert (unavailable.value.reason, unavailable.value.detail) == (reason, detail)
        said.answer = whole(LIST)
        assert "local" in await catalogue.served("main")
