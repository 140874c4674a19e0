"""A replica takes requests behind a warm-up that it has answered, and is out as soon as it is gone or silent."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.adapters.engine import Engine, EngineReplica
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.engine_watch import EngineWatch, Times
from gateway.addresses import engine_address
from gateway.engine.circuit import EJECTED_S, IN_A_ROW, State
from gateway.engine.replica import SUSPECT_AFTER_S
from gateway.engine.signal import Signal
from gateway.policy.warm_up import WarmUp
from tests.adapters.relaying import playing, whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from tests.adapters.relaying import Line, Play

pytestmark = pytest.mark.usefixtures("nothing_left")

CHAT = "/v1/chat/completions"
FAST = Times(look=0.03, answer=0.3, warm_up=0.3, suspect=0.1, tick=0.005)


def warm_up(name: str = "m") -> WarmUp:
    alone, *together = [json.dumps({"model": name, "n": number}).encode() for number in range(5)]
    return WarmUp("main", name, "POST", CHAT, alone, tuple(together))


@pytest.fixture(autouse=True)
def told() -> Iterator[list[Any]]:
    """Catch what the operator is told, wherever it would go by now."""
    with structlog.testing.capture_logs() as lines:
        yield lines


class Played:
    """An engine: what it lists, what it answers to a chat, and what it was asked."""

    def __init__(self) -> None:
        self.models: tuple[str, ...] = ("m",)
        self.list = 200
        self.chat = 200
        self.silent = False
        self.chats: list[bytes] = []
        self.at_once = self.most_at_once = 0

    async def __call__(self, line: Line) -> None:
        assert b"(probe)" in line.head
        if line.head.startswith(b"GET /v1/models "):
            body = json.dumps({"data": [{"id": name} for name in self.models]}).encode()
            await line.send(whole(body, status=f"{self.list} X"))
            return
        self.chats.append(line.body)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            if self.silent:
                await line.gone()
            else:
                await asyncio.sleep(0.01)
                await line.send(whole(b"{}", status=f"{self.chat} X"))
        finally:
            self.at_once -= 1


@asynccontextmanager
async def watching(
    *plays: Play, warm_ups: Sequence[WarmUp] = (warm_up(),), times: Times = FAST
) -> AsyncIterator[EngineWatch]:
    """Watch an engine of which each replica is played."""
    async with _playing(plays) as urls:
        pools = [EnginePool(engine_address(url), idle=1, keep_alive_s=9, connect_s=1) for url in urls]
        watch = EngineWatch(Engine("main", [EngineClient(pool, None) for pool in pools], 0, time.monotonic), times)
        watch.warm_ups = warm_ups
        async with watch.running():
            yield watch


@asynccontextmanager
async def _playing(plays: Sequence[Play]) -> AsyncIterator[list[str]]:
    if not plays:
        yield []
        return
    async with playing(plays[0]) as (_, url), _playing(plays[1:]) as urls:
        yield [url, *urls]


async def until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        await asyncio.sleep(0.005)
    pytest.fail("waited in vain")


async def ready(watch: EngineWatch) -> EngineReplica:
    """Wait until the first replica takes requests."""
    await until(lambda: watch.engine.replicas[0].circuit.closed)
    return watch.engine.replicas[0]


async def test_a_replica_is_ready_behind_a_request_and_a_batch() -> None:
    played = Played()
    async with watching(played) as watch:
        replica = watch.engine.replicas[0]
        assert not watch.engine.ready
        await watch.tried()
        assert replica.circuit.closed
        assert [*replica.served] == [*replica.warm] == ["m"]
    assert played.chats[0] == warm_up().alone
    assert sorted(played.chats[1:]) == sorted(warm_up().together)
    assert played.most_at_once == len(warm_up().together)


async def test_an_engine_that_only_lists_its_models_is_not_ready() -> None:
    played = Played()
    played.silent = True
    async with watching(played) as watch:
        await watch.tried()
        replica = watch.engine.replicas[0]
        assert (replica.circuit.state, replica.circuit.why) == (State.OPEN, "engine-timeout (total)")


@pytest.mark.parametrize(
    "list_, chat, why",
    [
        (401, 200, "engine-refused-gateway"),
        (500, 200, "engine-error (status 500)"),
        (200, 403, "engine-refused-gateway"),
        (200, 500, "engine-error (status 500 to the warm-up)"),
        (200, 429, "engine-error (status 429 to the warm-up)"),
    ],
)
async def test_an_engine_that_fails_its_warm_up_is_not_ready_and_says_why(list_: int, chat: int, why: str) -> None:
    played = Played()
    played.list, played.chat = list_, chat
    async with watching(played) as watch:
        await watch.tried()
        assert watch.engine.replicas[0].circuit.why == why
        played.list = played.chat = 200
        await ready(watch)


async def test_a_list_that_is_none_is_no_list() -> None:
    async def play(line: Line) -> None:
        await line.send(whole(b"<html>"))

    async with watching(play) as watch:
        await watch.tried()
        assert watch.engine.replicas[0].circuit.why.startswith("engine-malformed")


async def test_an_engine_that_refuses_the_question_answers_all_the_same() -> None:
    """What the policy makes of the question may not please a model; its callers will find the words."""
    played = Played()
    played.chat = 400
    async with watching(played) as watch:
        await watch.tried()
        assert watch.engine.replicas[0].circuit.closed


async def test_a_model_that_is_not_served_is_not_asked_and_keeps_nobody_out() -> None:
    played = Played()
    async with watching(played, warm_ups=(warm_up("elsewhere"), warm_up())) as watch:
        await watch.tried()
        assert watch.engine.replicas[0].circuit.closed
    assert len(played.chats) == 5


async def test_one_replica_that_hangs_keeps_no_other_from_being_tried() -> None:
    hanging, good = Played(), Played()
    hanging.silent = True
    async with watching(hanging, good) as watch:
        await until(lambda: watch.engine.replicas[1].circuit.closed)
        assert watch.engine.replicas[0].circuit.state is State.HALF_OPEN
        await watch.tried()
        assert watch.engine.ready == [watch.engine.replicas[1]]


async def test_one_that_is_gone_is_out_and_warmed_up_again_when_it_is_back() -> None:
    played = Played()
    async with playing(played) as (_, url):
        port = int(url.rpartition(":")[2])
        pool = EnginePool(engine_address(url), idle=1, keep_alive_s=9, connect_s=1)
        watch = EngineWatch(Engine("main", [EngineClient(pool, None)], 0, time.monotonic), FAST)
        watch.warm_ups = (warm_up(),)
        async with watch.running():
            replica = await ready(watch)
            asked = len(played.chats)
            watch.engine.replicas[0].client = EngineClient(
                EnginePool(engine_address("http://127.0.0.1:1"), idle=1, keep_alive_s=9, connect_s=1), None
            )
            await until(lambda: not replica.circuit.closed)
            assert replica.circuit.why == "engine-unavailable (connection refused)"
            replica.client = EngineClient(pool, None)
            await ready(watch)
            assert len(played.chats) == 2 * asked
            assert pool.address.host_field.endswith(str(port))


async def test_a_key_that_no_longer_fits_takes_a_replica_out() -> None:
    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        played.list = 401
        await until(lambda: not replica.circuit.closed)
        assert replica.circuit.why == "engine-refused-gateway"


async def test_looks_that_fail_in_a_row_take_it_out_and_a_single_one_does_not() -> None:
    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        played.list = 500
        await until(lambda: replica.missed == 1)
        played.list = 200
        await until(lambda: not replica.missed)
        assert replica.circuit.closed
        played.list = 500
        await until(lambda: not replica.circuit.closed)
        assert replica.circuit.why == "engine-error (status 500)"


async def test_what_a_replica_serves_is_looked_at_again_and_a_new_model_is_warmed_up_beside_the_rest() -> None:
    played = Played()
    async with watching(played, warm_ups=(warm_up(), warm_up("n"))) as watch:
        replica = await ready(watch)
        played.models = ("m", "n")
        await until(lambda: "n" in replica.warm)
        assert replica.circuit.closed
        assert list(replica.served) == ["m", "n"]


async def test_a_new_model_that_does_not_answer_takes_the_replica_out() -> None:
    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        played.chat = 500
        watch.warm_ups = (warm_up(), warm_up("n"))
        played.models = ("m", "n")
        await until(lambda: not replica.circuit.closed)


async def test_a_silent_replica_that_reports_perfect_health_is_taken_out() -> None:
    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        played.silent = True
        replica.send(asyncio.get_running_loop().time() - SUSPECT_AFTER_S)
        await until(lambda: not replica.circuit.closed)
        assert replica.circuit.why == "requests hang: engine-timeout (total)"


async def test_a_suspect_that_answers_stays_in() -> None:
    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        asked = len(played.chats)
        now = asyncio.get_running_loop().time()
        replica.send(now - SUSPECT_AFTER_S)
        await until(lambda: len(played.chats) > asked)
        await until(lambda: not replica.suspect(asyncio.get_running_loop().time()))
        assert replica.circuit.closed


def fail(replica: EngineReplica) -> None:
    for _ in range(IN_A_ROW):
        replica.end(replica.send(0.0), Signal.FAULT, "reset", 0.0)


async def test_one_whose_requests_fail_is_left_out_while_another_takes_them() -> None:
    async with watching(Played(), Played()) as watch:
        await watch.tried()
        replica = watch.engine.replicas[0]
        fail(replica)
        await until(lambda: not replica.circuit.closed)
        assert replica.circuit.why == "reset"
        assert replica.circuit.due > time.monotonic() + EJECTED_S / 2
        assert watch.engine.ready == [watch.engine.replicas[1]]


async def test_the_only_one_whose_requests_fail_is_tried_and_stays_if_it_answers() -> None:
    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        fail(replica)
        await until(lambda: not replica.circuit.doubted)
        assert replica.circuit.closed
        played.chat = 500
        fail(replica)
        await until(lambda: not replica.circuit.closed)
        assert replica.circuit.why == "requests fail: engine-error (status 500 to the warm-up)"


async def test_a_bug_of_ours_neither_ends_the_watch_nor_leaves_a_replica_on_trial() -> None:
    class Broken(EngineClient):
        async def fetch(self, method: str, path: str, *, timeout_s: float, body: bytes = b"") -> tuple[int, bytes]:
            raise ZeroDivisionError(f"{method} {path} {timeout_s} {body!r}")

    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        good = replica.client
        replica.client = Broken(good.pool, None)
        await until(lambda: replica.circuit.why == "internal")
        replica.client = good
        await ready(watch)
