"""One exchange: a request to an engine, and its answer to the client without a task switch per chunk.

Enters: an ``UpstreamRequest`` and the ``Downstream`` that waits for the answer. Leaves: the engine's body bytes in the
client's transport, written from the engine connection's ``data_received``; and a ``Delivery``. An answer that is not a
success is collected instead and handed to the enforcement, which words it. The exchange owns time limits, back-pressure
in both directions and the clean end of a stream that fails; it decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.adapters.walk import Promise
from gateway.ports import Delivery, Ending, EngineAnswer
from gateway.reasons import ANSWERS, Malformed, Reason
from gateway.wire.event_stream import KEEP_ALIVE, EventBuffer
from gateway.wire.response_head import is_event_stream, passing_lines, retry_after

if TYPE_CHECKING:
    from gateway.adapters.downstream import Downstream
    from gateway.adapters.engine import EngineReplica
    from gateway.adapters.engine_pool import EngineConnection
    from gateway.engine.replica import Ticket
    from gateway.ports import UpstreamRequest
    from gateway.wire.http1 import ResponseReader

COLLECTED_AT_MOST = 64 * 1024
"""Bytes of an engine's error answer that are read."""

TOGETHER_AT_MOST = 64 * 1024
"""Bytes of a request that may wait for the end of the turn, to be written with others."""

TAIL = 4096
"""Bytes at the end, and then at the beginning, of a plain answer in which the engine's count of tokens is looked for:
vLLM writes it last, but for rankings, where it stands before their documents.
"""


_OK = 200
_made = tuple.__new__  # makes a named tuple of all its values: its own way takes them through two calls more
_DELIVERED = Ending.DELIVERED  # looked up once: a member of an Enum, named where it is used, costs as much as a call


class Exchange(Promise["Delivery | None"]):
    """One request, sent at once, and the promise of its delivery, which is ``None`` if it may be sent once more.

    ``begun``: the loop's time, from which its deadlines are counted. While it lives, the engine's connection belongs to
    it and to nothing else.
    """

    __slots__ = (
        "_before", "_begun", "_collected", "_connection", "_downstream", "_events", "_first_byte_at", "_last", "_loop",
        "_paused", "_reader", "_replica", "_request", "_silence_s", "_spoke", "_tail", "_ticket",
    )  # fmt: skip
    # ``_before`` and ``_tail``: of a stream, the two pieces that were passed on last; of a plain answer, its ends.

    def __init__(
        self,
        request: UpstreamRequest,
        downstream: Downstream,
        replica: EngineReplica,
        ticket: Ticket,
        connection: EngineConnection,
        begun: float,
        silence_s: float,
    ) -> None:
        Promise.__init__(self)  # once for each request, and a super() costs more than all that it does
        self._loop = downstream.edge.loop
        self._request = request
        self._downstream = downstream
        self._replica = replica
        self._ticket = ticket
        self._silence_s = silence_s
        self._connection: EngineConnection | None = connection
        self._reader = connection.reader
        self._events: EventBuffer | None = None
        self._collected: bytearray | None = None
        self._before = self._tail = b""
        self._paused = False
        self._begun = self._last = self._spoke = begun
        self._first_byte_at: float | None = None

        # The request is sent.
        connection.receiver = downstream.exchange = self
        head, body = replica.client.head(request), request.body
        if request.stream or request.upload is not None or len(body) > TOGETHER_AT_MOST:
            connection.transport.writelines((head, body))
            self._watch()
        else:
            downstream.edge.outbox.write(connection.transport, head + body)
            connection.alarm.at(begun + (request.deadlines.total or 0.0))

    # What the engine does

    def received(self, data: bytes) -> None:
        """Take bytes of the engine and pass the body on: the hot path."""
        reader = self._reader
        try:
            reader.feed(data)
        except Malformed as malformed:
            self._fail(Reason.ENGINE_MALFORMED, malformed.detail)
            return
        if self._first_byte_at is None:
            plain = reader.complete and reader.status == _OK and not self._request.stream
            if plain and reader.parts and not self._downstream.answered:
                self._whole(reader)
                return
            self._first(reader)
        elif reader.parts:
            self._last = self._loop.time()
            self._pass(reader.take())
        if reader.complete:
            self._complete()
        elif self._downstream.paused and not self._paused and self._connection is not None:
            self._paused = True
            self._connection.transport.pause_reading()
            self._watch()

    def _whole(self, reader: ResponseReader) -> None:
        """Pass on a plain answer that is there at once, as nearly all are: what is done below in several steps."""
        request, downstream = self._request, self._downstream
        body = reader.take()
        first_byte_s = self._loop.time() - self._begun
        downstream.start(_OK, [*request.lines, *passing_lines(reader.headers)], reader.content_length, body)
        self._give_back()
        self._request.meter.body(body[:TAIL])
        if len(body) > TAIL:
            self._request.meter.body(body[-TAIL:])
        request.body = b""
        downstream.exchange = None
        downstream.finish()
        self.keep(_made(Delivery, (_DELIVERED, None, "", _OK, None, first_byte_s, True)))

    def _first(self, reader: ResponseReader) -> None:
        """Take the head, and the first byte of the body when it comes."""
        if not reader.status:
            return
        self._request.body = b""  # nothing is sent twice from here on
        downstream = self._downstream
        body = reader.take()
        if body or reader.status != _OK:
            self._first_byte_at = self._last = self._loop.time()
            self._replica.answered(self._ticket, self._last)
        if reader.status != _OK:
            self._collected = bytearray()
            self._pass(body)
        elif not downstream.answered:
            self._start(reader, body)
        elif body:
            self._pass(body)
        if self._request.stream:
            self._watch()

    def _pass(self, body: bytes) -> None:
        if self._collected is not None:
            self._collect(body)
            return
        body = self._counted(body)
        if body:
            self._downstream.write(body)

    def _counted(self, body: bytes) -> bytes:
        """Look for the engine's count of tokens; give what may be passed on: of an event stream, whole events."""
        events = self._events
        if events is None:
            if not self._before and len(body) <= TAIL:
                self._before = self._tail = body
                return body
            if len(self._before) < TAIL:
                self._before += body[: TAIL - len(self._before)]
            self._tail = body[-TAIL:] if len(body) >= TAIL else (self._tail + body)[-TAIL:]
            return body
        body = events.feed(body)
        if body:
            self._before, self._tail = self._tail, body
            self._spoke = self._last
            body = self._request.meter.events(body)
        return body

    def _start(self, reader: ResponseReader, body: bytes) -> None:
        """Write the head at once, with what is there of the body."""
        request = self._request
        length = reader.content_length
        if request.stream and is_event_stream(reader.headers):
            self._events = EventBuffer()
            length = None
        lines = [*request.lines, *passing_lines(reader.headers)]
        self._downstream.start(_OK, lines, length, self._counted(body))
        self._spoke = self._last

    def _collect(self, body: bytes) -> None:
        collected = self._collected
        if collected is not None and len(collected) < COLLECTED_AT_MOST:
            collected += body[: COLLECTED_AT_MOST - len(collected)]
            if len(collected) == COLLECTED_AT_MOST:
                self._detach()
                self._end(Ending.ANSWERED)

    def _give_back(self) -> None:
        """Give the connection back and forget it in the same step: from here on it may serve somebody else."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.receiver = None
            connection.alarm.due = None
            if self._paused:
                connection.transport.resume_reading()
            self._replica.client.pool.give_back(connection)

    def _complete(self) -> None:
        """End an answer that has come to its end."""
        self._give_back()
        if self._collected is not None:
            self._end(Ending.ANSWERED)
            return
        dialect = self._request.dialect
        rest = b""
        if self._events is None:
            self._request.meter.body(self._before)
            if self._tail != self._before:
                self._request.meter.body(self._tail)
        elif rest := self._events.flush():
            shown = self._request.meter.events(rest)
            if shown:
                self._downstream.write(shown)
        self._downstream.exchange = None
        self._downstream.finish()
        whole = self._events is None or dialect.ends(self._before + self._tail + rest)
        self._end(_DELIVERED, detail="" if whole else "the stream ended early, or with the engine's own error")

    def closed(self) -> None:
        """Learn that the engine's connection has ended."""
        reader = self._reader
        connection, self._connection = self._connection, None
        if reader.eof():
            self._complete()
        elif reader.untouched and connection is not None and connection.used:
            self.keep(None)
        else:
            self._fail(Reason.ENGINE_UNAVAILABLE if reader.untouched else Reason.ENGINE_ERROR, "connection closed")

    # What the client does

    def client_left(self) -> None:
        """Close the engine's connection at once: it is how vLLM learns to stop computing."""
        self._detach()
        self._end(Ending.CLIENT_LEFT)

    def client_ready(self) -> None:
        """Read on after a pause."""
        if self._paused and self._connection is not None:
            self._paused = False
            self._last = self._loop.time()
            self._connection.transport.resume_reading()

    # Ends

    def _fail(self, reason: Reason, detail: str) -> None:
        """End an answer that cannot be whole: with an error of ours, or, behind its head, with a cut."""
        self._detach()
        downstream = self._downstream
        if downstream.answered:
            downstream.exchange = None
            event = b""
            if self._events is not None and self._events.at_boundary:
                event = self._request.dialect.error_event(reason, ANSWERS[reason].sentence, self._request.id)
            downstream.cut_off(event)
        self._end(Ending.FAILED, reason, detail)

    def cancel(self) -> None:
        """End because the gateway itself stops."""
        self._fail(Reason.DRAINING, "")

    def _detach(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.receiver = None
            connection.transport.abort()

    def _end(self, ending: Ending, reason: Reason | None = None, detail: str = "") -> None:
        if self._downstream.exchange is self:
            self._downstream.exchange = None
        if self.kept:
            return
        reader = self._reader
        answer = None
        if ending is not _DELIVERED and ending is Ending.ANSWERED:
            answer = EngineAnswer(reader.status, bytes(self._collected or b""), retry_after(reader.headers))
        first_byte_s = None if self._first_byte_at is None else self._first_byte_at - self._begun
        self.keep(Delivery(ending, reason, detail, reader.status or None, answer, first_byte_s))

    # Time

    def _watch(self) -> None:
        """Have the clock looked at when the next thing is due, which no chunk changes."""
        if self._connection is None:
            return
        due, _ = self._due()
        if self._events is not None and self._silence_s:
            due = min(due, max(self._spoke, self._loop.time() - self._silence_s / 2) + self._silence_s)
        self._connection.alarm.at(due)

    def late(self) -> None:
        """Look at the clock: end what is late, and comment on a silence between two events."""
        now = self._loop.time()
        due, late = self._due()
        if now < due:
            events = self._events
            silent = now >= self._spoke + self._silence_s
            if silent and self._silence_s and events is not None and events.at_boundary and not self._paused:
                self._spoke = now
                self._downstream.write(KEEP_ALIVE)
            self._watch()
        elif self._paused and late == "idle":
            self._downstream.transport.abort()  # the client is the one who stalls; client_left() follows
        else:
            self._fail(Reason.ENGINE_TIMEOUT, late)

    def _due(self) -> tuple[float, str]:
        """Give the next deadline and its name: total always; first-byte, then idle, for streams and slow clients."""
        deadlines = self._request.deadlines
        due, late = self._begun + (deadlines.total or 0.0), "total"
        if not (self._request.stream or self._paused):
            return due, late
        if self._request.stream and self._first_byte_at is None:
            return min((due, late), (self._begun + (deadlines.first_byte or 0.0), "first-byte"))
        return min((due, late), (self._last + (deadlines.idle or 0.0), "idle"))
