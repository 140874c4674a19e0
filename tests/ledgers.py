"""What every ledger must do, in whatever it keeps its numbers; ``tests/adapters`` and ``tests/valkey`` run it."""

from __future__ import annotations

import asyncio
import inspect
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from gateway.limits.ledger import MINUTE_US, Holder, Lease, Refused
from gateway.limits.limit import Limit
from gateway.limits.tally import DAY_US, Tally
from gateway.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.limits.ledger import Ledger

T = TypeVar("T")
SECOND = 1_000_000
NOON = 20_000 * DAY_US + DAY_US // 2
ACME = Holder("partner", "acme")
SMALL = Limit("small", 3, 2)
BIG = (Holder.of_model("partner", "big"), Limit("big", 100, 50, tokens_per_minute=100, tokens_per_day=250))
COUNTED = Limit("counted", 100, 50, tokens_per_minute=1000, tokens_per_day=2500)


@dataclass
class Ledgers:
    """A ledger, another that shares its numbers where there can be one, and the clock of both."""

    one: Ledger
    other: Ledger
    move: Callable[[int], Awaitable[None]]
    """Puts the clock to so many microseconds of Unix time."""


async def of(answer: T | Awaitable[T]) -> T:
    """Give what a ledger answers, whether at once or elsewhere."""
    return await answer if inspect.isawaitable(answer) else answer


async def let_in(ledger: Ledger, limit: Limit = SMALL, holder: Holder = ACME) -> Lease:
    """Enter where there is room."""
    lease = await of(ledger.enter(holder, limit))
    assert isinstance(lease, Lease)
    return lease


async def kept_out(ledger: Ledger, limit: Limit = SMALL, holder: Holder = ACME) -> Refused:
    """Enter where there is none."""
    refusal = await of(ledger.enter(holder, limit))
    assert isinstance(refusal, Refused)
    return refusal


class LedgerContract:
    """The tests; ``ledgers`` is a fixture of whoever runs them, at noon of some day and with nothing counted."""

    async def test_a_full_minute_refuses_with_a_wait_that_is_true(self, ledgers: Ledgers) -> None:
        for second in range(3):
            await ledgers.move(NOON + second * SECOND)
            await of(ledgers.one.settle(await let_in(ledgers.one), 0))
        await ledgers.move(NOON + 10 * SECOND)
        refusal = await kept_out(ledgers.one)
        assert (refusal.reason, refusal.wait_us, refusal.retry_after) == (Reason.OVER_RATE, 50 * SECOND, 50)
        assert refusal.requests == (3, 0, 52 * SECOND)
        await ledgers.move(NOON + MINUTE_US - 1)
        assert (await kept_out(ledgers.other)).wait_us == 1
        await ledgers.move(NOON + MINUTE_US)
        assert (await let_in(ledgers.other)).requests == (3, 0, MINUTE_US)

    async def test_what_was_refused_for_another_reason_counts_and_takes_no_place(self, ledgers: Ledgers) -> None:
        for _ in range(4):
            await of(ledgers.one.count(ACME, SMALL))
        assert (await kept_out(ledgers.other)).reason is Reason.OVER_RATE
        await ledgers.move(NOON + MINUTE_US)
        await let_in(ledgers.one)
        await let_in(ledgers.other)

    async def test_places_are_free_as_soon_as_they_are_settled_and_once_only(self, ledgers: Ledgers) -> None:
        limit = Limit("places", 100, 2)
        first = await let_in(ledgers.one, limit)
        await let_in(ledgers.other, limit)
        refusal = await kept_out(ledgers.one, limit)
        assert (refusal.reason, refusal.retry_after) == (Reason.OVER_CONCURRENCY, 1)
        await of(ledgers.one.settle(first, 0))
        await of(ledgers.one.settle(first, 0))
        await let_in(ledgers.other, limit)
        assert (await kept_out(ledgers.other, limit)).requests.left == 100 - 5

    async def test_where_calls_take_equally_long_who_waits_as_told_for_a_place_gets_it(self, ledgers: Ledgers) -> None:
        dice = random.Random(3)  # noqa: S311  (chooses times, not secrets)
        limit, now = Limit("places", 10**6, 3), NOON
        for took in (SECOND // 3, 2 * SECOND, 17 * SECOND + 250_001, MINUTE_US):
            holder = Holder("partner", str(took))
            running = [(now + took, await let_in(ledgers.one, limit, holder))]

            async def goes_on(until: int, running: list[tuple[int, Lease]] = running) -> None:
                while running and running[0][0] <= until:
                    ends, lease = running.pop(0)
                    await ledgers.move(ends)
                    await of(dice.choice((ledgers.one, ledgers.other)).settle(lease, 0))
                await ledgers.move(until)

            now += took
            await goes_on(now)  # nothing is known before a first call has ended
            refusals = 0
            while refusals < 25:
                now += dice.randrange(took // 2)
                await goes_on(now)
                answer: Lease | Refused = await of(dice.choice((ledgers.one, ledgers.other)).enter(holder, limit))
                if isinstance(answer, Refused):
                    assert answer.reason is Reason.OVER_CONCURRENCY
                    assert answer.retry_after <= max(1, -(-took // SECOND))
                    refusals += 1
                    now += answer.retry_after * SECOND
                    await goes_on(now)
                    answer = await let_in(ledgers.one, limit, holder)
                running.append((now + took, answer))
            await goes_on(now + took)
            now += took

    async def test_how_long_calls_of_a_model_took_is_learnt_of_all_its_clients(self, ledgers: Ledgers) -> None:
        one, other = ledgers.one, ledgers.other
        model = (Holder.of_model("partner", "few"), Limit("few", 100, 1))
        first = await let_in(one, COUNTED)
        assert await of(one.reserve(first, 0, model)) is None
        await ledgers.move(NOON + 9 * SECOND)
        await of(one.settle(first, 0))
        second = await let_in(other, COUNTED, Holder("partner", "other"))
        assert await of(other.reserve(second, 0, model)) is None
        await ledgers.move(NOON + 11 * SECOND)
        refusal = await of(one.reserve(await let_in(one, COUNTED), 0, model))
        assert refusal is not None
        assert (refusal.reason, refusal.wait_us, refusal.shared) == (Reason.OVER_CONCURRENCY, 7 * SECOND, True)

    async def test_a_request_without_a_place_still_counts(self, ledgers: Ledgers) -> None:
        await let_in(ledgers.one)
        await let_in(ledgers.one)
        refusal = await kept_out(ledgers.one)
        assert (refusal.reason, refusal.retry_after) == (Reason.OVER_CONCURRENCY, 60)
        assert (await kept_out(ledgers.one)).reason is Reason.OVER_RATE

    async def test_holders_do_not_share_whatever_their_names_are(self, ledgers: Ledgers) -> None:
        limit = Limit("one", 1, 1)
        holders = [Holder("p", "a|b", "c"), Holder("p", "a", "b|c"), Holder("p", "a"), Holder("p", "a", ""),
                   Holder("p|a", "b", "c"), Holder("p", "a", "{x}"), Holder("p", "a", "ü\n")]  # fmt: skip
        for holder in holders:
            await let_in(ledgers.one, limit, holder)
        for holder in holders:
            assert (await kept_out(ledgers.other, limit, holder)).reason is Reason.OVER_RATE

    async def test_tokens_are_held_as_reserved_and_counted_as_used(self, ledgers: Ledgers) -> None:
        one, other = ledgers.one, ledgers.other
        first, second = await let_in(one, COUNTED), await let_in(other, COUNTED)
        assert await of(one.reserve(first, 900)) is None
        assert (first.minute, first.day) == ((1000, 100, MINUTE_US), (2500, 1600, DAY_US // 2))
        await ledgers.move(NOON + SECOND)
        refusal = await of(other.reserve(second, 200))
        assert refusal is not None
        assert (refusal.reason, refusal.retry_after) == (Reason.OVER_TOKENS, 59)
        assert (refusal.minute, refusal.day) == ((1000, 100, 59 * SECOND), (2500, 1600, DAY_US // 2 - SECOND))
        await of(other.settle(second, 0))
        await of(one.settle(first, 30))
        third = await let_in(other, COUNTED)
        assert await of(other.reserve(third, 970)) is None
        assert (third.minute, third.day) == ((1000, 0, MINUTE_US), (2500, 1500, DAY_US // 2 - SECOND))

    async def test_more_than_a_minute_allows_fits_alone(self, ledgers: Ledgers) -> None:
        first, second = await let_in(ledgers.one, COUNTED), await let_in(ledgers.one, COUNTED)
        assert await of(ledgers.one.reserve(first, 2000)) is None
        assert await of(ledgers.one.reserve(second, 1)) is not None
        await of(ledgers.one.settle(first, 10))
        assert await of(ledgers.one.reserve(second, 990)) is None

    async def test_the_day_ends_at_midnight_utc(self, ledgers: Ledgers) -> None:
        limit = Limit("daily", 100, 50, tokens_per_day=100)
        midnight = NOON + DAY_US // 2
        await ledgers.move(midnight - 90 * SECOND)
        first, second = await let_in(ledgers.one, limit), await let_in(ledgers.one, limit)
        assert await of(ledgers.one.reserve(first, 100)) is None
        refusal = await of(ledgers.other.reserve(second, 1))
        assert refusal is not None
        assert (refusal.retry_after, refusal.minute, refusal.day) == (90, None, (100, 0, 90 * SECOND))
        await ledgers.move(midnight)
        assert await of(ledgers.one.reserve(second, 60)) is None
        await of(ledgers.one.settle(first, 40))
        third = await let_in(ledgers.one, limit)
        assert await of(ledgers.one.reserve(third, 1)) is None
        assert third.day == (100, 39, DAY_US)

    async def test_without_a_limit_of_tokens_a_settlement_frees_the_place_alone(self, ledgers: Ledgers) -> None:
        limit = Limit("places", 100, 1)
        await of(ledgers.one.settle(await let_in(ledgers.one, limit), 10**9))
        lease = await let_in(ledgers.one, limit)
        assert (lease.minute, lease.day) == (None, None)

    async def test_of_a_hundred_at_once_exactly_as_many_get_in_as_there_are_places(self, ledgers: Ledgers) -> None:
        limit = Limit("places", 1000, 3)
        both = (ledgers.one, ledgers.other)
        verdicts = await asyncio.gather(*(of(both[n % 2].enter(ACME, limit)) for n in range(100)))
        assert sum(isinstance(verdict, Lease) for verdict in verdicts) == 3
        assert all(v.reason is Reason.OVER_CONCURRENCY for v in verdicts if isinstance(v, Refused))

    async def test_a_thousand_random_steps_end_as_the_arithmetic_says(self, ledgers: Ledgers) -> None:
        """The tally, proven against both bounds by its own tests, is the oracle for what keeps numbers elsewhere."""
        dice = random.Random(7)  # noqa: S311  (chooses steps, not secrets)
        limit = Limit("any", 12, 5, 300, 4000)
        tally, now = Tally(), NOON
        pairs: list[tuple[Lease, Lease]] = []
        for _ in range(1000):
            ledger = dice.choice((ledgers.one, ledgers.other))
            action = dice.random()
            if action < 0.3 and pairs:
                ours, theirs = pairs.pop(dice.randrange(len(pairs)))
                used = dice.randint(0, ours.reserved + 5)
                tally.settle(ours, used, now * 1000)
                await of(ledger.settle(theirs, used))
            elif action < 0.5:
                now += dice.choice((1, SECOND, 5 * SECOND, 20 * SECOND, MINUTE_US, DAY_US // 7))
                await ledgers.move(now)
            else:
                mine = tally.enter(ACME, limit, now * 1000)
                answer: Lease | Refused = await of(ledger.enter(ACME, limit))
                if isinstance(mine, Refused) or isinstance(answer, Refused):
                    assert isinstance(mine, Refused)
                    assert tally.told(mine, limit, now * 1000, now * 1000) == answer
                    continue
                assert mine.requests == answer.requests
                amount = dice.randint(1, 120)
                assert tally.reserve(mine, amount, now * 1000, now * 1000) == await of(ledger.reserve(answer, amount))
                assert (mine.requests, mine.minute, mine.day) == (answer.requests, answer.minute, answer.day)
                pairs.append((mine, answer))

    async def test_a_model_is_one_budget_for_all_clients_of_its_plane(self, ledgers: Ledgers) -> None:
        one, other = ledgers.one, ledgers.other
        first, second = await let_in(one, COUNTED), await let_in(other, COUNTED, Holder("partner", "other"))
        assert await of(one.reserve(first, 60, BIG)) is None
        refusal = await of(other.reserve(second, 50, BIG))
        assert refusal is not None
        assert (refusal.reason, refusal.wait_us, refusal.shared) == (Reason.OVER_TOKENS, MINUTE_US, True)
        assert refusal.requests.left == 99, "the numbers beside it are the client's own"
        assert await of(other.reserve(second, 40, BIG)) is None
        third = await let_in(one, COUNTED)
        refusal = await of(one.reserve(third, 1, BIG))
        assert refusal is not None
        assert refusal.shared
        assert await of(one.reserve(third, 1, (Holder.of_model("partner", "small"), BIG[1]))) is None
        assert await of(one.reserve(await let_in(one, COUNTED), 1)) is None, "only calls of the model are counted"

    async def test_what_a_model_has_no_room_for_is_counted_nowhere(self, ledgers: Ledgers) -> None:
        one = ledgers.one
        first, second = await let_in(one, COUNTED), await let_in(one, COUNTED)
        assert await of(one.reserve(first, 100, BIG)) is None
        assert await of(one.reserve(second, 900, BIG)) is not None
        assert await of(one.reserve(second, 900)) is None, "of 1000 of the client's, 100 were used"
        assert (second.minute, second.day) == ((1000, 0, MINUTE_US), (2500, 1500, DAY_US // 2))

    async def test_what_a_client_has_no_room_for_is_not_counted_for_the_model(self, ledgers: Ledgers) -> None:
        one, poor = ledgers.one, Limit("poor", 10, 10, tokens_per_minute=10)
        first, second = await let_in(one, poor), await let_in(one, poor)
        assert await of(one.reserve(first, 10)) is None
        refusal = await of(one.reserve(second, 10, BIG))
        assert refusal is not None
        assert (refusal.reason, refusal.shared) == (Reason.OVER_TOKENS, False)
        assert await of(one.reserve(await let_in(one, COUNTED), 100, BIG)) is None

    async def test_of_two_limits_the_longer_wait_is_told(self, ledgers: Ledgers) -> None:
        one, poor = ledgers.one, Limit("poor", 10, 10, tokens_per_minute=10)
        first = await let_in(one, poor)
        assert await of(one.reserve(first, 10)) is None
        await ledgers.move(NOON + 10 * SECOND)
        rich = await let_in(one, COUNTED, Holder("partner", "rich"))
        assert await of(one.reserve(rich, 100, BIG)) is None
        second = await let_in(one, poor)
        refusal = await of(one.reserve(second, 10, BIG))
        assert refusal is not None
        assert (refusal.wait_us, refusal.shared) == (MINUTE_US, True)
        await ledgers.move(NOON + 70 * SECOND)
        assert await of(one.reserve(second, 10, BIG)) is None

    async def test_a_wait_for_tokens_is_none_that_ends_in_a_full_minute_of_requests(self, ledgers: Ledgers) -> None:
        one, other = ledgers.one, ledgers.other
        model = (Holder.of_model("partner", "few"), Limit("few", 1, 9))
        assert await of(one.reserve(await let_in(one, COUNTED, Holder("partner", "other")), 0, model)) is None
        limit = Limit("one", 1, 9, tokens_per_day=100)
        await ledgers.move(NOON + 20 * SECOND)
        refusal = await of(other.reserve(await let_in(other, limit), 0, model))
        assert refusal is not None
        assert (refusal.reason, refusal.wait_us) == (Reason.OVER_RATE, MINUTE_US), (
            "not 40 s: the client's minute is full"
        )
        midnight = NOON + DAY_US // 2
        await ledgers.move(midnight - 70 * SECOND)
        assert await of(one.reserve(await let_in(one, limit), 100)) is None
        await ledgers.move(midnight - 10 * SECOND)
        refusal = await of(one.reserve(await let_in(one, limit), 1))
        assert refusal is not None
        assert (refusal.reason, refusal.wait_us) == (Reason.OVER_TOKENS, MINUTE_US), "not 10 s"
        await ledgers.move(midnight + 50 * SECOND)
        assert await of(one.reserve(await let_in(other, limit), 1)) is None

    async def test_who_gets_no_place_or_comes_too_often_is_told_what_is_left_of_tokens(self, ledgers: Ledgers) -> None:
        one, limit = ledgers.one, Limit("both", 2, 1, tokens_per_minute=100, tokens_per_day=1000)
        assert await of(one.reserve(await let_in(one, limit), 30)) is None
        await ledgers.move(NOON + SECOND)
        for reason in (Reason.OVER_CONCURRENCY, Reason.OVER_RATE):
            refusal = await kept_out(ledgers.other, limit)
            assert refusal.reason is reason
            assert (refusal.minute, refusal.day) == ((100, 70, 59 * SECOND), (1000, 970, DAY_US // 2 - SECOND))
        assert (await kept_out(one, Limit("rate", 1, 1))).minute is None

    async def test_requests_and_places_of_a_model_are_limited_and_free_at_once(self, ledgers: Ledgers) -> None:
        one, other = ledgers.one, ledgers.other
        model = (Holder.of_model("partner", "few"), Limit("few", 3, 1))
        first, second = await let_in(one, COUNTED), await let_in(other, COUNTED)
        assert await of(one.reserve(first, 0, model)) is None
        refusal = await of(other.reserve(second, 0, model))
        assert refusal is not None
        assert (refusal.reason, refusal.retry_after, refusal.shared) == (Reason.OVER_CONCURRENCY, 1, True)
        await of(one.settle(first, 0))
        assert await of(other.reserve(second, 0, model)) is None
        await of(other.settle(second, 0))
        third = await let_in(one, COUNTED)
        assert await of(one.reserve(third, 0, model)) is None
        await of(one.settle(third, 0))
        await ledgers.move(NOON + 10 * SECOND)
        fourth = await let_in(one, COUNTED)
        refusal = await of(one.reserve(fourth, 0, model))
        assert refusal is not None
        assert (refusal.reason, refusal.wait_us, refusal.shared) == (Reason.OVER_RATE, 50 * SECOND, True)
        await ledgers.move(NOON + MINUTE_US)
        assert await of(one.reserve(fourth, 0, model)) is None

    async def test_the_tokens_of_a_model_are_settled_in_its_minute_and_on_its_day(self, ledgers: Ledgers) -> None:
        one, wide = ledgers.one, Limit("wide", 100, 50)
        first = await let_in(one, wide)
        assert await of(one.reserve(first, 100, BIG)) is None
        await of(one.settle(first, 30))
        second = await let_in(one, wide)
        assert await of(one.reserve(second, 70, BIG)) is None
        await of(one.settle(second, 70))
        await ledgers.move(NOON + MINUTE_US)
        third = await let_in(one, wide)
        assert await of(one.reserve(third, 100, BIG)) is None
        await ledgers.move(NOON + 2 * MINUTE_US)
        fourth = await let_in(one, wide)
        refusal = await of(one.reserve(fourth, 51, BIG))
        assert refusal is not None
        assert (refusal.reason, refusal.wait_us) == (Reason.OVER_TOKENS, DAY_US // 2 - 2 * MINUTE_US)
        assert await of(one.reserve(fourth, 50, BIG)) is None

    async def test_random_calls_of_a_model_never_use_more_than_its_minute(self, ledgers: Ledgers) -> None:
        """A list of all that was let in is the oracle, for the minute and the places, in both directions."""
        dice = random.Random(11)  # noqa: S311  (chooses steps, not secrets)
        model, wide = (Holder.of_model("partner", "any"), Limit("any", 6, 3, 200)), Limit("wide", 10**6, 10**6)
        counted: list[list[int]] = []
        open_: list[tuple[Lease, list[int]]] = []
        now = NOON
        for _ in range(400):
            action = dice.random()
            if action < 0.35 and open_:
                lease, entry = open_.pop(dice.randrange(len(open_)))
                entry[1] = dice.randint(0, entry[1])
                await of(ledgers.one.settle(lease, entry[1]))
            elif action < 0.55:
                now += dice.choice((1, SECOND, 20 * SECOND, MINUTE_US))
                await ledgers.move(now)
            else:
                ledger, amount = dice.choice((ledgers.one, ledgers.other)), dice.randint(1, 90)
                lease = await let_in(ledger, wide, Holder("partner", dice.choice("abc")))
                last = [size for at, size in counted if at > now - MINUTE_US]
                fits = len(last) < 6 and len(open_) < 3 and sum(last) + amount <= 200
                refusal = await of(ledger.reserve(lease, amount, model))
                assert (refusal is None) == fits
                if refusal is None:
                    counted.append([now, amount])
                    open_.append((lease, counted[-1]))
                else:
                    await of(ledger.settle(lease, 0))
