from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gateway.dialects.changes import changed, value_after


@dataclass(frozen=True)
class Change:
    action: str
    field: str
    value: Any = None


@pytest.mark.parametrize(
    "body, change, after",
    [
        ({}, Change("set", "a", 1), {"a": 1}),
        ({"a": 1}, Change("replace", "a", 2), {"a": 2}),
        ({"a": 9}, Change("lower", "a", 5), {"a": 5}),
        ({"a": 1, "b": 2}, Change("drop", "a"), {"b": 2}),
        ({"b": 2}, Change("drop", "a"), {"b": 2}),
        ({}, Change("set", "k.e", False), {"k": {"e": False}}),
        ({"k": None}, Change("set", "k.e", False), {"k": {"e": False}}),
        ({"k": {"e": None, "s": 1}}, Change("set", "k.e", True), {"k": {"e": True, "s": 1}}),
        ({"k": {"e": 1, "s": 1}}, Change("drop", "k.e"), {"k": {"s": 1}}),
        ({"k": {"s": 1}}, Change("drop", "k.e"), {"k": {"s": 1}}),
        ({"k": "text"}, Change("drop", "k.e"), {"k": "text"}),
        (
            {"m": [{"c": "text", "x": 1}, {"c": [{"u": 1, "t": 2}, {"t": 3}]}, 4]},
            Change("drop", "m.c.u"),
            {"m": [{"c": "text", "x": 1}, {"c": [{"t": 2}, {"t": 3}]}, 4]},
        ),
    ],
)
def test_a_change_is_made_where_its_name_leads(body: dict[str, Any], change: Change, after: dict[str, Any]) -> None:
    assert changed(body, [change]) == after


def test_the_old_body_stays_as_it_was() -> None:
    body: dict[str, Any] = {"k": {"e": 1}, "m": [{"u": 1}]}
    changed(body, [Change("set", "k.e", 2), Change("drop", "m.u"), Change("drop", "k")])
    assert body == {"k": {"e": 1}, "m": [{"u": 1}]}


def test_changes_are_made_in_their_order() -> None:
    assert changed({}, [Change("set", "a", 1), Change("drop", "a")]) == {}


@pytest.mark.parametrize(
    "fields,changes,name,value",
    [
        ({"a": 1}, [], "a", 1),
        ({}, [], "a", None),
        ({"a": 1}, [Change("lower", "a", 0), Change("lower", "b", 9)], "a", 0),
        ({"a": 1}, [Change("set", "a", 2), Change("replace", "a", 3)], "a", 3),
        ({"a": {"b": True}}, [], "a.b", True),
        ({"a": {"b": True}}, [Change("replace", "a.b", value=False)], "a.b", False),
        ({"a": {"b": True}}, [Change("drop", "a")], "a.b", None),
        ({"a": None}, [], "a.b", None),
        ({}, [Change("set", "a", {"b": 5})], "a.b", 5),
    ],
)
def test_the_value_of_a_field_after_all_changes_is_told_without_making_them(
    fields: dict[str, Any], changes: list[Change], name: str, value: object
) -> None:
    assert value_after(fields, changes, name) == value
