"""The connection to a client: uvicorn's httptools protocol with the bounds that an open port needs.

Enters: bytes of one client connection. Leaves: one ``Downstream`` for each request, in order, each handed to the
plane's application with the request target as it was sent, even if it only waits to be recorded. llhttp refuses what is
not HTTP/1.1; this class adds a head deadline and cap, refusals that are answered and recorded like any other, bounded
pipelining, a close that does not lose the answer, and it notices at once when a client leaves. It judges nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.adapters.alarm import Alarm
from gateway.adapters.downstream import Downstream
from gateway.adapters.edge_limits import FIRST_S, HEAD_AT_MOST, LINGER_BYTES, PIPELINE_AT_MOST, REQUESTS_AT_MOST
from gateway.adapters.outbox import Outbox
from gateway.adapters.walk import Walk
from gateway.identity.confirmation import certificate_thumbprint
from gateway.reasons import Malformed, Reason
from gateway.wire.field_lines import NO_FIELDS, FieldLines, plain_names
from gateway.wire.headers import MOST_FIELDS
from gateway.wire.target import LONGEST_TARGET

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from gateway.adapters.edge_limits import EdgeLimits
    from gateway.wire.field_lines import Positions

_METHODS = {b"GET": "GET", b"POST": "POST"}  # of nearly all requests; to decode takes twice as long


class EdgeProtocol(HttpToolsProtocol):
    """HTTP/1.1 towards clients.

    ``certificate``: the thumbprint of the client's, where the listener asks for one (RFC 8705 §3.1).
    """

    # Some of them are uvicorn's: an object with more than 30 fields keeps them in a dictionary that CPython reads more
    # slowly than slots, and each request reads a hundred.
    __slots__ = (
        "_active", "_barren", "_closing", "_deadline", "_deaf", "_drainable", "_fields", "_head_begun", "_in_head",
        "_lines", "_names", "_parsing", "_requests", "_serving", "_silence", "_unbegun", "_usual", "_values",
        "_waiting", "_walking", "certificate", "connections", "cycle", "flow", "limits", "loop", "outbox", "parser",
        "peer", "server_state", "tasks", "timeout_keep_alive", "transport", "url",
    )  # fmt: skip

    cycle: Downstream | None  # type: ignore[assignment]  # narrower than uvicorn's

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: EdgeLimits,
        outbox: Outbox | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits = limits
        self.outbox = outbox or Outbox()
        self._serving = self.app.__call__  # to call an object takes the interpreter twice as long as its method
        self._active: Downstream | None = None  # the request being answered; `cycle` is the one being read
        self._waiting: list[Downstream] = []
        self._unbegun: Downstream | None = None  # the active request, while the parser may still bring its body
        self._parsing = False
        self._walking = False  # whether a request is served, or was answered and still holds its place
        self._requests = 0
        self._in_head, self._head_begun = True, False
        self._barren = 0  # bytes since the parser last gave something
        self._deaf = False  # what still arrives is counted and thrown away
        self._closing = False
        self._drainable = LINGER_BYTES
        self.peer: str | None = None
        self.certificate: str | None = None
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        self._usual: tuple[tuple[bytes, ...], Positions | None] = ((), None)  # names of the last plain head
        self._fields, self._lines = list[tuple[bytes, bytes]](), b""
        self._deadline = Alarm(self._too_late, self.loop)  # of a head, or of a close
        self._silence = Alarm(self._too_silent, self.loop)  # nothing asked, or no answer taken

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Take a new connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self.peer = self.client[0] if self.client else None
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            transport.set_write_buffer_limits(HIGH_WATER_LIMIT)  # as in the clear; asyncio has 512 KiB
            shown = tls.getpeercert(binary_form=True)
            self.certificate = certificate_thumbprint(shown) if shown else None
        self._deadline.within(self.limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request of this connection that its client is gone."""
        self._deadline.end()
        self._silence.end()
        active, self._active, self.cycle = self._active, None, None
        super().connection_lost(exc)
        if active is not None:
            active.lost()
        self._leave_waiting()

    def eof_received(self) -> None:
        """Take a client's half-close as leaving: nobody can be told later that an answer will not be read."""
        if self._active is not None and not self._deaf:
            self.transport.abort()
        else:
            self.close_within(self.limits.linger_s)

    def resume_writing(self) -> None:
        """Let a paused answer go on, or the request that waited until the client would take one."""
        super().resume_writing()
        if self._active is None:
            self._go_on()
        elif self._active.exchange is not None:
            self._active.exchange.client_ready()

    # Reading

    def data_received(self, data: bytes) -> None:
        """Read, in pieces that cannot bring more than an unfinished head may have."""
        if self._deaf:
            self._drain(len(data))
            return
        if not self.flow.write_paused:
            self._silence.due = None
        reading = self._parsing = True
        while reading and len(data) > (room := HEAD_AT_MOST - self._barren):
            reading = self._feed(data[:room])
            data = data[room:]
        if reading:
            reading, data = self._feed(data), b""
        self._parsing = False
        if not reading:
            self._drain(len(data))
        elif self._deadline.due is None and (self._head_begun or (self._active is None and not self._waiting)):
            self._deadline.within(self.limits.head_s)
        if self._unbegun is not None:
            begun, self._unbegun = self._unbegun, None
            self._walk(begun).step()

    def _feed(self, piece: bytes) -> bool:
        """Let the parser read; tell whether it may read on."""
        self._barren += len(piece)  # before the parser reads: its callbacks set it to 0
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._deaf = True  # the request itself is refused by its header fields; what follows it is not HTTP
        except httptools.HttpParserError as error:
            self._refuse(self._reason_of(error))
        else:
            if not self._deaf and (self._barren >= HEAD_AT_MOST or len(self._names) > MOST_FIELDS):
                too_long = self._head_begun and len(self.url) > LONGEST_TARGET and not self._names
                self._refuse(Malformed(Reason.TARGET_TOO_LONG if too_long else Reason.HEADERS_TOO_LARGE))
        return not self._deaf

    def _reason_of(self, error: Exception) -> Malformed:
        if isinstance(error, httptools.HttpParserCallbackError):
            return Malformed(Reason.INTERNAL, repr(error.__context__))
        if isinstance(error, httptools.HttpParserInvalidURLError):
            return Malformed(Reason.TARGET_MALFORMED)
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            return Malformed(Reason.HEADERS_MALFORMED, "the request line names no method known here")
        part = Reason.HEADERS_MALFORMED if self._in_head else Reason.BODY_MALFORMED
        return Malformed(part, "the request is not valid HTTP/1.1")

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        self.url = b""
        self._names, self._values = [], []
        self._in_head = self._head_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field as it is: llhttp cut white space before its value, and not behind."""
        self._names.append(name)
        self._values.append(value)

    def on_headers_complete(self) -> None:
        """Hand the request on; its body may still be on the way."""
        self._in_head = self._head_begun = False
        self._barren = 0
        self._deadline.due = None
        self._requests += 1
        parser = self.parser
        kept = parser.should_keep_alive()
        names, values = tuple(self._names), self._values
        self._names, self._values = [], []  # what follows is a trailer: never merged (RFC 9110 §6.5.1)
        usual, plain = self._usual
        if names == usual:
            names = usual  # nearly every head of a connection has the same
        else:
            names, plain = found = plain_names(names)
            if plain is not None:  # then they are few and short
                self._usual = found
        # Without a field that says so, only HTTP/1.1 keeps a connection (RFC 9112 §9.3); to ask llhttp takes longer.
        version = "1.1" if kept and plain is not None else parser.get_http_version()
        fields = FieldLines(names, values, plain)
        named = _METHODS.get(method := parser.get_method()) or method.decode("ascii")
        downstream = Downstream(self, named, self.url, version, fields)
        kept = kept and version == "1.1" and not parser.should_upgrade()
        downstream.keep_alive = kept and self._requests < REQUESTS_AT_MOST
        self._admit(downstream)

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body for whoever reads it."""
        self._barren = 0
        cycle = self.cycle
        if cycle is None or cycle.complete or self._deaf:
            return
        held = cycle.body
        if not held:
            cycle.body = body  # nearly always this is all of it
        elif type(held) is bytes:
            cycle.body = bytearray(held) + body
        else:
            held += body
        if cycle.arrival is not None:
            cycle.wake()
        if self._active is not None and cycle is not self._active:  # it waits behind an answer
            if len(cycle.body) > HEAD_AT_MOST:
                self._stop_reading()
        elif len(cycle.body) > HIGH_WATER_LIMIT and cycle.arrival is None:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Note that the next bytes are a new head."""
        cycle = self.cycle
        if cycle is not None and not cycle.complete and not self._deaf:
            if len(self._names) > MOST_FIELDS:  # of a trailer
                self._refuse(Malformed(Reason.HEADERS_TOO_LARGE))
            else:
                cycle.more_body = False
                if cycle.arrival is not None:
                    cycle.wake()
        self._in_head = True
        self._barren = 0

    def _admit(self, downstream: Downstream) -> None:
        self.cycle = downstream
        if self._deaf and downstream.refusal is None:
            return  # behind a request that ends the connection
        if self._active is None and not self._walking and not self._waiting and not self.flow.write_paused:
            self._serve(downstream)
            return
        self._waiting.append(downstream)
        if len(self._waiting) > PIPELINE_AT_MOST:
            self._stop_reading()
        elif self._active is None:
            self._go_on()

    def _go_on(self) -> None:
        """Begin with the next request, but not while the client leaves earlier answers unread."""
        free = self._active is None and not self._walking
        if self._waiting and free and not self.flow.write_paused and not self.transport.is_closing():
            self._serve(self._waiting.pop(0))

    def _walk(self, downstream: Downstream) -> Walk:
        """Make the walk of a request."""
        return Walk(self._serving(downstream), self.loop, self.tasks, downstream.over)

    def _serve(self, downstream: Downstream) -> None:
        """Serve a request; while the parser reads, behind it."""
        self._silence.due = None
        self._active, self._walking = downstream, True
        if self._parsing:
            self._unbegun = downstream
        else:
            self._walk(downstream).step()

    def _leave_waiting(self) -> None:
        """Have those recorded that will not be answered: their heads were complete."""
        waiting, self._waiting = self._waiting, []
        for downstream in waiting:
            downstream.lost()
            self.loop.call_soon(self._walk(downstream).step)

    def _refuse(self, refusal: Malformed) -> None:
        """Answer what could not be read, in its turn, and read no further."""
        self._deaf = True
        self._deadline.due = None
        cycle = self.cycle
        if cycle is not None and not self._in_head and cycle.more_body:
            # The body broke: the request itself is being answered, or waits for its turn.
            cycle.body_fault = refusal
            cycle.keep_alive = False
            cycle.wake()
            return
        if not self._head_begun:
            self.on_message_begin()
        self._names, self._values = [], []  # nobody reads them
        refused = Downstream(self, "", self.url, "1.1", NO_FIELDS)
        refused.refusal = refusal
        self._admit(refused)

    def _stop_reading(self) -> None:
        """Serve what waits and then close, instead of pausing a connection on which a leave must be seen.

        What is being read is not served, since it can never be read to its end; the client sends it again.
        """
        self._deaf = True
        served = [one for one in (self._active, *self._waiting[:PIPELINE_AT_MOST]) if one is not None]
        if self._waiting and served[-1] is self.cycle and self.cycle.more_body:
            served.pop().body = b""
        served[-1].keep_alive = False
        self.flow.resume_reading()

    # Answering

    def lines(self) -> bytes:
        """Give the lines of every head: the date, which uvicorn sets anew each second."""
        fields = self.server_state.default_headers
        if fields is not self._fields:
            self._fields, self._lines = fields, b"".join(b"%b: %b\r\n" % field for field in fields)
        return self._lines

    def answered(self, downstream: Downstream) -> None:
        """Go on after a whole answer: with the next request, or with closing."""
        self.server_state.total_requests += 1
        self._active = None
        if self.transport.is_closing():
            return
        if not downstream.keep_alive:
            self._leave_waiting()
            if downstream.more_body or self._deaf:
                self._linger()
            else:
                self.close_within(self.timeout_keep_alive)
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._silence.within(self.timeout_keep_alive)

    def over(self) -> None:
        """Go on with what waits: a request that was answered has freed what the next one may need."""
        self._walking = False
        if self._waiting:
            self.loop.call_soon(self._go_on)

    def _too_silent(self) -> None:
        """Close a connection on which nothing was asked, or no answer taken."""
        self.close_within(self.limits.linger_s)

    def _linger(self) -> None:
        self.flow.resume_reading()
        self.close_within(self.limits.linger_s, close=False)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _drain(self, size: int) -> None:
        self._drainable -= size
        if self._drainable < 0:
            self.transport.abort()

    def close_within(self, seconds: float, *, close: bool = True) -> None:
        """Close as soon as what was written is out, and drop the connection after so many seconds in any case."""
        self._deaf = self._closing = True
        self._deadline.within(seconds)
        self.outbox.flush()
        if close:
            self.transport.close()

    def shutdown(self) -> None:
        """Close now, or behind the answers that are under way (called once at a graceful shutdown)."""
        last = self._waiting[-1] if self._waiting else self._active
        if last is not None:
            last.keep_alive = False
        elif self._requests and not self._head_begun and not self._deaf:
            self.close_within(self.limits.linger_s)
        elif not self._deaf:  # otherwise it is closing already, behind an answer that must arrive
            self.retire()
            self._deadline.within(min(FIRST_S, self.limits.head_s))

    def retire(self) -> None:
        """Close behind the next answer, so that the client opens its next connection elsewhere."""
        self._requests = REQUESTS_AT_MOST

    def _too_late(self) -> None:
        """Drop a connection that does not close, and answer a head that does not end."""
        if self._closing:
            self.transport.abort()
        elif self._active is not None or self._waiting:
            self._stop_reading()
        elif self._head_begun:
            self._refuse(Malformed(Reason.REQUEST_TIMEOUT, "the header fields did not arrive in time"))
        else:
            self.close_within(self.limits.linger_s)
