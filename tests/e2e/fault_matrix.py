"""The faults that an engine can have, what the caller gets for each, and the table of what was seen.

Leaves: ``APIS``, each with its faults: a script for a stream and one for a plain answer; and ``MATRIX``. An engine that
cannot be reached is found out before anybody asks it, so it is answered for at once. A fault that is no script of an
answer (nobody listens, nobody accepts, a connection that the engine closed in the meantime) is played by the test.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulators.raw_engine import (
    CHAT,
    DONE,
    LAST,
    SCRIPTS,
    End,
    RawEngine,
    chunk,
    head,
    problem,
    stream,
    token,
    whole,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping

    from tests.simulators.raw_engine import Seen, Step

JSON = "content-type: application/json"
EVENTS = "content-type: text/event-stream; charset=utf-8"
PART = CHAT[:20]
GOOD = (whole(CHAT),)
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come of one fault: status, ``error.code``, the ``error`` of ``Proxy-Status``, and the record's words.

    ``cut``: the head was out, so the answer is cut off instead; of a stream, with the reason in an event.
    """

    status: int
    reason: str | None = None
    proxy_error: str | None = None
    verdict: str = "failure"
    outcome: str | None = "engine-died"
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its scripts, none where the test plays it, and what must come of it."""

    streamed: tuple[Step, ...]
    plain: tuple[Step, ...]
    expected: Expected
    expected_plain: Expected | None = None

    def expects(self, *, streams: bool) -> Expected:
        """Give what must come of it."""
        return self.expected if streams or self.expected_plain is None else self.expected_plain


PASSED = Expected(200, None, None, "permit", "ok")
UNAVAILABLE = Expected(502, "engine-unavailable", "destination_unavailable")
NONE_READY = Expected(503, "engine-unavailable", "destination_unavailable")
MALFORMED = Expected(502, "engine-malformed", "http_protocol_error")
INCOMPLETE = Expected(502, "engine-error", "http_response_incomplete")
LATE = Expected(504, "engine-timeout", "http_response_timeout")
CUT = Expected(200, "engine-error", None, cut=True)
CUT_MALFORMED = Expected(200, "engine-malformed", None, cut=True)
CUT_IDLE = Expected(200, "engine-timeout", None, outcome="idle", cut=True)
CUT_LATE = Expected(200, "engine-timeout", None, cut=True)


def _both(*steps: Step) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    return steps, steps


def _answered(status: int, reason: str, error: str) -> Expected:
    return Expected(status, reason, error, outcome="ok")


UNFIT = _answered(502, "engine-malformed", "http_protocol_error")


@dataclass(frozen=True, slots=True)
class Api:
    """An API as its callers know it: where to ask, and what its streams are made of; ``prefix`` is of its scripts."""

    prefix: str
    path: str
    some: bytes
    last: bytes

    @property
    def good_stream(self) -> tuple[Step, ...]:
        """A stream that comes to its end."""
        return stream(), self.some, self.last, LAST

    def faults(self) -> Mapping[str, Fault]:
        """Give every fault, played in this API's events."""
        return _faults(self)


def _named(kind: str, rest: bytes = b"") -> bytes:
    return chunk(b'event: %b\ndata: {"type":"%b"%b}\n\n' % (kind.encode(), kind.encode(), rest))


APIS: Mapping[str, Api] = {
    "openai": Api("", "/v1/chat/completions", token("a"), DONE),
    "anthropic": Api(
        "anthropic.",
        "/v1/messages",
        _named("content_block_delta", b',"index":0,"delta":{"type":"text_delta","text":"a"}'),
        _named("message_stop"),
    ),
}


def _faults(api: Api) -> Mapping[str, Fault]:
    some, good_stream = api.some, api.good_stream
    return {
        "refused": Fault((), (), NONE_READY),
        "black-hole": Fault((), (), NONE_READY),
        "stale-keep-alive": Fault(good_stream, GOOD, PASSED),
        "slow-head": Fault(*_both(End.SILENCE), LATE),
        "slow-body": Fault(
            (stream(), some, End.SILENCE),
            (head(JSON, "content-length: 900"), PART, End.SILENCE),
            CUT_IDLE,
            CUT_LATE,
        ),
        "reset-before-head": Fault(*_both(End.RESET), UNAVAILABLE),
        "close-before-head": Fault(*_both(End.CLOSE), UNAVAILABLE),
        "close-mid-head": Fault(*_both(b"HTTP/1.1 200 OK\r\ncontent-le", End.CLOSE), INCOMPLETE),
        "reset-mid-body": Fault(
            (stream(), some, 0.05, End.RESET), (head(JSON, "content-length: 900"), PART, 0.05, End.RESET), CUT
        ),
        "early-close": Fault(
            (stream(), some, 0.05, End.CLOSE),
            (head(JSON, "transfer-encoding: chunked"), chunk(PART), 0.05, End.CLOSE),
            CUT,
        ),
        "wrong-length": Fault(
            (head(EVENTS, "content-length: 900"), b"data: {}\n\n", End.CLOSE),
            (head(JSON, "content-length: 900"), CHAT, End.CLOSE),
            CUT,
        ),
        "two-lengths": Fault(*_both(head(JSON, "content-length: 5", "content-length: 6"), b"hello!"), MALFORMED),
        "bad-chunk": Fault(
            (stream(), some, 0.05, b"zz\r\nhello\r\n"),
            (head(JSON, "transfer-encoding: chunked"), chunk(PART), 0.05, b"zz\r\nhello\r\n"),
            CUT_MALFORMED,
        ),
        "garbage-head": Fault(*_both(b"\x00\x01SSH-2.0-engine\r\n\r\n", End.CLOSE), MALFORMED),
        "endless-line": Fault(*_both(*SCRIPTS["endless-line"]), MALFORMED),
        "1xx": Fault((HINTS, 0.05, *good_stream), (HINTS, 0.05, *GOOD), PASSED),
        "101": Fault(*_both(*SCRIPTS["switching-protocols"]), MALFORMED),
        "204-with-body": Fault(*_both(head(status="204 No Content") + b"surprise"), UNFIT),
        "redirect": Fault(*_both(*SCRIPTS["redirect"]), UNFIT),
        "compressed": Fault(SCRIPTS["zipped-stream"], SCRIPTS["zipped-chat"], PASSED),
        "401": Fault(
            *_both(problem("401 Unauthorized", "x")),
            _answered(502, "engine-refused-gateway", "http_response_incomplete"),
        ),
        "429": Fault(*_both(*SCRIPTS["too-many"]), Expected(429, "engine-overloaded", None, "permit", "ok")),
        "500": Fault(*_both(*SCRIPTS["broken"]), _answered(502, "engine-error", "http_response_incomplete")),
        "503": Fault(*_both(*SCRIPTS["overloaded"]), _answered(503, "engine-overloaded", "destination_unavailable")),
    }


FAULTS = APIS["openai"].faults()


class FaultyEngine(RawEngine):
    """An engine with all these faults, and ``chat`` without any; one of them comes only to a used connection."""

    def __init__(self) -> None:
        scripts: dict[str, tuple[Step, ...]] = {}
        for api in APIS.values():
            scripts[f"{api.prefix}chat"], scripts[f"{api.prefix}chat-stream"] = GOOD, api.good_stream
            for name, fault in api.faults().items():
                scripts[api.prefix + name], scripts[f"{api.prefix}{name}-stream"] = fault.plain, fault.streamed
        super().__init__(scripts)

    async def _play(self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        used = sum(one.connection == seen.connection for one in self.seen) > 1
        if used and "stale-keep-alive" in seen.script:
            return False
        return await RawEngine._play(self, seen, reader, writer)


@contextmanager
def black_hole(port: int) -> Iterator[None]:
    """Listen on a loopback port and never accept; what does not fit into the queue is not even answered."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield


@dataclass(frozen=True, slots=True)
class Row:
    """What was seen of one fault."""

    fault: str
    api: str
    way: str
    status: str
    reason: str
    error: str
    outcome: str
    records: int
    streams: int
    leases: int
    pool: str

    def __str__(self) -> str:
        """Give one line of the table."""
        return (
            f"{self.fault:18}{self.api:10}{self.way:8}{self.status:9}{self.reason:24}{self.error:26}{self.outcome:13}"
            f"{self.records:>7}{self.streams:>9}{self.leases:>8}  {self.pool}"
        )


@dataclass(slots=True)
class Matrix:
    """The rows of all faults."""

    rows: list[Row] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Give the table; none, when nothing was tried."""
        if not self.rows:
            return []
        head = f"{'fault':18}{'api':10}{'answer':8}{'status':9}{'reason':24}{'Proxy-Status error':26}{'outcome':13}"
        return [f"{head}{'records':>7}{'streams':>9}{'leases':>8}  pool", *map(str, self.rows)]


MATRIX = Matrix()
