"""An engine that says exactly what it is told: bytes given verbatim, pauses, resets and early ends.

Enters: HTTP requests over TCP. Which script is played stands in the request: the text ``script:NAME`` anywhere in its
body. Leaves: the steps of ``SCRIPTS[NAME]``, and in ``RawEngine.seen`` what came in and when each step was sent. A
request without a script is answered with a list of one model.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import struct
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self, TypeAlias

MODEL = "raw"
MIB = 1024 * 1024


class End(Enum):
    """How a script may end; without one the connection waits for the next request."""

    CLOSE = "close"
    RESET = "reset"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Flood:
    """The same bytes many times."""

    piece: bytes
    times: int


Step: TypeAlias = "bytes | float | End | Flood"


def head(*lines: str, status: str = "200 OK") -> bytes:
    """Write the head of an answer with the fields that uvicorn sends."""
    fixed = ("date: Mon, 30 Nov 2026 00:00:00 GMT", "server: uvicorn")
    return "\r\n".join([f"HTTP/1.1 {status}", *fixed, *lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """Write one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def token(text: str) -> bytes:
    """Write one event of a chat, as one chunk."""
    choice = b'{"index":0,"delta":{"content":"%b"},"logprobs":null,"finish_reason":null}' % text.encode()
    return chunk(b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[%b]}\n\n' % choice)


def whole(body: bytes, *lines: str, status: str = "200 OK") -> bytes:
    """Write a whole answer."""
    return head("content-type: application/json", f"content-length: {len(body)}", *lines, status=status) + body


def problem(status: str, kind: str, message: str = "said the engine") -> bytes:
    """Write an error answer of vLLM."""
    body = b'{"error":{"message":"%b","type":"%b","param":null,"code":%d}}'
    return whole(body % (message.encode(), kind.encode(), int(status[:3])), status=status)


def stream(content_type: str = "text/event-stream; charset=utf-8", *lines: str) -> bytes:
    """Write the head of a stream."""
    return head(f"content-type: {content_type}", "transfer-encoding: chunked", *lines)


DONE = chunk(b"data: [DONE]\n\n")
LAST = b"0\r\n\r\n"
CHAT = b'{"id":"chatcmpl-1","object":"chat.completion","choices":[],"usage":{"prompt_tokens":14,"completion_tokens":1}}'
FORMS = b"\xef\xbb\xbfdata: a\r\n\r\ndata: b\rdata: c\r\rdata: d\n\n: comment\n\nevent: x\ndata: e\ndata: f\n\n"
ZEROS = gzip.compress(b'data: {"choices":[]}\n\n' * 50_000)
ZIPPED_CHAT = gzip.compress(CHAT)

TOKENS = token("北京🌍").partition(b"\r\n")[2].removesuffix(b"\r\n") * 2
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":14,"completion_tokens":10,"total_tokens":24}}\n\n'


def counted(tokens: int) -> bytes:
    """Write one event with the count so far, as ``continuous_usage_stats`` asks for it."""
    usage = b'"usage":{"prompt_tokens":14,"completion_tokens":%d}}\n\n' % tokens
    return chunk(b'data: {"choices":[{"index":0,"delta":{"content":"x"}}],' + usage)


SCRIPTS: Mapping[str, tuple[Step, ...]] = {
    # Streams
    "five-events": (stream(), *(step for n in range(5) for step in (token(str(n)), 0.2)), DONE, LAST),
    "reset-mid-stream": (stream(), token("a"), token("b"), 0.1, End.RESET),
    "fin-mid-stream": (stream(), token("a"), token("b"), 0.1, End.CLOSE),
    "fin-mid-event": (stream(), token("a"), chunk(b'data: {"half'), 0.1, End.CLOSE),
    "ends-without-done": (stream(), token("a"), token("b"), LAST),
    "stalls": (stream(), token("a"), token("b"), End.SILENCE),
    "stalls-before-the-first-byte": (stream(), End.SILENCE),
    "slow-but-steady": (stream(), *(step for n in range(9) for step in (token(str(n)), 0.5)), DONE, LAST),
    "giant-line": (stream(), chunk(b"data: "), Flood(chunk(b"x" * 65536), 256), chunk(b"\n\n"), DONE, LAST),
    "trickle": (
        stream(),
        *(step for n in range(100) for step in (chunk(b"data: \n\n"[n % 8 :][:1]), 0.01)),
        DONE,
        LAST,
    ),
    "flood": (stream(), Flood(token("x" * 1024), 100 * 1024), DONE, LAST),
    "all-line-ends": (stream(), chunk(FORMS), DONE, LAST),
    "zipped-stream": (stream("text/event-stream", "content-encoding: gzip"), chunk(ZEROS), LAST),
    "plain-type": (stream("text/event-stream"), token("a"), 0.3, token("b"), DONE, LAST),
    "capital-type": (stream("Text/Event-Stream"), token("a"), 0.3, token("b"), DONE, LAST),
    "bytes-one-by-one": (stream(), *(chunk(bytes([one])) for one in TOKENS + USAGE), DONE, LAST),
    "continuous-count": (
        stream(),
        *(step for n in range(1, 11) for step in (counted(n), 0.01)),
        chunk(USAGE),
        DONE,
        LAST,
    ),
    "engine-error-event": (stream(), token("a"), chunk(b'data: {"error":{"code":500}}\n\n'), DONE, LAST),
    # Whole answers
    "chat": (whole(CHAT),),
    "late-chat": (2.5, whole(CHAT)),
    "never": (End.SILENCE,),
    "zipped-chat": (whole(ZIPPED_CHAT, "content-encoding: gzip"),),
    "chunked-chat": (head("content-type: application/json", "transfer-encoding: chunked"), chunk(CHAT), LAST),
    "until-close": (head("content-type: application/json"), CHAT, End.CLOSE),
    "huge": (head("content-type: application/json", f"content-length: {256 * MIB}"), Flood(b" " * MIB, 256)),
    "hop-by-hop": (whole(CHAT, "connection: x-foo", "x-foo: 1", "keep-alive: timeout=5", "set-cookie: a=b"),),
    # Framing
    "length-and-chunked": (head("content-length: 5", "transfer-encoding: chunked"), chunk(b"hello"), LAST),
    "two-lengths": (head("content-length: 5", "content-length: 6"), b"hello!"),
    "negative-length": (head("content-length: -5"), b"hello"),
    "length-too-long": (head("content-type: application/json", "content-length: 900"), CHAT, End.CLOSE),
    "length-too-short": (head("content-type: application/json", "content-length: 5"), CHAT),
    "bad-chunk-size": (stream(), token("a"), 0.1, b"zz\r\nhello\r\n"),
    "chunk-longer-than-its-size": (stream(), token("a"), 0.1, b"2\r\nhello\r\n", LAST),
    "trailers": (stream(), token("a"), DONE, b"0\r\nx-trailer: 1\r\n\r\n"),
    "unknown-coding": (head("transfer-encoding: gzip, chunked"), chunk(CHAT), LAST),
    "second-answer-at-once": (whole(CHAT) + whole(b'{"smuggled":true}'),),
    # Heads
    "garbage": (b"\x00\x01SSH-2.0-engine\r\n\r\n", End.CLOSE),
    "endless-line": (b"HTTP/1.1 200 ", Flood(b"x" * 65536, 64), End.SILENCE),
    "endless-head": (b"HTTP/1.1 200 OK\r\n", Flood(b"x-a: " + b"y" * 1000 + b"\r\n", 4096), End.SILENCE),
    "folded-field": (head("content-length: 0", "x-a: 1\r\n 2"),),
    "bare-line-feeds": (whole(CHAT).replace(b"\r\n", b"\n"),),
    "nul-in-a-field": (whole(CHAT, "x-a: a\0b"),),
    "http-2": (whole(CHAT).replace(b"HTTP/1.1", b"HTTP/2.0"),),
    "http-1.0": (whole(CHAT).replace(b"HTTP/1.1", b"HTTP/1.0"), End.CLOSE),
    "early-hints": (b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", 0.1, whole(CHAT)),
    "switching-protocols": (
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        End.SILENCE,
    ),
    "close-before-the-answer": (End.CLOSE,),
    "reset-before-the-answer": (End.RESET,),
    "half-a-head": (b"HTTP/1.1 200 OK\r\ncontent-le", End.CLOSE),
    # Other answers
    "no-content-with-body": (head(status="204 No Content") + b"surprise",),
    "not-modified": (head(status="304 Not Modified"),),
    "redirect": (head("location: http://evil.example/", "content-length: 0", status="307 Temporary Redirect"),),
    "created": (whole(CHAT, status="201 Created"),),
    "bad-request": (problem("400 Bad Request", "BadRequestError"),),
    "unauthorized": (whole(b'{"error":"Unauthorized"}', status="401 Unauthorized"),),
    "forbidden": (problem("403 Forbidden", "PermissionDeniedError"),),
    "unknown-model": (problem("404 Not Found", "NotFoundError", "The model `raw` does not exist."),),
    "long-error": (problem("400 Bad Request", "BadRequestError", "x" * 100_000),),
    "huge-error": (
        head("content-type: application/json", f"content-length: {150 * MIB}", status="400 Bad Request"),
        Flood(b" " * MIB, 150),
    ),
    "not-implemented": (problem("501 Not Implemented", "Unimplemented", "EngineCore at /models/secret"),),
    "too-many": (whole(b'{"error":{"message":"busy"}}', "retry-after: 7", status="429 Too Many Requests"),),
    "overloaded": (whole(b'{"error":{"message":"busy"}}', "retry-after: 7", status="503 Service Unavailable"),),
    "broken": (problem("500 Internal Server Error", "InternalServerError", "EngineCore at /models/secret died"),),
    "html-error": (whole(b"<html>at 10.0.0.5</html>", status="502 Bad Gateway"),),
}

_SCRIPT = re.compile(rb"script:([a-z0-9.-]+)")
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_MODELS = (
    b'{"object":"list","data":[{"id":"%b","object":"model","created":1700000000,"owned_by":"vllm"}]}' % MODEL.encode()
)


@dataclass(slots=True)
class Seen:
    """One request as it came, and what was done: ``sent`` holds the monotonic time after each step that sent bytes."""

    connection: int
    head: bytes
    body: bytes
    script: str
    sent: list[float] = field(default_factory=list)
    sent_bytes: int = 0
    left: bool = False

    def has_left(self) -> bool:
        """Tell whether the peer left before the script was over."""
        return self.left

    @property
    def target(self) -> bytes:
        """The target of the request line."""
        return self.head.split(b" ", 2)[1]

    def header(self, name: str) -> list[str]:
        """Give every value that a field came with."""
        pairs = (line.partition(b":") for line in self.head.split(b"\r\n")[1:])
        return [value.strip().decode("latin-1") for key, _, value in pairs if key.lower() == name.encode()]


class RawEngine:
    """A running engine: ``async with RawEngine() as engine: engine.url, engine.seen``."""

    def __init__(self, scripts: Mapping[str, tuple[Step, ...]] = SCRIPTS) -> None:
        self.scripts = scripts
        self.seen: list[Seen] = []
        self.url = ""
        self._connections = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def asked(self) -> list[Seen]:
        """The requests that some caller caused: scripts, not lists of models."""
        return [seen for seen in self.seen if seen.script]

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._writers)

    async def __aenter__(self) -> Self:
        """Listen on a free loopback port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=64 * MIB)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening; open connections are cut."""
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        self._writers.add(writer)
        number, seen = self._connections, None
        try:
            while (seen := await self._read(number, reader)) is not None:
                self.seen.append(seen)
                if not await self._play(seen, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            if seen is not None:
                seen.left = True
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _read(self, number: int, reader: asyncio.StreamReader) -> Seen | None:
        try:
            received = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        length = _LENGTH.search(received)
        body = await reader.readexactly(int(length[1])) if length else b""
        script = _SCRIPT.search(body)
        return Seen(number, received, body, script[1].decode() if script else "")

    async def _play(self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Play the script of a request; tell whether the connection lives on."""
        for step in self.scripts[seen.script] if seen.script else (whole(_MODELS),):
            match step:
                case float():
                    if await self._gone(seen, reader, step):
                        return False
                case End.CLOSE:
                    return False
                case End.RESET:
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    writer.transport.abort()
                    return False
                case End.SILENCE:
                    await self._gone(seen, reader, None)
                    return False
                case Flood():
                    for _ in range(step.times):
                        await self._send(seen, writer, step.piece)
                case _:
                    await self._send(seen, writer, step)
            seen.sent.append(time.monotonic())
        return True

    async def _send(self, seen: Seen, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        seen.sent_bytes += len(data)

    async def _gone(self, seen: Seen, reader: asyncio.StreamReader, seconds: float | None) -> bool:
        """Wait; tell whether the peer left meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                while await reader.read(65536):
                    pass
        except TimeoutError:
            return False
        seen.left = True
        return True
