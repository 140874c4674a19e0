"""Days of the calendar as ISO text: what a policy file writes, and what the court compares."""

from __future__ import annotations

from datetime import date, timedelta


def is_day(text: str) -> bool:
    """Tell whether a text of the right form is a day of the calendar (2027-02-30 is none)."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def day_before(text: str) -> str:
    """Give the day before a day."""
    return (date.fromisoformat(text) - timedelta(days=1)).isoformat()
