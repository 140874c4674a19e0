"""Streams are cut behind blank lines only, whatever pieces they arrive in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.event_stream import HELD_AT_MOST, EventBuffer, end_of_last_event

EVENTS = 'data: {"x": "ä€😀"}\n\n: comment\n\nevent: a\ndata: b\n\ndata: [DONE]\n\n'.encode()
ENDINGS = [b"\n", b"\r\n", b"\r"]


@pytest.mark.parametrize(
    "data, end",
    [
        (b"", 0),
        (b"data: a", 0),
        (b"data: a\n", 0),
        (b"data: a\n\n", 9),
        (b"data: a\n\ndata: b", 9),
        (b"data: a\r\n\r\n", 11),
        (b"data: a\r\n\r\ndata: b\r\n", 11),
        (b"data: a\n\r\nx", 10),
        (b"data: a\r\rx", 9),
        (b"data: a\r\rdata: b\n\nx", 18),
        (b"\n\n", 2),
    ],
)
def test_the_end_of_the_last_event_is_behind_the_last_blank_line(data: bytes, end: int) -> None:
    assert end_of_last_event(data) == end


def test_whole_events_pass_as_they_are() -> None:
    buffer = EventBuffer()
    assert buffer.feed(EVENTS) is EVENTS
    assert buffer.at_boundary


def test_an_unfinished_event_is_held_back_until_it_is_whole() -> None:
    buffer = EventBuffer()
    assert buffer.feed(b"data: a\n\ndata: b") == b"data: a\n\n"
    assert buffer.at_boundary
    assert buffer.feed(b"c\n") == b""
    assert buffer.feed(b"\ndata: d") == b"data: bc\n\n"
    assert buffer.flush() == b"data: d"
    assert buffer.flush() == b""


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_cut_of_a_stream_gives_the_same_bytes_and_only_whole_events(ending: bytes) -> None:
    stream = EVENTS.replace(b"\n", ending)
    for step in range(1, len(stream) + 1):
        buffer = EventBuffer()
        passed = b""
        for start in range(0, len(stream), step):
            passed += buffer.feed(stream[start : start + step])
            assert buffer.at_boundary
            assert end_of_last_event(passed) == len(passed)
        assert passed + buffer.flush() == stream


def test_an_event_longer_than_what_is_held_passes_in_pieces() -> None:
    buffer = EventBuffer()
    half = b"x" * (HELD_AT_MOST // 2 + 1)
    pieces = [b"data: " + half, half, b"y\n", b"\nrest"]
    seen = [(buffer.feed(piece), buffer.at_boundary) for piece in pieces]
    assert seen == [(b"", True), (b"data: " + half + half, False), (b"y\n", False), (b"\n", True)]
    assert buffer.flush() == b"rest"


def test_a_long_event_that_ends_with_its_last_piece_brings_the_boundary_back() -> None:
    buffer = EventBuffer()
    buffer.feed(b"x" * (HELD_AT_MOST + 1))
    assert buffer.feed(b"end\n\n") == b"end\n\n"
    assert buffer.at_boundary


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b"\n\n", b"data: b\n\n"]), max_size=30))
def test_no_byte_is_lost_or_made_up(pieces: list[bytes]) -> None:
    buffer = EventBuffer()
    assert b"".join(map(buffer.feed, pieces)) + buffer.flush() == b"".join(pieces)
