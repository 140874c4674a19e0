from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from gateway.limits.limit import Limit


def test_tokens_are_not_limited_unless_the_policy_says_so() -> None:
    limit = Limit("standard", requests_per_minute=60, concurrent_requests=4)
    assert limit.tokens_per_minute is None
    assert limit.tokens_per_day is None


def test_a_limit_cannot_be_changed_after_it_was_compiled() -> None:
    limit = Limit("standard", 60, 4, 1000, 100_000)
    with pytest.raises(FrozenInstanceError):
        limit.requests_per_minute = 10**9  # type: ignore[misc]  # the very thing that must fail
    assert limit == Limit("standard", 60, 4, 1000, 100_000)
