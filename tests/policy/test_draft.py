from __future__ import annotations

from typing import Any

import pytest

from gateway.policy.decision import Change
from gateway.policy.draft import Draft


@pytest.mark.parametrize(
    "body, name, value, action, after",
    [
        ({}, "a", 1, "set", {"a": 1}),
        ({"a": None}, "a", 1, "set", {"a": 1}),
        ({"a": 2}, "a", 1, "replace", {"a": 1}),
        ({"a": 1}, "a", 1, None, {"a": 1}),
        ({"a": 1}, "a", True, "replace", {"a": True}),
        ({}, "k.m", False, "set", {"k": {"m": False}}),
        ({"k": None}, "k.m", False, "set", {"k": {"m": False}}),
        ({"k": {"m": True, "s": 1}}, "k.m", False, "replace", {"k": {"m": False, "s": 1}}),
    ],
)
def test_a_value_is_set_or_replaced_and_the_same_value_is_no_change(
    body: dict[str, Any], name: str, value: object, action: str | None, after: dict[str, Any]
) -> None:
    draft = Draft(body)
    draft.put(name, value)
    assert draft.body == after
    assert draft.changes == ([Change(action, name, value)] if action else [])


def test_a_member_is_read_by_its_dotted_name() -> None:
    draft = Draft({"k": {"m": 1}, "list": [1]})
    assert draft.get("list") == [1]
    assert draft.get("k.m") == 1
    assert draft.get("k.n") is None
    assert draft.get("list.m") is None
    assert draft.get("none.m") is None


def test_a_field_is_read_by_its_name_and_counts_as_sent_only_with_a_value() -> None:
    draft = Draft({"a": 0, "b": None})
    assert (draft.get("a"), draft.get("b"), draft.get("c")) == (0, None, None)
    assert draft.sent(("c", "b", "a")) == ["a"]


def test_a_number_is_lowered() -> None:
    draft = Draft({"n": 9})
    draft.lower("n", 1)
    assert (draft.body, draft.changes) == ({"n": 1}, [Change("lower", "n", 1)])


def test_a_drop_within_a_list_is_left_to_the_workshop() -> None:
    draft = Draft({"a": 1, "k": {"m": 1, "s": 2}, "list": [{"m": 1}]})
    for name in ("a", "k.m", "list.m"):
        draft.drop(name)
    assert draft.body == {"k": {"s": 2}, "list": [{"m": 1}]}
    assert draft.changes == [Change("drop", "a"), Change("drop", "k.m"), Change("drop", "list.m")]


@pytest.mark.parametrize(
    "body, after, dropped",
    [
        ({"a": None, "b": 1}, {"b": 1}, ["a"]),
        ({"k": {}}, {}, ["k"]),
        ({"k": None}, {}, ["k"]),
        ({"k": {"m": None, "n": None}}, {}, ["k"]),
        ({"k": {"m": None, "n": 1}}, {"k": {"n": 1}}, ["k.m"]),
        ({"k": {"n": 1}}, {"k": {"n": 1}}, []),
        ({"other": {}}, {"other": {}}, []),
    ],
)
def test_null_and_closed_lists_with_nothing_in_them_are_not_sent(
    body: dict[str, Any], after: dict[str, Any], dropped: list[str]
) -> None:
    draft = Draft(body)
    draft.tidy(["k"])
    assert draft.body == after
    assert draft.changes == [Change("drop", name) for name in dropped]


def test_the_callers_own_object_is_never_written_to() -> None:
    body: dict[str, Any] = {"a": None, "k": {"m": 1, "n": None}}
    draft = Draft(body)
    draft.put("k.m", 2)
    draft.drop("k.m")
    draft.put("a", 1)
    draft.tidy(["k"])
    assert body == {"a": None, "k": {"m": 1, "n": None}}
