from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.usage_event import without_usage

LAST_COUNT = b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}'
ONE_TOKEN = (
    b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"\\"choices\\":[] \xf0\x9f\x8c\x8d"}}],"usage":null}'
)


NESTED = b'data: {"x":{"choices":[]},"choices":[1],"usage":{}}'


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize(
    "events,left",
    [
        ([LAST_COUNT], []),
        ([ONE_TOKEN, LAST_COUNT, b"data: [DONE]"], [ONE_TOKEN, b"data: [DONE]"]),
        ([b": keep-alive", LAST_COUNT, ONE_TOKEN], [b": keep-alive", ONE_TOKEN]),
        ([ONE_TOKEN, ONE_TOKEN], [ONE_TOKEN, ONE_TOKEN]),
        ([b'data: {"choices": [ ]}'], [b'data: {"choices": [ ]}']),
        ([b'data: {"choices":[],"usage":null}'], [b'data: {"choices":[],"usage":null}']),
        ([b'data: {"choices":[],"prompt_filter":1'], [b'data: {"choices":[],"prompt_filter":1']),
        ([b'data: [{"choices":[]}]'], [b'data: [{"choices":[]}]']),
        ([NESTED], [NESTED]),
        ([b"id: 7\n" + LAST_COUNT + b"\nretry: 5"], []),
        ([b"data: {\ndata" + LAST_COUNT.removeprefix(b"data").replace(b"{", b"", 1)], []),
    ],
)  # fmt: skip
def test_only_an_event_that_is_nothing_but_a_count_is_left_out(
    events: list[bytes], left: list[bytes], end: bytes
) -> None:
    def joined(parts: list[bytes]) -> bytes:
        return b"".join(part + end for part in parts)

    assert without_usage(joined(events)) == joined(left)


def test_an_event_that_its_blank_line_does_not_end_yet_is_left_as_it_is_unless_it_is_a_count() -> None:
    assert without_usage(LAST_COUNT + b"\n\n" + ONE_TOKEN) == ONE_TOKEN
    assert without_usage(ONE_TOKEN + b"\n\n" + LAST_COUNT) == ONE_TOKEN + b"\n\n"


PIECES = [LAST_COUNT, ONE_TOKEN, NESTED, b"data: [DONE]", b": x"]
PIECES += [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n", b'"choices":[]', b"\xff"]


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=12).map(b"".join))
def test_whatever_an_engine_writes_what_is_left_is_what_was_there_in_its_order(events: bytes) -> None:
    left = without_usage(events)
    at = 0
    for part in re.split(rb"\r\n\r\n|\n\n|\r\r", left):
        at = events.index(part, at) + len(part)
    assert without_usage(left) == left
