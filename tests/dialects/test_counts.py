from __future__ import annotations

import pytest

from gateway.dialects.counts import count, counts


@pytest.mark.parametrize(
    "data, found",
    [
        (b'{"usage":{"a":1}}', [{"a": 1}]),
        (b'{"id":1,\n "usage": {"a":1}}', [{"a": 1}]),
        (b'"usage":{"a":1}', [{"a": 1}]),
        (b'data: {"usage":{"a":1}}\n\ndata: {"usage":{"a":2}}\n\n', [{"a": 2}, {"a": 1}]),
        (b'data: {"usage":{"a":1}}\n\ndata: {"usage":null}\n\n', [{"a": 1}]),
        (b'{"usage":{"a":1,"b":{"c":2}}}', [{"a": 1, "b": {"c": 2}}]),
        (b'{"usage":{"a":"}","b":1}}', [{"a": "}", "b": 1}]),
        (b'{"usage":{"a":1,}}', []),
        (b'{"usage":{"a":1', []),
        (b'{"usage":7}', []),
        (b'{"usage":{"a":', []),
        (b'{"usage":[' + b"[" * 5000, []),
        (b'{"a":"\\"usage":{"a":1}"}', []),
        (b"data: {}\n\n", []),
        (b"", []),
    ],
)
def test_counts_are_found_from_the_last_to_the_first(data: bytes, found: list[dict[str, int]]) -> None:
    assert list(counts(data)) == found


@pytest.mark.parametrize("value, number", [(0, 0), (7, 7), (-1, None), (True, None), (1.0, None), ("7", None)])
def test_only_a_whole_number_counts(value: object, number: int | None) -> None:
    assert count(value) == number
