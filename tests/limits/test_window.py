from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.window import MINUTE_NS, Window

SECOND = 1_000_000_000


def test_what_fits_needs_no_wait_and_what_does_not_waits_until_enough_has_left() -> None:
    window = Window()
    window.add(3, 0)
    window.add(4, 10 * SECOND)
    assert window.wait(3, 10, 20 * SECOND) == 0
    assert window.wait(4, 10, 20 * SECOND) == 40 * SECOND
    assert window.wait(7, 10, 20 * SECOND) == 50 * SECOND


def test_an_amount_leaves_after_its_minute_to_the_nanosecond() -> None:
    window = Window()
    window.add(1, 5)
    assert window.wait(1, 1, MINUTE_NS + 4) == 1
    assert window.wait(1, 1, MINUTE_NS + 5) == 0
    assert window.used == 0


def test_what_is_larger_than_the_limit_fits_once_nothing_else_counts() -> None:
    window = Window()
    assert window.wait(50, 10, 0) == 0
    small = window.add(1, 0)
    assert window.wait(50, 10, 1) == MINUTE_NS - 1
    window.correct(small, 0)
    assert window.wait(50, 10, 1) == 0


def test_what_is_left_of_a_limit_is_never_less_than_nothing_and_comes_back() -> None:
    window = Window()
    window.add(7, 0)
    assert (window.left(10, SECOND), window.left(5, SECOND), window.left(5, MINUTE_NS)) == (3, 0, 5)


def test_a_correction_counts_until_its_entry_has_left_and_makes_no_difference_later() -> None:
    window = Window()
    first, second = window.add(10, 0), window.add(10, SECOND)
    window.correct(first, 4)
    assert window.used == 14
    window.correct(second, 12)
    assert window.used == 16
    assert window.wait(0, 100, MINUTE_NS) == 0
    window.correct(first, 90)
    assert window.used == 12


def test_the_reset_is_when_the_last_one_has_left() -> None:
    window = Window()
    assert window.reset(0) == 0
    window.add(1, 0)
    window.add(1, 30 * SECOND)
    assert window.reset(40 * SECOND) == 50 * SECOND
    assert window.reset(1000 * SECOND) == 0


@given(st.lists(st.tuples(st.integers(0, 40 * SECOND), st.integers(0, 12)), max_size=60), st.integers(1, 20))
def test_no_minute_holds_more_than_the_limit_and_every_wait_is_true(steps: list[tuple[int, int]], limit: int) -> None:
    """A list of all amounts is the oracle: what it says of the last minute decides, in both directions."""
    window, now, taken = Window(), 0, list[tuple[int, int]]()
    for pause, amount in steps:
        now += pause
        last = sum(size for at, size in taken if at > now - MINUTE_NS)
        wait = window.wait(amount, limit, now)
        assert (wait == 0) == (last + min(amount, limit) <= limit)
        if wait:
            left = sum(size for at, size in taken if at > now + wait - MINUTE_NS)
            assert left + min(amount, limit) <= limit
            before = sum(size for at, size in taken if at > now + wait - 1 - MINUTE_NS)
            assert before + min(amount, limit) > limit
        else:
            window.add(amount, now)
            taken.append((now, amount))
