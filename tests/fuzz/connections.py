"""Fuzz targets for the door: any bytes on a connection, in any pieces, and what other parsers make of the same bytes.

Enters: any bytes. Leaves: nothing, or an ``AssertionError``.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import h11
import httptools

from gateway.adapters.edge_limits import PIPELINE_AT_MOST
from gateway.reasons import Reason
from tests.fuzz.memory import Door
from tests.fuzz.readers import pieces

if TYPE_CHECKING:
    from tests.fuzz.memory import Reading

DIFFERENCES = (
    ("httptools", "keeps white space behind a value", "it is no part of the value (RFC 9112 §5.1); the door cuts it"),
    ("h11", "writes the transfer coding in lower case", "codings know no case (RFC 9112 §7)"),
    ("h11", "refuses more than one space beside the target", "RFC 9112 §3 lets it be read by words: they are the same"),
    ("h11", "refuses empty lines before a request line", "they are ignored (RFC 9112 §2.2), here and by httptools"),
)
"""Where one of the other parsers reads otherwise what goes on here, and why that tells no two parties apart."""

LONGEST_FLOOD = 256 * 1024


@cache
def door() -> Door:
    """Give the one door of this process."""
    return Door()


def fuzz_edge(data: bytes) -> None:
    """In any pieces the same requests, never an exception, never more than bounded memory, an answer to each."""
    control, stream = (data[0], data[1:]) if data else (0, b"")
    if control & 0x80 and stream:  # the end of it, many times over
        tail = stream[-(1 << (control >> 4 & 7)) :]
        stream += tail * (LONGEST_FLOOD // len(tail))
        control |= 7  # pieces of 4 KiB and of one octet
    whole = door().read(pieces(0, stream))
    in_pieces = door().read(pieces(control, stream), eager=control & 8 != 0)
    for reading in (whole, in_pieces):
        assert Reason.INTERNAL not in reading.unreadable
        assert len(reading.unreadable) <= 1
        assert _answers(bytes(reading.written)) == len(reading.handed) + len(reading.unreadable)
        assert reading.closed or not reading.unreadable
    same_requests(whole, in_pieces)


def same_requests(one: Reading, other: Reading) -> None:
    """Check that pieces change nothing but how early a connection ends that is refused or asks for too much at once.

    Too much are many requests, and a long body behind a request that is not answered yet.
    """
    longer, shorter = sorted((one.handed, other.handed), key=len, reverse=True)
    for left, right in zip(shorter, longer, strict=False):
        if left.refused is None and right.refused is None:
            assert left == right
        else:
            assert (left.method, left.target) == (right.method, right.target)
            assert left.refused is not None
            assert right.refused is not None
    if len(shorter) < len(longer):
        early = shorter[-1].refused is not None if shorter else False
        pipelined = len(longer) > PIPELINE_AT_MOST
        fault = one.unreadable or other.unreadable
        body = {b"content-length", b"transfer-encoding"} & {name for name, _ in longer[len(shorter)].headers}
        crowded = body and min((one, other), key=lambda reading: len(reading.handed)).closed
        assert early or pipelined or fault or crowded, "a request was read in one way only"


def _answers(written: bytes) -> int:
    return written.count(b"HTTP/1.1 ") - written.count(b"HTTP/1.1 100 ")


@dataclass
class Message:
    """One request as another parser read it."""

    method: bytes = b""
    target: bytes = b""
    version: str = ""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    trailers: int = 0
    whole: bool = False


def fuzz_differential(data: bytes) -> None:
    """Whatever goes on from the door is read the same by bare httptools and by h11, to the same last byte."""
    reading = door().read(pieces(0, data))
    for other in (read_by_httptools(data), read_by_h11(data)):
        for number, ours in enumerate(reading.handed):
            if ours.refused is not None:
                continue
            assert number < len(other), f"{ours.method} {ours.target!r} exists here only"
            theirs = other[number]
            assert theirs.whole, "they wait for more of what is complete here"
            assert (theirs.method.decode(), theirs.target) == (ours.method, ours.target)
            assert theirs.version == ours.version
            assert [*map(_alike, theirs.headers)] == [*map(_alike, ours.headers)]
            assert theirs.body == ours.body


def _alike(field: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Take away what parsers may spell differently; see ``DIFFERENCES``."""
    name, value = field
    value = value.rstrip(b" \t")
    return name, value.lower() if name == b"transfer-encoding" else value


class _Listener:
    """Collects what bare httptools calls back."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._in_head = False
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self.messages.append(Message())
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        self.messages[-1].target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            self.messages[-1].headers.append((name.lower(), value))
        else:
            self.messages[-1].trailers += 1

    def on_headers_complete(self) -> None:
        self._in_head = False
        self.messages[-1].method = self.parser.get_method()
        self.messages[-1].version = self.parser.get_http_version()

    def on_body(self, body: bytes) -> None:
        self.messages[-1].body += body

    def on_message_complete(self) -> None:
        self.messages[-1].whole = True


def read_by_httptools(data: bytes) -> list[Message]:
    """Read requests by httptools as it comes."""
    listener = _Listener()
    with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        listener.parser.feed_data(data)
    return listener.messages


_REQUEST_LINE = re.compile(rb"\A([A-Z]+) +([!-~]+) +(HTTP/)")


def read_by_h11(data: bytes) -> list[Message]:
    """Read requests by h11, each from where the one before it ended."""
    messages: list[Message] = []
    try:
        while data := data.lstrip(b"\r\n"):  # RFC 9112 §2.2: empty lines before a request line are ignored
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
            connection.receive_data(_REQUEST_LINE.sub(rb"\1 \2 \3", data, count=1))
            while not isinstance(event := connection.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    version = event.http_version.decode()
                    messages.append(Message(event.method, event.target, version, [*event.headers]))
                elif isinstance(event, h11.Data):
                    messages[-1].body += bytes(event.data)
                else:
                    return messages
            messages[-1].whole = True
            if connection.their_state is not h11.DONE:
                return messages
            data = connection.trailing_data[0]
    except h11.RemoteProtocolError:
        pass
    return messages
