from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.issuer_keys import IssuerKeys
from gateway.adapters.jwks import IssuerSource
from gateway.reasons import Reason, Unavailable
from tests.simulators.signing import default_keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEYS = default_keys()


def document(*names: str) -> bytes:
    return json.dumps({"keys": [KEYS[name].public for name in names]}).encode()


class Script:
    """A fetcher that gives ``answer``, once ``open`` is set."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer
        self.count = 0
        self.open = asyncio.Event()
        self.open.set()

    async def fetch(self, issuer: str, source: IssuerSource) -> bytes:
        self.count += 1
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Hands:
    """A clock that is moved by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


DOWN = Unavailable(Reason.KEYS_UNAVAILABLE, "the issuer cannot be reached")


class Bench:
    """One ``IssuerKeys`` between a script and a hand-moved clock; ``changes`` counts calls of ``changed``."""

    def __init__(self, answer: bytes | Exception, source: IssuerSource | None = None) -> None:
        self.script = Script(answer)
        self.clock = Hands()
        self.changes = 0
        self.keys = IssuerKeys("corp", "https://a", source or IssuerSource(), self.script, self._changed, self.clock)

    def _changed(self) -> None:
        self.changes += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.keys.run())
            await self.settle()
            yield
            task.cancel()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def until(self, count: int) -> None:
        while self.script.count < count:  # noqa: ASYNC110  (time itself is waited for)
            await asyncio.sleep(0.005)
        await self.settle()

    async def refusal(self, kid: str | None = "k1") -> Unavailable:
        with pytest.raises(Unavailable) as caught:
            await self.keys.keys_for(kid)
        assert caught.value.reason is Reason.KEYS_UNAVAILABLE
        return caught.value


async def test_keys_are_there_after_the_first_fetch_and_known_kids_cause_no_other() -> None:
    bench = Bench(document("K1", "E1"))
    async with bench.running():
        for _ in range(50):
            assert (await bench.keys.keys_for("k1")).find("k1", "RS256") is not None
        assert await bench.keys.keys_for(None) is bench.keys.key_set
        assert (bench.script.count, bench.changes) == (1, 1)


async def test_a_caller_who_comes_during_the_first_fetch_waits_for_it() -> None:
    bench = Bench(document("K1"))
    bench.script.open.clear()
    async with bench.running():
        waiting = asyncio.ensure_future(bench.keys.keys_for("k1"))
        await bench.settle()
        assert not waiting.done()
        bench.script.open.set()
        assert (await waiting).knows("k1")
        assert bench.script.count == 1


async def test_an_issuer_that_is_down_at_the_start_is_unavailable_and_asked_again_on_schedule_alone() -> None:
    """Corpus jwks-005: waiting callers do not make it be asked more often."""
    bench = Bench(DOWN)
    async with bench.running():
        for _ in range(20):
            assert (await bench.refusal()).retry_after == 1
        assert bench.script.count == 1
        assert bench.keys.age_s is None


async def test_the_pauses_grow_while_an_issuer_is_down_and_keys_come_when_it_is_back() -> None:
    bench = Bench(DOWN, IssuerSource(max_age_s=0.02))
    async with bench.running():
        await bench.until(4)
        bench.script.answer = document("K1")
        await bench.until(bench.script.count + 2)
        assert (await bench.keys.keys_for("k1")).knows("k1")


async def test_the_pause_doubles_up_to_half_a_minute() -> None:
    bench = Bench(DOWN, IssuerSource(max_age_s=600))
    pauses = []
    for failures in (1, 2, 3, 5, 6, 2000):
        bench.keys._failures = failures
        pauses.append(bench.keys._pause_s())
    assert pauses == [1, 2, 4, 16, 30, 30]


async def test_before_it_runs_there_are_no_keys_and_nothing_is_fetched() -> None:
    bench = Bench(document("K1"))
    assert (await bench.refusal()).retry_after == 1
    assert bench.script.count == 0


async def test_a_rotation_is_seen_at_once() -> None:
    """AUTH-11: the fetch at the start begins no cool-down."""
    bench = Bench(document("K1"))
    async with bench.running():
        assert (await bench.keys.keys_for("k1")).knows("k1")
        bench.script.answer = document("K1", "E1")
        assert (await bench.keys.keys_for("e1")).knows("e1")
        assert (bench.script.count, bench.changes) == (2, 2)


async def test_a_flood_of_unknown_kids_causes_one_fetch_in_a_cool_down() -> None:
    """Corpus jwks-002; the next rotation is seen after it (jwks-019)."""
    bench = Bench(document("K1"))
    async with bench.running():
        for number in range(300):
            assert not (await bench.keys.keys_for(f"random {number}")).knows(f"random {number}")
        assert bench.script.count == 2
        bench.clock.now += 59.9
        await bench.keys.keys_for("e1")
        assert bench.script.count == 2
        bench.clock.now += 0.2
        bench.script.answer = document("K1", "E1")
        assert (await bench.keys.keys_for("e1")).knows("e1")
        assert (bench.script.count, bench.changes) == (3, 2)


async def test_many_who_wait_for_one_unknown_kid_share_one_fetch() -> None:
    bench = Bench(document("K1"))
    async with bench.running():
        bench.script.open.clear()
        bench.script.answer = document("K1", "E1")
        waiting = [asyncio.ensure_future(bench.keys.keys_for("e1")) for _ in range(20)]
        await bench.settle()
        assert (await bench.keys.keys_for("k1")).knows("k1"), "known kids do not wait"
        bench.script.open.set()
        assert all([(await one).knows("e1") for one in waiting])
        assert bench.script.count == 2


async def test_a_fetch_goes_on_when_the_one_who_caused_it_leaves() -> None:
    bench = Bench(document("K1"))
    async with bench.running():
        bench.script.open.clear()
        bench.script.answer = document("K1", "E1")
        first = asyncio.ensure_future(bench.keys.keys_for("e1"))
        await bench.settle()
        first.cancel()
        second = asyncio.ensure_future(bench.keys.keys_for("e1"))
        await bench.settle()
        bench.script.open.set()
        assert (await second).knows("e1")
        assert bench.script.count == 2


@pytest.mark.parametrize("answer", [DOWN, b"<html>", b'{"keys": []}', RuntimeError("a bug of ours")], ids=repr)
async def test_a_failed_fetch_keeps_the_last_good_set(answer: bytes | Exception) -> None:
    """AUTH-13: known kids pass; for an unknown one it cannot be told, so the caller is not to throw the token away."""
    bench = Bench(document("K1"))
    async with bench.running():
        bench.script.answer = answer
        assert (await bench.refusal("e1")).retry_after == 60
        assert (await bench.keys.keys_for("k1")).knows("k1")
        assert (bench.script.count, bench.changes) == (2, 1)


async def test_a_set_is_fetched_anew_at_its_age_and_what_was_removed_is_gone() -> None:
    """Corpus jwks-007."""
    bench = Bench(document("K1", "E1"), IssuerSource(max_age_s=0.02))
    async with bench.running():
        bench.script.answer = document("E1")
        await bench.until(3)
        assert bench.keys.key_set is not None
        assert not bench.keys.key_set.knows("k1")
        assert bench.changes == 2


async def test_a_set_that_is_fetched_unchanged_is_no_change() -> None:
    bench = Bench(document("K1", "E1"), IssuerSource(max_age_s=0.01))
    async with bench.running():
        bench.script.answer = document("E1", "K1")
        await bench.until(3)
        assert bench.changes == 1


async def test_the_age_is_the_time_since_the_last_good_fetch() -> None:
    bench = Bench(document("K1"))
    async with bench.running():
        bench.clock.now += 12.5
        assert bench.keys.age_s == 12.5


async def test_a_set_that_nobody_confirmed_for_too_long_is_dropped() -> None:
    """Corpus jwks-006."""
    bench = Bench(document("K1"), IssuerSource(max_age_s=0.01, max_stale_s=5))
    async with bench.running():
        bench.script.answer = DOWN
        await bench.until(3)
        assert (await bench.keys.keys_for("k1")).knows("k1")
        bench.clock.now += 5
        await bench.until(bench.script.count + 2)
        assert bench.changes == 2
        await bench.refusal()


async def test_after_it_ended_the_last_set_serves_those_who_hold_it_and_fetches_no_more() -> None:
    """A policy that is being replaced still judges its open requests."""
    bench = Bench(document("K1"))
    async with bench.running():
        await bench.settle()
    assert (await bench.keys.keys_for("e1")).knows("k1")
    assert bench.script.count == 1
