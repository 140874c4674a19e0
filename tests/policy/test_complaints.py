from __future__ import annotations

import pytest

from gateway.policy.complaints import Complaints
from gateway.policy.source import PolicyError, read


def complaints() -> Complaints:
    """Give complaints about a small file."""
    return Complaints(read("a: 1\nb:\n  c: x\n", "f"))


def test_nothing_to_complain_about_settles() -> None:
    complaints().settle()


def test_all_complaints_come_at_once_with_their_places() -> None:
    found = complaints()
    found.add(("b", "c"), "is wrong")
    found.add(("a",), "is wrong too")
    with pytest.raises(PolicyError) as caught:
        found.settle()
    assert [str(problem) for problem in caught.value.problems] == ["f:1:1: a: is wrong too", "f:3:3: b.c: is wrong"]


def test_a_known_name_is_known() -> None:
    assert complaints().knows(("a",), "chat", ["chat"], "endpoint")


def test_an_unknown_name_is_told_with_the_nearest_one() -> None:
    found = complaints()
    assert not found.knows(("b", "c"), "chatt", ["models", "chat"], "endpoint")
    with pytest.raises(PolicyError, match="no endpoint `chatt`; the nearest is `chat`"):
        found.settle()


def test_where_there_are_no_names_none_is_the_nearest() -> None:
    found = complaints()
    assert not found.knows(("b", "c"), "local", [], "model")
    with pytest.raises(PolicyError, match=r"this file has no model `local`$"):
        found.settle()
