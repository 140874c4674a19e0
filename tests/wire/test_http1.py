"""The engine's answers are read whole, byte by byte and in pieces, with the same result each time."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import pytest

from gateway.reasons import Malformed, Reason
from gateway.wire.http1 import HEAD_AT_MOST, INTERIM_AT_MOST, ResponseReader


class Read(NamedTuple):
    """What a reader has seen once all bytes are fed."""

    status: int
    body: bytes
    complete: bool
    reusable: bool
    excess: bool


def read(data: bytes, step: int) -> tuple[ResponseReader, Read]:
    reader = ResponseReader()
    body = b""
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
        body += reader.take()
        if reader.excess:
            break
    return reader, Read(reader.status, body, reader.complete, reader.reusable, reader.excess)


OK = b"HTTP/1.1 200 OK\r\n"
STEPS = [1, 2, 3, 7, 1 << 20]

WELL_FORMED = {
    "content-length": (OK + b"content-length: 3\r\n\r\nabc", Read(200, b"abc", True, True, False)),
    "empty body": (OK + b"content-length: 0\r\n\r\n", Read(200, b"", True, True, False)),
    "chunked": (
        OK + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        Read(200, b"abc", True, True, False),
    ),
    "chunk extensions and trailers are dropped": (
        OK + b"Transfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nx-evil: 1\r\n\r\n",
        Read(200, b"abc", True, True, False),
    ),
    "close": (OK + b"connection: close\r\ncontent-length: 3\r\n\r\nabc", Read(200, b"abc", True, False, False)),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc", Read(200, b"abc", True, False, False)),
    "interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
        + OK
        + b"content-length: 1\r\n\r\na",
        Read(200, b"a", True, True, False),
    ),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", Read(204, b"", True, True, False)),
    "304 with a length": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", Read(304, b"", True, True, False)),
    "204 with a body": (b"HTTP/1.1 204 No Content\r\n\r\nabc", Read(204, b"", True, False, True)),
    "more than was announced": (OK + b"content-length: 3\r\n\r\nabcX", Read(200, b"abc", True, False, True)),
    "a second answer": (
        OK + b"content-length: 1\r\n\r\na" + OK + b"content-length: 1\r\n\r\nb",
        Read(200, b"a", True, False, True),
    ),
    "bytes behind a close": (
        OK + b"connection: close\r\ncontent-length: 1\r\n\r\nab",
        Read(200, b"a", True, False, True),
    ),
    "unfinished": (OK + b"content-length: 3\r\n\r\nab", Read(200, b"ab", False, False, False)),
    "until close": (OK + b"\r\nabc", Read(200, b"abc", False, False, False)),
}

MALFORMED = {
    "garbage": b"garbage\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH\r\n",
    "another version": b"HTTP/2.0 200 OK\r\n\r\n",
    "a status of no class": b"HTTP/1.1 600 OK\r\ncontent-length: 0\r\n\r\n",
    "a switch of protocols": b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    "two lengths": OK + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabc",
    "length and chunked": OK + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "a negative length": OK + b"content-length: -3\r\n\r\nabc",
    "another transfer coding in a field of its own": OK
    + b"transfer-encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another version behind an interim answer": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/2.0 200 OK\r\n\r\n",
    "another transfer coding": OK + b"transfer-encoding: gzip, chunked\r\n\r\n",
    "chunked in HTTP/1.0": b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "a bad chunk size": OK + b"transfer-encoding: chunked\r\n\r\nZZ\r\nabc\r\n",
    "a chunk without its end": OK + b"transfer-encoding: chunked\r\n\r\n2\r\nabcd\r\n",
    "a folded field": OK + b"x: a\r\n b\r\n\r\n",
    "a space before the colon": OK + b"content-length : 3\r\n\r\nabc",
    "an endless head": OK + b"x: " + b"a" * (HEAD_AT_MOST + 1),
    "endless interim answers": b"HTTP/1.1 100 Continue\r\n\r\n" * (INTERIM_AT_MOST + 1),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", WELL_FORMED)
def test_a_well_formed_answer_is_read(name: str, step: int) -> None:
    data, expected = WELL_FORMED[name]
    assert read(data, step)[1] == expected


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_answer_is_refused(name: str, step: int) -> None:
    if step == 1 and len(MALFORMED[name]) > 1000:
        step = 7
    with pytest.raises(Malformed) as refused:
        read(MALFORMED[name], step)
    assert refused.value.reason is Reason.ENGINE_MALFORMED


def test_an_answer_without_framing_ends_with_the_connection() -> None:
    reader, _ = read(OK + b"\r\nabc", 1)
    assert reader.eof()
    assert reader.complete
    assert not reader.reusable


@pytest.mark.parametrize(
    "data",
    [b"", b"HTTP/1.1 2", OK + b"content-length: 3\r\n\r\nab", OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"],
)
def test_an_answer_cut_short_is_not_complete(data: bytes) -> None:
    reader, _ = read(data, 1)
    assert not reader.eof()


def test_a_complete_answer_stays_complete_when_the_connection_ends() -> None:
    reader, _ = read(OK + b"content-length: 0\r\n\r\n", 1)
    assert reader.eof()


def test_header_names_come_in_lower_case_and_trailers_not_at_all() -> None:
    reader, _ = read(OK + b"X-A: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-b: 2\r\n\r\n", 1)
    assert reader.headers == {b"x-a": b"1", b"transfer-encoding": b"chunked"}
    assert reader.chunked
    assert reader.content_length is None


def test_of_several_fields_with_one_name_the_first_is_kept() -> None:
    reader, _ = read(OK + b"x-a: 1\r\nX-A: 2\r\ncontent-length: 0\r\n\r\n", 1)
    assert reader.headers == {b"x-a": b"1", b"content-length": b"0"}


def test_fields_of_interim_answers_are_not_merged() -> None:
    reader, _ = read(b"HTTP/1.1 103 Early Hints\r\nx-a: 1\r\n\r\n" + OK + b"content-length: 0\r\n\r\n", 1)
    assert reader.headers == {b"content-length": b"0"}


def test_only_an_answer_of_which_nothing_came_is_untouched() -> None:
    reader = ResponseReader()
    assert reader.untouched
    reader.feed(b"H")
    assert not reader.untouched


def test_pieces_that_came_together_are_taken_together() -> None:
    reader = ResponseReader()
    reader.feed(OK + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n")
    assert reader.take() == b"ab"
    assert reader.take() == b""


class _Parts(list[bytes]):
    """Lives as long as its reader does, and can be watched."""


def test_a_closed_reader_is_freed_without_the_garbage_collector() -> None:
    reader = ResponseReader()
    reader.feed(OK + b"content-length: 0\r\n\r\n")
    freed: list[str] = []
    reader.parts = _Parts()
    weakref.finalize(reader.parts, freed.append, "parts")
    reader.close()
    del reader
    assert freed == ["parts"]


AGAIN = {name: data for name, (data, seen) in WELL_FORMED.items() if seen[2:] == (True, True, False)}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("second", AGAIN)
@pytest.mark.parametrize("first", AGAIN)
def test_the_next_answer_of_a_connection_is_read_as_by_a_new_reader(first: str, second: str, step: int) -> None:
    reader, _ = read(AGAIN[first], step)
    assert reader.reusable
    reader.parts += [b"left"] * (step % 2)  # or nothing
    reader.begin()
    assert (reader.untouched, reader.headers, reader.parts) == (True, {}, [])
    body = b""
    for start in range(0, len(AGAIN[second]), step):
        reader.feed(AGAIN[second][start : start + step])
        body += reader.take()
    new, seen = read(AGAIN[second], step)
    assert Read(reader.status, body, reader.complete, reader.reusable, reader.excess) == seen
    assert (reader.headers, reader.content_length, reader.chunked) == (new.headers, new.content_length, new.chunked)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"content-length: 3\r\n\r\nab",
        OK + b"content-length: 3\r\n\r\nabcX",
        OK + b"content-length: 0\r\n\r\nH",
        OK + b"connection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP",
    ],
)
def test_a_reader_that_does_not_stand_between_two_answers_begins_no_other(data: bytes) -> None:
    reader, _ = read(data, 1 << 20)
    with pytest.raises(ValueError, match="between two responses"):
        reader.begin()


def test_a_reader_that_refused_an_answer_begins_no_other() -> None:
    reader = ResponseReader()
    with pytest.raises(Malformed):
        reader.feed(b"HTTP/1.1 999 Odd\r\n\r\n")
    with pytest.raises(ValueError, match="between two responses"):
        reader.begin()
