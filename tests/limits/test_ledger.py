from __future__ import annotations

import pytest

from gateway.limits.ledger import Holder, Lease, Quota, Refused
from gateway.limits.limit import Limit
from gateway.reasons import Reason


@pytest.mark.parametrize("wait_us,seconds", [(0, 1), (1, 1), (1_000_000, 1), (1_000_001, 2), (59_999_999, 60)])
def test_retry_after_is_in_whole_seconds_rounded_up_and_at_least_one(wait_us: int, seconds: int) -> None:
    assert Refused(Reason.OVER_RATE, wait_us, Quota(1, 0, wait_us)).retry_after == seconds


def test_names_cannot_be_chosen_so_that_two_holders_are_one() -> None:
    assert Holder("a|b", "c") != Holder("a", "b|c")
    assert Holder("p", "c", "x") != Holder("p", "c")
    assert Holder("p", "c|x") != Holder("p", "c", "x")


def test_a_model_is_a_holder_that_no_client_can_be() -> None:
    assert Holder.of_model("p", "big") == Holder("p", "", None, "big")
    assert Holder.of_model("p", "big") != Holder("p", "big")


def test_a_lease_begins_with_nothing_reserved() -> None:
    lease = Lease(Holder("p", "c"), Limit("l", 1, 1, 10, 20), 0)
    assert (lease.reserved, lease.minute, lease.day, lease.settled) == (0, None, None, False)


def test_a_lease_says_what_is_left_and_that_its_minutes_end_when_it_leaves_them() -> None:
    lease = Lease(Holder("p", "c"), Limit("l", 5, 1, 10, 20), 4)
    lease.minute_left, lease.day_left, lease.day_reset_us = 3, 2, 1_000_000
    assert lease.requests == (5, 4, 60_000_000)
    assert (lease.minute, lease.day) == ((10, 3, 60_000_000), (20, 2, 1_000_000))
