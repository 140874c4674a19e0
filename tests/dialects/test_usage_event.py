from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.dialects import openai_answers
from gateway.dialects.call import Usage
from gateway.dialects.usage_event import COUNT_FROM, take_usage, without_usage

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
        ([LAST_COUNT + b"\nid: 7"], []),
        ([b"data: {\ndata" + LAST_COUNT.removeprefix(b"data").replace(b"{", b"", 1)], []),
    ],
)  # fmt: skip
def test_only_an_event_that_is_nothing_but_a_count_is_left_out(
    events: list[bytes], left: list[bytes], end: bytes
) -> None:
    def joined(parts: list[bytes]) -> bytes:
        return b"".join(part + end for part in parts)

    assert without_usage(joined(events)) == joined(left)
    assert take_usage(joined(events))[1] == joined(left)


def test_an_event_that_its_blank_line_does_not_end_yet_is_left_as_it_is_unless_it_is_a_count() -> None:
    assert without_usage(LAST_COUNT + b"\n\n" + ONE_TOKEN) == ONE_TOKEN
    assert without_usage(ONE_TOKEN + b"\n\n" + LAST_COUNT) == ONE_TOKEN + b"\n\n"


PIECES = [LAST_COUNT, ONE_TOKEN, NESTED, b"data: [DONE]", b": x"]
PIECES += [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n", b'"choices":[]', b"\xff"]


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=12).map(b"".join))
def test_whatever_an_engine_writes_what_is_left_is_what_was_there_in_its_order(events: bytes) -> None:
    left = without_usage(events)
    there = iter(re.split(rb"\r\n|\n|\r", events))
    assert all(line in there for line in re.split(rb"\r\n|\n|\r", left) if line)  # each behind the one before
    assert without_usage(left) == left


EACH = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
FLAT = b'{"usage":{"prompt_tokens":3},"choices":[]}'
DEEP = b'data: {"choices":[],"usage":{"x":{"usage":{"prompt_tokens":4}}}}'
MORE = [*PIECES, EACH, FLAT, b"data:" + FLAT, DEEP]


@example(LAST_COUNT + b"\n\n" + EACH)
@given(st.lists(st.sampled_from(MORE) | st.binary(max_size=4), max_size=12).map(b"".join))
def test_count_and_rest_are_what_each_would_be_alone(events: bytes) -> None:
    found, left = take_usage(events)
    assert left == without_usage(events)
    if found is not None:
        assert openai_answers.usage(events) is not None
    if b"usage" not in events.replace(LAST_COUNT, b"").replace(EACH, b""):
        assert found == openai_answers.usage(events)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("behind", [b"", b"data: [DONE]"])
def test_the_count_of_a_long_piece_is_where_it_is_looked_for(behind: bytes, end: bytes) -> None:
    events = (ONE_TOKEN + end) * 60
    piece = events + LAST_COUNT + end + (behind + end if behind else b"")
    assert piece.find(b'"usage":', COUNT_FROM) != -1
    assert take_usage(piece) == (Usage(1, 2), piece.replace(LAST_COUNT + end, b""))
