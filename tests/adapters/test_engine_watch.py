"""A replica takes requests behind a warm-up that it has answered, and is out as soon as it is gone or silent."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.adapters.engine import Engine, EngineReplica
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.engine_watch import MISSED, EngineWatch, Times
from gateway.adapters.persistent_connection import PersistentConnection
from gateway.addresses import engine_address
from gateway.engine.circuit import EJECTED_S, IN_A_ROW, State
from gateway.engine.replica import SUSPECT_AFTER_S
from gateway.engine.signal import Signal
from gateway.engine.vitals import UNKNOWN
from gateway.policy.warm_up import WarmUp
from gateway.reasons import Reason, Unavailable
from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.adapters.relaying import playing, whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from gateway.adapters.engine_pool import EngineConnection
    from tests.adapters.relaying import Line, Play

pytestmark = pytest.mark.usefixtures("nothing_left")

CHAT = "/v1/chat/completions"
NOWHERE = "http://127.0.0.1:1"
FAST = Times(look=0.03, answer=0.3, warm_up=0.3, suspect=0.1, tick=0.005)
RARE = Times(look=0.3, answer=0.3, warm_up=0.3, suspect=0.1, tick=0.005)


def warm_up(name: str = "m") -> WarmUp:
    alone, *together = [json.dumps({"model": name, "n": number}).encode() for number in range(5)]
    return WarmUp("main", name, "POST", CHAT, alone, tuple(together))


@pytest.fixture(autouse=True)
def told() -> Iterator[list[Any]]:
    """Catch what the operator is told, wherever it would go by now."""
    with structlog.testing.capture_logs() as lines:
        yield lines


class Played:
    """An engine: what it lists, when it was started, what it answers to a chat, and what it was asked."""

    def __init__(self) -> None:
        self.models: tuple[str, ...] = ("m",)
        self.list = 200
        self.chat = 200
        self.silent = False
        self.started: float | None = 1.0
        self.awake = True
        self.lines: list[Line] = []
        self.chats: list[bytes] = []
        self.at_once = self.most_at_once = 0

    async def __call__(self, line: Line) -> None:
        assert b"(probe)" in line.head
        if line.head.startswith(b"GET /v1/models "):
            body = json.dumps({"data": [{"id": name} for name in self.models]}).encode()
            self.lines.append(line)
            await line.send(whole(body, status=f"{self.list} X"))
            return
        if line.head.startswith(b"GET /metrics "):
            told = b"" if self.started is None else f"process_start_time_seconds {self.started}\n".encode()
            told += b'vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="awake"} %d.0\n' % self.awake
            await line.send(whole(told, status="404 X" if self.started is None else "200 X"))
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
        pools = [EnginePool(engine_address(one), idle=1, keep_alive_s=9, connect_s=1) for one in (url, NOWHERE)]
        clients = [EngineClient(pool, None) for pool in pools]
        watch = EngineWatch(Engine("main", clients[:1], 0, time.monotonic), FAST)
        watch.warm_ups = (warm_up(),)
        async with watch.running():
            replica = await ready(watch)
            asked = len(played.chats)
            lead(replica, clients[1])
            await until(lambda: not replica.circuit.closed)
            assert replica.circuit.why == "engine-unavailable (connection refused)"
            lead(replica, clients[0])
            await ready(watch)
            assert len(played.chats) == 2 * asked


def lead(replica: EngineReplica, client: EngineClient) -> None:
    """Have all further questions go another way."""
    replica.watched.close()
    replica.client, replica.watched = client, PersistentConnection(client)


async def kept(played: Played) -> Line:
    """Wait until the connection of the looks has been kept from one to the next; give the engine's end of it."""
    line = played.lines[-1]
    looks = len(played.lines)
    await until(lambda: len(played.lines) > looks + 1)
    assert set(played.lines[looks:]) == {line}
    return line


async def test_an_engine_that_starts_anew_between_two_looks_is_out_until_it_is_warm() -> None:
    played = Played()
    async with watching(played, times=RARE) as watch:
        replica = await ready(watch)
        asked = len(played.chats)
        line = await kept(played)
        played.started = 2.0
        played.chat = 500
        line.reset()
        await until(lambda: replica.circuit.why.startswith("engine-error"))
        assert not watch.engine.ready
        played.chat = 200
        await ready(watch)
        assert len(played.chats) >= 2 * asked


async def test_another_process_that_takes_the_place_of_one_is_warmed_up_though_it_was_never_missing(
    tmp_path: Path,
) -> None:
    place, beside = tmp_path / "engine.sock", tmp_path / "next.sock"
    pool = EnginePool(engine_address(f"unix:{place}"), idle=1, keep_alive_s=9, connect_s=1)
    watch = EngineWatch(Engine("main", [EngineClient(pool, None)], 0, time.monotonic), RARE)
    watch.warm_ups = (warm_up(),)
    async with EngineSimulator(EngineState(("m",), started=2.0), uds=beside) as after, AsyncExitStack() as stack:
        async with EngineSimulator(EngineState(("m",), started=1.0), uds=place) as before:
            await stack.enter_async_context(watch.running())
            replica = await ready(watch)
            looks = len(before.requests)
            await until(lambda: len(before.requests) > looks + 1)
            beside.replace(place)
        await until(lambda: replica.vitals.started == 2.0)
        await ready(watch)
    assert [seen.method for seen in after.requests].count("POST") == 5


async def test_it_is_said_that_an_engine_has_started_anew(told: list[Any]) -> None:
    played = Played()
    async with watching(played) as watch:
        await ready(watch)
        line = await kept(played)
        played.started = 2.0
        line.close()
        await until(lambda: [one["event"] for one in told].count("engine is ready") == 2)
    assert [one["why"] for one in told if one["event"] == "engine is taken out"] == ["it was started anew"]


async def test_an_engine_that_ends_a_connection_and_is_the_same_stays_in_and_is_asked_nothing() -> None:
    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        asked = len(played.chats)
        rounds = replica.circuit.round
        (await kept(played)).close()
        looks = len(played.lines)
        await until(lambda: len(played.lines) > looks + 2)
        assert not replica.watched.lost
        assert (replica.circuit.round, len(played.chats)) == (rounds, asked)


async def test_an_engine_that_does_not_tell_its_start_is_warmed_up_beside_its_requests() -> None:
    played = Played()
    played.started = None
    async with watching(played) as watch:
        replica = await ready(watch)
        asked = len(played.chats)
        rounds = replica.circuit.round
        (await kept(played)).close()
        await until(lambda: len(played.chats) == 2 * asked)
        await until(lambda: "m" in replica.warm)
        assert replica.circuit.round == rounds


async def test_an_engine_that_ends_a_connection_and_lists_nothing_is_asked_again_and_then_out() -> None:
    played = Played()
    async with watching(played, times=RARE) as watch:
        replica = await ready(watch)
        line = await kept(played)
        played.list = 500
        line.close()
        await until(lambda: not replica.circuit.closed)
        assert (replica.missed, replica.circuit.why) == (MISSED, "engine-error (status 500)")


async def test_one_question_that_fails_behind_a_loss_takes_nobody_out() -> None:
    played = Played()
    async with watching(played, times=RARE) as watch:
        replica = await ready(watch)
        rounds = replica.circuit.round
        line = await kept(played)
        played.list = 500
        line.close()
        await until(lambda: replica.missed == 1)
        played.list = 200
        await until(lambda: not replica.watched.lost)
        assert (replica.circuit.round, replica.missed) == (rounds, 0)


async def test_an_engine_that_sleeps_is_out_and_asked_nothing_until_it_is_woken_and_warm() -> None:
    played = Played()
    async with watching(played, times=replace(FAST, vitals=0.05)) as watch:
        replica = await ready(watch)
        asked = len(played.chats)
        played.awake = False
        await until(lambda: replica.circuit.why == "engine-asleep")
        with pytest.raises(Unavailable) as unavailable:
            watch.engine.choose(None, "m")
        assert unavailable.value.reason is Reason.ENGINE_ASLEEP
        looks = len(played.lines)
        await until(lambda: len(played.lines) > looks + 1)
        assert (replica.circuit.closed, len(played.chats)) == (False, asked)
        played.awake = True
        await ready(watch)
        assert len(played.chats) == 2 * asked


async def test_an_engine_whose_metrics_show_another_start_was_started_anew_whatever_became_of_its_connections() -> None:
    played = Played()
    async with watching(played, times=replace(FAST, vitals=0.05)) as watch:
        replica = await ready(watch)
        asked, rounds = len(played.chats), replica.circuit.round
        played.started = 2.0
        await until(lambda: replica.circuit.round > rounds)
        assert len(played.chats) == 2 * asked


async def test_a_start_that_is_told_late_is_news_of_no_restart() -> None:
    played = Played()
    played.started = None
    async with watching(played, times=replace(FAST, vitals=0.05)) as watch:
        replica = await ready(watch)
        rounds = replica.circuit.round
        played.started = 1.0
        await until(lambda: replica.vitals.started == 1.0)
        played.started = None
        looks = len(played.lines)
        await until(lambda: len(played.lines) > looks + 4)
        assert (replica.circuit.round, len(played.chats)) == (rounds, 5)


async def test_metrics_that_do_not_come_keep_no_replica_out() -> None:
    played = Played()

    async def play(line: Line) -> None:
        if line.head.startswith(b"GET /metrics "):
            line.close()
        else:
            await played(line)

    async with watching(play) as watch:
        replica = await ready(watch)
        assert replica.vitals == UNKNOWN


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
        async def fetch_on(
            self, connection: EngineConnection, path: str, *, timeout_s: float
        ) -> tuple[int, bytes, bool]:
            raise ZeroDivisionError(f"{connection} {path} {timeout_s}")

    played = Played()
    async with watching(played) as watch:
        replica = await ready(watch)
        good = replica.client
        lead(replica, Broken(good.pool, None))
        await until(lambda: replica.circuit.why == "internal")
        lead(replica, good)
        await ready(watch)
