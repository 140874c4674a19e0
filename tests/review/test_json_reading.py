from __future__ import annotations

import pytest

from gateway.review.json_reading import items, member, read


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"\xff", b"1", b"[" * 100_000])
def test_what_is_no_object_is_an_empty_one(body: bytes) -> None:
    assert read(body) == {}


def test_an_object_is_read() -> None:
    assert read(b'{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize(
    "path, found",
    [
        (("a", 0, "b"), 1),
        (("a", 1, "b"), None),
        (("a", "b"), None),
        ((0,), None),
        (("a", 0, "b", "c"), None),
        ((), {"a": [{"b": 1}]}),
    ],
)
def test_a_path_that_ends_early_leads_to_nothing(path: tuple[str | int, ...], found: object) -> None:
    assert member({"a": [{"b": 1}]}, *path) == found


def test_only_a_list_has_items() -> None:
    assert items([1, 2]) == [1, 2]
    assert items({"a": 1}) == items(None) == items("ab") == []
