from __future__ import annotations

import pytest

from gateway.policy.days import day_before, is_day


@pytest.mark.parametrize("text, day", [("2027-01-31", True), ("2028-02-29", True), ("2027-02-29", False)])
def test_only_days_of_the_calendar_are_days(text: str, day: bool) -> None:  # noqa: FBT001  (the expected answer)
    assert is_day(text) is day


@pytest.mark.parametrize("text, before", [("2027-01-01", "2026-12-31"), ("2028-03-01", "2028-02-29")])
def test_the_day_before_crosses_months_and_years(text: str, before: str) -> None:
    assert day_before(text) == before
