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


def test_a_lease_begins_with_nothing_reserved() -> None:
    lease = Lease(Holder("p", "c"), Limit("l", 1, 1), Quota(1, 0, 60_000_000))
    assert (lease.reserved, lease.minute, lease.day, lease.settled) == (0, None, None, False)
