from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.failures import Bound, Bucket, Failures

EACH, REST = Bound(3, 0.5), Bound(5, 10.0)


def test_a_burst_fits_and_then_one_in_each_interval() -> None:
    failures = Failures(EACH, REST)
    assert [failures.fail("192.0.2.1", 100) for _ in range(4)] == [0, 0, 0, 2.0]
    assert failures.wait_s("192.0.2.1", 101.5) == 0.5
    assert failures.fail("192.0.2.1", 102) == 0
    assert failures.fail("192.0.2.1", 102) == 2.0


def test_who_waits_as_told_is_let_through() -> None:
    """A refused one is not counted, so Retry-After is true however often somebody tries meanwhile."""
    failures = Failures(EACH, REST)
    waits = [failures.fail("192.0.2.1", 100) for _ in range(100)]
    assert waits[-1] == 2.0
    assert failures.fail("192.0.2.1", 102) == 0


def test_each_address_has_its_own_bucket_and_the_rest_share_one() -> None:
    failures = Failures(EACH, REST)
    while not failures.fail("192.0.2.1", 0):
        pass
    assert failures.wait_s("192.0.2.2", 0) == 0
    assert failures.fail("192.0.2.2", 0) == 0
    assert [bool(failures.fail(None, 0)) for _ in range(6)] == [False] * 5 + [True]
    assert failures.wait_s(None, 0) == pytest.approx(0.1)
    assert failures.wait_s("192.0.2.3", 0) == 0


def test_one_home_of_ipv6_is_one_address_however_many_it_uses() -> None:
    failures = Failures(EACH, REST)
    for number in range(3):
        assert failures.fail(f"2001:db8:1:2::{number:x}", 0) == 0
    assert failures.fail("2001:db8:1:2:ffff::1", 0) > 0
    assert failures.fail("2001:db8:1:3::1", 0) == 0


def test_an_ipv4_address_is_the_same_when_it_is_written_as_ipv6() -> None:
    failures = Failures(EACH, REST)
    for _ in range(3):
        failures.fail("::ffff:192.0.2.1", 0)
    assert failures.fail("192.0.2.1", 0) > 0


def test_a_text_that_is_no_address_is_counted_as_it_stands() -> None:
    failures = Failures(Bound(1, 1.0), REST)
    assert failures.fail("unknown", 0) == 0
    assert failures.fail("unknown", 0) == 1.0


def test_memory_is_bounded_and_who_failed_longest_ago_is_forgotten_first() -> None:
    failures = Failures(Bound(1, 0.001), REST, most=3)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.1", "192.0.2.4"):
        failures.fail(address, 0)
    assert len(failures) == 3
    assert failures.wait_s("192.0.2.1", 0) > 0
    assert failures.wait_s("192.0.2.2", 0) == 0
    assert failures.wait_s("192.0.2.3", 0) > 0


@given(st.lists(st.floats(min_value=0, max_value=2), min_size=1, max_size=200))
def test_no_more_than_the_bound_fits_in_any_time(pauses: list[float]) -> None:
    bucket, now, fitted = Bucket(Bound(4, 2.0)), 0.0, []
    for pause in pauses:
        now += pause
        if not bucket.wait_s(now):
            bucket.count(now)
            fitted.append(now)
    for first, begun in enumerate(fitted):
        for last in range(first, len(fitted)):
            assert last - first + 1 <= 4 + 2.0 * (fitted[last] - begun) + 1e-6
