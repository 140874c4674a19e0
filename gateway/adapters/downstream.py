"""One request on a client's connection, and the answer that goes back on it.

Enters: head lines and body bytes from the enforcement or the relay. Leaves: bytes in the client's transport, framed
here and nowhere else (RFC 9112 §6), so that no framing byte of an engine ever reaches a client. Writing never waits:
whoever streams looks at ``paused`` and is told through ``exchange.client_ready()``; when the client leaves, through
``exchange.client_left()``.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.adapters.walk import Promise
from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from gateway.adapters.edge import EdgeProtocol
    from gateway.wire.field_lines import FieldLines

FLUSH_AT_MOST_S = 5.0
"""Seconds that a cut-off stream may take to deliver its last event."""

_RESET = struct.pack("ii", 1, 0)  # linger for no time at all: the kernel sends a reset


class Exchange(Protocol):
    """Who must know what happens to the client's connection while an answer is on its way."""

    def client_left(self) -> None:
        """Learn that the client is gone."""

    def client_ready(self) -> None:
        """Learn that the client takes bytes again."""


class Downstream:
    """The server's side of one request.

    ``refusal`` is set where the connection's parser could not read the head, ``body_fault`` where it could not read on
    behind it. ``body``: what arrived and was not read yet; ``more_body``: the rest follows. ``arrival``: somebody waits
    for more of it, and was not told yet that there is some. ``answered``: the status
    line is on its way, so that a failure can only cut the answer off. ``complete``: the answer is out to its end, or
    cut off. ``disconnected``: the client left before that. ``keep_alive``: whether the connection goes on behind the
    answer.
    """

    __slots__ = (
        "_chunked", "_late", "_until_close", "answered", "arrival", "body", "body_fault", "bytes_in", "bytes_out",
        "complete", "disconnected", "edge", "exchange", "expects_continue", "flow", "headers", "http_version",
        "keep_alive", "lines", "method", "more_body", "peer", "refusal", "target", "transport",
    )  # fmt: skip

    def __init__(
        self,
        edge: EdgeProtocol,
        method: str,
        target: bytes,
        http_version: str,
        headers: FieldLines,
    ) -> None:
        self.edge = edge
        self.transport = edge.transport
        self.flow = edge.flow
        self.method = method
        self.target = target
        self.http_version = http_version
        self.headers = headers
        self.peer = edge.peer
        self.keep_alive = False
        # RFC 9110 §10.1.1; another expectation is refused before anybody reads a body. No plain head has one.
        self.expects_continue = headers.plain is None and http_version == "1.1" and headers.has(b"expect")
        self.refusal: Malformed | None = None
        self.body_fault: Malformed | None = None
        self.exchange: Exchange | None = None
        self.body: bytes | bytearray = b""
        self.more_body = True
        self.answered = False
        self.complete = False
        self.disconnected = False
        self.lines: tuple[bytes, ...] = ()
        self.bytes_in = 0
        self.bytes_out = 0
        self._chunked = False
        self._until_close = False
        self.arrival: Promise[None] | None = None
        self._late = False

    @property
    def certificate(self) -> str | None:
        """The thumbprint of the certificate that the client showed on this connection."""
        return self.edge.certificate

    @property
    def paused(self) -> bool:
        """Whether the client reads too slowly for more to be written now."""
        return self.flow.write_paused

    def wake(self) -> None:
        """Tell who reads the body that there is more of it, or never will be: in the next turn, behind the parser."""
        if self.arrival is not None:
            arrival, self.arrival = self.arrival, None
            self.edge.loop.call_soon(arrival.keep, None)

    def _too_late(self) -> None:
        self._late = True
        self.wake()

    def body_at_hand(self, at_most: int) -> bytes | None:
        """Give the body, once, where all of it is there and it is not too long; ``None``: ``read_body`` says more."""
        # A body with a fault has an end that is missing.
        if self.more_body or self.complete or self.disconnected or len(self.body) > at_most:
            return None
        return self._taken()

    async def read_body(self, at_most: int) -> bytes:
        """Read the request body of at most so many bytes, within the listener's time for it.

        Raises ``Malformed`` with ``BODY_TOO_LARGE``, ``REQUEST_TIMEOUT`` or the parser's reason; ``ConnectionError``
        when the client left.
        """
        await self._arrive(at_most)
        return self._taken()

    def _taken(self) -> bytes:
        """Give what is there of the body, and keep nothing of it."""
        self.bytes_in = len(self.body)
        body, self.body = self.body, b""
        if self.flow.read_paused:
            self.flow.resume_reading()  # a large body paused it; from here on a leave must be seen
        return body if type(body) is bytes else bytes(body)

    async def _arrive(self, at_most: int) -> None:
        """Wait until the body is there. Raises as ``read_body`` does."""
        self._look(at_most)
        timer = self.edge.loop.call_later(self.edge.limits.body_s, self._too_late)
        try:
            while self.more_body:
                await self._more()
                self._look(at_most)
        finally:
            timer.cancel()

    def _look(self, at_most: int) -> None:
        """Look at what arrived so far. Raises as ``read_body`` does."""
        self._check()
        self.bytes_in = len(self.body)
        if self.bytes_in > at_most:
            self.body = b""
            raise Malformed(Reason.BODY_TOO_LARGE, f"more than {at_most} bytes")

    def _check(self) -> None:
        if self.disconnected or self.complete:
            raise ConnectionError
        if self.body_fault is not None:
            raise self.body_fault
        if self._late and self.more_body:
            raise Malformed(Reason.REQUEST_TIMEOUT, "the body did not arrive in time")

    async def _more(self) -> None:
        """Wait until more of the body came, or none will."""
        if self.expects_continue and not self.transport.is_closing():
            self.expects_continue = False
            self.edge.outbox.flush()
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.flow.resume_reading()
        arrival: Promise[None] = Promise()
        self.arrival = arrival
        try:
            await arrival
        finally:
            self.arrival = None

    async def pieces(self, at_most: int) -> AsyncGenerator[bytes, None]:
        """Read the request body in pieces; while one is looked at, the client can send one more and then waits.

        Raises as ``read_body`` does.
        """
        timer = self.edge.loop.call_later(self.edge.limits.body_s, self._too_late)
        more = True
        try:
            while more:
                part, more = await self._piece(at_most)
                yield part
        finally:
            timer.cancel()
        self.flow.resume_reading()  # as in read_body

    async def _piece(self, at_most: int) -> tuple[bytes, bool]:
        """Wait for more of the body; give it, and whether there is still more."""
        self._check()
        while self.more_body and not self.body:
            await self._more()
            self._check()
        part, self.body = bytes(self.body), b""
        self.bytes_in += len(part)
        if self.bytes_in > at_most:
            raise Malformed(Reason.BODY_TOO_LARGE, f"more than {at_most} bytes")
        return part, self.more_body

    def answer(self, status: int, lines: Iterable[bytes], body: bytes) -> None:
        """Write a whole answer; a request whose body was not read to its end closes the connection (RFC 9112 §9.6)."""
        if self.disconnected or self.complete:
            return
        if self.more_body:
            self.keep_alive = False
        first = b"" if self.method == "HEAD" else body
        self._start(status, lines, b"content-length: %d\r\n" % len(body), first, whole=True)
        self.finish()

    def start(self, status: int, lines: list[bytes], length: int | None, first: bytes = b"") -> None:
        """Write the head of an answer of ``length`` body bytes (``None``: unknown), with the first of them."""
        if length is not None:
            self._start(status, lines, b"content-length: %d\r\n" % length, first, whole=len(first) == length)
        elif self.http_version == "1.1":
            self._chunked = True
            chunk = b"%x\r\n%b\r\n" % (len(first), first) if first else b""
            self._start(status, lines, b"transfer-encoding: chunked\r\n", chunk, whole=False)
        else:
            self._until_close = True  # HTTP/1.0 knows no chunks
            self.keep_alive = False
            self._start(status, lines, b"", first, whole=False)

    def _start(self, status: int, lines: Iterable[bytes], framing: bytes, first: bytes, *, whole: bool) -> None:
        self.answered = True
        self.expects_continue = False
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        self.bytes_out += len(first)
        edge = self.edge
        head = b"".join((STATUS_LINE[status], edge.lines(), *lines, framing, *self.lines, end, first))
        if whole:
            edge.outbox.write(self.transport, head)
        else:
            edge.outbox.flush()
            self.transport.write(head)

    def write(self, data: bytes) -> None:
        """Write body bytes; never an empty piece, which would end a chunked body."""
        self.bytes_out += len(data)
        if self._chunked:
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self.transport.write(data)

    def finish(self) -> None:
        """End an answer that is whole."""
        if self.complete or self.disconnected:
            return
        if self._chunked:
            self.transport.write(b"0\r\n\r\n")
        self.complete = True
        if self.arrival is not None:
            self.wake()
        self.edge.answered(self)

    def cut_off(self, last: bytes = b"") -> None:
        """End an answer that failed after its head, so that no client takes it for whole (RFC 9112 §8).

        ``last`` is one more event where the stream stands between two. The last chunk is never written; where only the
        end of the connection ends the body, the connection is reset instead of closed.
        """
        if self.complete or self.disconnected:
            return
        if last:
            self.write(last)
        self.keep_alive = False
        self.complete = True
        self.wake()
        if last and self._chunked:
            self.edge.close_within(FLUSH_AT_MOST_S)
            return
        if self._until_close:
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def over(self) -> None:
        """Learn that nobody serves this request any more; where that left no whole answer, the connection ends."""
        self.cut_off()
        self.edge.over()

    def lost(self) -> None:
        """Learn from the connection that it is gone."""
        if not self.complete:
            self.disconnected = True
        self.wake()
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_left()
