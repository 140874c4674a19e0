from __future__ import annotations

import copy
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.ledger import MINUTE_US, Holder, Lease, Refused
from gateway.limits.limit import Limit
from gateway.limits.tally import DAY_US, Tally
from gateway.reasons import Reason

SECOND = 1_000_000
NS = 1000
HOLDER = Holder("partner", "acme")
LIMIT = Limit("small", 3, 2)
COUNTED = Limit("counted", 100, 50, tokens_per_minute=1000, tokens_per_day=2500)
NOON = 20_000 * DAY_US + DAY_US // 2


def entered(tally: Tally, limit: Limit, now: int) -> Lease:
    lease = tally.enter(HOLDER, limit, now * NS)
    assert isinstance(lease, Lease)
    return lease


def refused(tally: Tally, limit: Limit, now: int) -> Refused:
    refusal = tally.enter(HOLDER, limit, now * NS)
    assert isinstance(refusal, Refused)
    return refusal


def test_a_full_minute_refuses_and_says_when_the_first_of_it_has_passed() -> None:
    tally = Tally()
    for second in range(3):
        tally.settle(entered(tally, LIMIT, second * SECOND), 0, second * SECOND * NS)
    refusal = refused(tally, LIMIT, 10 * SECOND)
    assert (refusal.reason, refusal.retry_after) == (Reason.OVER_RATE, 50)
    assert refusal.requests == (3, 0, 52 * SECOND)
    assert entered(tally, LIMIT, 60 * SECOND).requests.left == 0


def test_who_is_refused_is_told_what_is_left_of_tokens_as_well() -> None:
    tally, limit = Tally(), Limit("one", 1, 9, tokens_per_minute=1000, tokens_per_day=2500)
    assert tally.reserve(entered(tally, limit, NOON), 100, NOON * NS, NOON * NS) is None
    later = NOON + SECOND
    refusal = tally.told(refused(tally, limit, later), limit, later * NS, later * NS)
    assert (refusal.reason, refusal.requests) == (Reason.OVER_RATE, (1, 0, 59 * SECOND))
    assert (refusal.minute, refusal.day) == ((1000, 900, 59 * SECOND), (2500, 2400, DAY_US // 2 - SECOND))


def test_a_wait_for_tokens_lasts_until_a_request_fits_as_well() -> None:
    tally, limit = Tally(), Limit("one", 2, 9, tokens_per_day=100)
    late = NOON + DAY_US // 2 - 10 * SECOND
    assert tally.reserve(entered(tally, limit, late), 100, late * NS, late * NS) is None
    refusal = tally.reserve(entered(tally, limit, late + SECOND), 1, (late + SECOND) * NS, (late + SECOND) * NS)
    assert refusal is not None
    assert refusal.wait_us == 59 * SECOND, "not 9 s, when the day ends: the minute is full"


def test_who_asks_too_often_still_gets_the_whole_limit() -> None:
    tally = Tally()
    let_in = 0
    for tenth in range(6000):
        verdict = tally.enter(HOLDER, LIMIT, tenth * SECOND // 10 * NS)
        if isinstance(verdict, Lease):
            tally.settle(verdict, 0, tenth * SECOND // 10 * NS)
            let_in += 1
    assert let_in == 30


def test_places_are_free_again_once_settled_and_a_request_without_one_still_counts() -> None:
    tally = Tally()
    first, _second = entered(tally, LIMIT, 0), entered(tally, LIMIT, 0)
    refusal = refused(tally, LIMIT, 0)
    assert (refusal.reason, refusal.retry_after) == (Reason.OVER_CONCURRENCY, 60)
    assert refused(tally, LIMIT, 0).reason is Reason.OVER_RATE
    tally.settle(first, 0, SECOND * NS)
    tally.settle(first, 0, SECOND * NS)
    assert tally.open == 1
    assert entered(tally, LIMIT, MINUTE_US).requests.left == 2


def test_without_a_place_but_with_requests_left_one_may_try_again_in_a_second() -> None:
    tally = Tally()
    limit = Limit("one", 10, 1)
    entered(tally, limit, 0)
    assert refused(tally, limit, 0).retry_after == 1


def held(tally: Tally, limit: Limit, since: int, until: int) -> None:
    tally.settle(entered(tally, limit, since), 0, until * NS)


def test_once_places_were_freed_the_wait_is_what_the_oldest_open_request_has_left() -> None:
    tally, limit = Tally(), Limit("two", 1000, 2)
    held(tally, limit, 0, 10 * SECOND)
    entered(tally, limit, 20 * SECOND)
    entered(tally, limit, 22 * SECOND)
    assert refused(tally, limit, 23 * SECOND).wait_us == 7 * SECOND
    told = tally.refusal(limit, 0, 24 * SECOND * NS, NOON * NS)
    assert told is not None
    assert (told.reason, told.wait_us) == (Reason.OVER_CONCURRENCY, 6 * SECOND)


def test_a_request_that_takes_longer_than_earlier_ones_may_end_at_any_time() -> None:
    tally, limit = Tally(), Limit("two", 1000, 2)
    held(tally, limit, 0, 12 * SECOND)
    entered(tally, limit, 20 * SECOND)
    entered(tally, limit, 30 * SECOND)
    assert refused(tally, limit, 31 * SECOND).wait_us == 4 * SECOND, "the third part, not the second that is left"
    assert refused(tally, limit, 90 * SECOND).wait_us == 4 * SECOND


def test_the_wait_for_a_place_is_at_least_a_second_at_most_a_minute_and_never_before_the_minute_has_room() -> None:
    for took, wait in ((1000, SECOND), (3600 * SECOND, MINUTE_US)):
        tally, limit = Tally(), Limit("one", 1000, 1)
        held(tally, limit, 0, took)
        entered(tally, limit, took)
        assert refused(tally, limit, took).wait_us == wait
    tally, limit = Tally(), Limit("one", 3, 1)
    held(tally, limit, 0, 5 * SECOND)
    entered(tally, limit, 5 * SECOND)
    assert refused(tally, limit, 6 * SECOND).wait_us == 54 * SECOND


def test_the_last_requests_count_most_and_a_part_of_a_microsecond_is_a_whole_one() -> None:
    tally, limit = Tally(), Limit("one", 1000, 1)
    held(tally, limit, 0, 8 * SECOND)
    held(tally, limit, 10 * SECOND, 26 * SECOND)
    lease = entered(tally, limit, 30 * SECOND)
    assert refused(tally, limit, 30 * SECOND).wait_us == 9 * SECOND
    for _ in range(40):
        tally.settle(lease, 0, 50 * SECOND * NS)
        lease = entered(tally, limit, 30 * SECOND)
    assert 19 * SECOND < refused(tally, limit, 30 * SECOND).wait_us <= 20 * SECOND
    tally = Tally()
    tally.settle(entered(tally, limit, 0), 0, 2 * SECOND * NS + 1)
    entered(tally, limit, 0)
    assert refused(tally, limit, 0).wait_us == 2 * SECOND + 1


def test_a_request_that_is_refused_already_counts_while_there_is_room_to_count() -> None:
    tally = Tally()
    for _ in range(5):
        tally.count(LIMIT, 0)
    assert refused(tally, LIMIT, SECOND).retry_after == 59
    assert entered(tally, LIMIT, MINUTE_US).requests == (3, 2, MINUTE_US)


def test_tokens_are_held_as_reserved_and_counted_as_used() -> None:
    tally = Tally()
    first, second = entered(tally, COUNTED, 0), entered(tally, COUNTED, 0)
    assert tally.reserve(first, 900, 0, NOON * NS) is None
    assert first.minute == (1000, 100, MINUTE_US)
    assert first.day == (2500, 1600, DAY_US // 2)
    refusal = tally.reserve(second, 200, SECOND * NS, (NOON + SECOND) * NS)
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after) == (Reason.OVER_TOKENS, 59)
    assert refusal.minute == (1000, 100, 59 * SECOND)
    tally.settle(second, 0, SECOND * NS)
    tally.settle(first, 30, SECOND * NS)
    third = entered(tally, COUNTED, SECOND)
    assert tally.reserve(third, 970, SECOND * NS, (NOON + SECOND) * NS) is None
    assert third.minute == (1000, 0, MINUTE_US)
    assert third.day == (2500, 1500, DAY_US // 2 - SECOND)


def test_a_call_that_may_produce_more_than_a_minute_allows_can_be_made_alone() -> None:
    tally = Tally()
    first, second = entered(tally, COUNTED, 0), entered(tally, COUNTED, 0)
    assert tally.reserve(first, 2000, 0, NOON * NS) is None
    assert tally.reserve(second, 1, 0, NOON * NS) is not None
    tally.settle(first, 10, 0)
    assert tally.reserve(second, 990, 0, NOON * NS) is None


def test_the_day_ends_at_midnight_utc_and_begins_with_nothing_spent() -> None:
    tally = Tally()
    limit = Limit("daily", 100, 50, tokens_per_day=100)
    first, second = entered(tally, limit, 0), entered(tally, limit, 0)
    evening = 20_001 * DAY_US - 90 * SECOND
    assert tally.reserve(first, 100, 0, evening * NS) is None
    refusal = tally.reserve(second, 1, 0, evening * NS)
    assert refusal is not None
    assert (refusal.retry_after, refusal.minute, refusal.day) == (90, None, (100, 0, 90 * SECOND))
    assert tally.reserve(second, 60, 90 * SECOND * NS, (evening + 90 * SECOND) * NS) is None
    tally.settle(first, 40, 90 * SECOND * NS)
    third = entered(tally, limit, 90 * SECOND)
    assert tally.reserve(third, 1, 90 * SECOND * NS, (evening + 90 * SECOND) * NS) is None
    assert third.day == (100, 39, DAY_US), "what was settled belongs to the day before"


def test_a_tally_is_idle_when_nothing_of_it_makes_a_difference() -> None:
    tally = Tally()
    assert tally.idle(0, NOON * NS)
    lease = entered(tally, COUNTED, 0)
    assert not tally.idle(10 * MINUTE_US * NS, NOON * NS), "open"
    assert tally.reserve(lease, 100, 50 * SECOND * NS, NOON * NS) is None
    tally.settle(lease, 100, 50 * SECOND * NS)
    assert not tally.idle(30 * SECOND * NS, NOON * NS), "the minute of the request"
    assert not tally.idle(100 * SECOND * NS, (NOON + DAY_US) * NS), "the minute of the tokens"
    assert not tally.idle(10 * MINUTE_US * NS, NOON * NS), "the day"
    assert tally.idle(10 * MINUTE_US * NS, (NOON + DAY_US) * NS)


def test_what_has_no_room_is_told_without_being_counted_and_of_several_limits_the_longest_wait() -> None:
    tally = Tally()
    limit = Limit("model", 2, 1, 100, 150)
    assert tally.refusal(limit, 100, 0, NOON * NS) is None
    first = entered(tally, limit, 0)
    assert tally.reserve(first, 60, 0, NOON * NS) is None
    refusal = tally.refusal(limit, 0, SECOND * NS, NOON * NS)
    assert refusal is not None
    assert (refusal.reason, refusal.wait_us) == (Reason.OVER_CONCURRENCY, SECOND)
    refusal = tally.refusal(limit, 41, SECOND * NS, NOON * NS)
    assert refusal is not None
    assert (refusal.reason, refusal.wait_us) == (Reason.OVER_TOKENS, 59 * SECOND)
    refusal = tally.refusal(limit, 100, SECOND * NS, NOON * NS)
    assert refusal is not None
    assert (refusal.reason, refusal.wait_us) == (Reason.OVER_TOKENS, DAY_US // 2)
    tally.settle(first, 60, SECOND * NS)
    tally.settle(entered(tally, limit, SECOND), 0, SECOND * NS)
    refusal = tally.refusal(limit, 1, 2 * SECOND * NS, NOON * NS)
    assert refusal is not None
    assert (refusal.reason, refusal.wait_us) == (Reason.OVER_RATE, 58 * SECOND)
    assert tally.refusal(limit, 100, MINUTE_US * NS, (NOON + DAY_US) * NS) is None, "another minute on another day"


def test_whether_a_reservation_would_be_refused_can_be_asked_without_making_it() -> None:
    tally = Tally()
    lease = entered(tally, COUNTED, 0)
    assert tally.over_tokens(lease, 1000, 0, NOON * NS) is None
    assert tally.reserve(lease, 1000, 0, NOON * NS) is None
    refusal = tally.over_tokens(entered(tally, COUNTED, 0), 1, 0, NOON * NS)
    assert refusal is not None
    assert refusal.wait_us == MINUTE_US
    assert tally.over_tokens(entered(tally, COUNTED, 0), 0, 0, NOON * NS) is None


@dataclass
class Call:
    """A call as the oracle remembers it."""

    lease: Lease
    at: int
    charged: int
    open: bool = True


@dataclass
class Oracle:
    """Everything that was let in, looked through anew for each question."""

    requests: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def requests_in(self, now: int) -> int:
        return sum(at > now - MINUTE_US for at in self.requests)

    def tokens_in(self, now: int) -> int:
        return sum(call.charged for call in self.calls if call.at > now - MINUTE_US)

    def tokens_of(self, day: int, started: int) -> int:
        return sum(call.charged for call in self.calls if (started + call.at) // DAY_US == day)


STEP = st.tuples(
    st.sampled_from([0, 1, SECOND, 7 * SECOND, 59 * SECOND, MINUTE_US, 20 * MINUTE_US]),
    st.integers(0, 120),
    st.floats(0, 1),
    st.integers(0, 4),
)


@given(
    st.lists(STEP, max_size=120),
    st.builds(
        Limit,
        st.just("any"),
        st.integers(1, 8),
        st.integers(1, 4),
        st.none() | st.integers(1, 200),
        st.none() | st.integers(1, 600),
    ),
)
def test_for_any_traffic_no_window_admits_more_than_its_limit_and_none_less(
    steps: list[tuple[int, int, float, int]], limit: Limit
) -> None:
    """Both bounds for each of the four quantities, and each wait, against a list of all that happened."""
    tally, oracle, now, started = Tally(), Oracle(), 0, 20_000 * DAY_US + DAY_US * 23 // 24
    for pause, amount, share, settled in steps:
        now += pause
        for call in [call for call in oracle.calls if call.open][:settled]:
            call.charged = round(call.charged * share)  # an engine produces no more than was asked of it
            call.open = False
            tally.settle(call.lease, call.charged, now * NS)
        room = oracle.requests_in(now) < limit.requests_per_minute
        places = sum(call.open for call in oracle.calls) < limit.concurrent_requests
        verdict = tally.enter(HOLDER, limit, now * NS)
        assert isinstance(verdict, Lease) == (room and places)
        if isinstance(verdict, Refused):
            assert (verdict.reason is Reason.OVER_RATE) == (not room)
            again = copy.deepcopy(tally).enter(HOLDER, limit, (now + verdict.retry_after * SECOND) * NS)
            assert isinstance(again, Lease) or again.reason is Reason.OVER_CONCURRENCY
            assert verdict.retry_after * SECOND - verdict.wait_us < SECOND
        if room:
            oracle.requests.append(now)
        if isinstance(verdict, Refused):
            continue
        call = Call(verdict, now, 0)
        minute, day = oracle.tokens_in(now), oracle.tokens_of((started + now) // DAY_US, started)
        fits_minute = limit.tokens_per_minute is None or minute + min(amount, limit.tokens_per_minute) <= (
            limit.tokens_per_minute
        )
        fits_day = limit.tokens_per_day is None or day + min(amount, limit.tokens_per_day) <= limit.tokens_per_day
        refusal = tally.reserve(verdict, amount, now * NS, (started + now) * NS)
        assert (refusal is None) == (not amount or (fits_minute and fits_day))
        if refusal is None:
            call.charged = amount
        else:
            later = now + refusal.retry_after * SECOND
            once_more = copy.deepcopy(tally).reserve(copy.deepcopy(verdict), amount, later * NS, (started + later) * NS)
            assert once_more is None
        oracle.calls.append(call)
