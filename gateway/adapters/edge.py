"""The connection to a client: uvicorn's httptools protocol with the bounds that an open port needs.

Enters: bytes of one client connection. Leaves: one ``Downstream`` for each request, in order, each handed to the
plane's ASGI application with the request target as it was sent. llhttp refuses what is not HTTP/1.1; this class adds a
head deadline and cap, refusals that are answered and recorded like any other, bounded pipelining, a close that does not
lose the answer, and it notices at once when a client leaves. It judges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.adapters.downstream import Downstream, Wake
from gateway.identity.confirmation import certificate_thumbprint
from gateway.reasons import Malformed, Reason
from gateway.wire.headers import MOST_FIELDS
from gateway.wire.target import LONGEST_TARGET

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

HEAD_AT_MOST = 40 * 1024
"""Bytes that may come without a whole head, a byte of a body or its end: the 32 KiB that fields may have, the target,
and some room for the rest of the grammar. Chunk extensions and trailers are held to it as well.
"""

PIPELINE_AT_MOST = 8
"""Requests that may wait behind the one being answered; the connection is closed behind them (RFC 9112 §9.3.2 lets it).
"""

REQUESTS_AT_MOST = 10_000
"""Requests on one connection, so that no connection and nothing that hangs on it lives for ever."""

LINGER_BYTES = 64 * 1024 * 1024
"""Bytes of an unread body that are drained, so that a reset does not overtake the answer."""

TLS_BUFFER = 64 * 1024
"""Bytes of an answer that wait to be encrypted before its source is paused, as in the clear; asyncio has 512 KiB."""

EXTENSION = "vllm_gateway"
"""Key of the ``Downstream`` in the ASGI scope's extensions."""


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """Bounds of a listener: seconds for a head and for a body, connections at one time, and seconds for a close."""

    head_s: float = 15.0
    body_s: float = 30.0
    connections: int = 10_000
    linger_s: float = 5.0


class EdgeProtocol(HttpToolsProtocol):
    """HTTP/1.1 towards clients."""

    certificate: str | None = None
    """The thumbprint of the client's certificate, where the listener asks for one (RFC 8705 §3.1)."""
    cycle: Downstream | None  # type: ignore[assignment]  # narrower than uvicorn's

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: EdgeLimits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits = limits
        self._active: Downstream | None = None  # the request being answered; `cycle` is the one being read
        self._waiting: list[Downstream] = []
        self._requests = 0
        self._in_head = True
        self._head_begun = False
        self._barren = 0  # bytes since the parser last gave something
        self._deaf = False  # what still arrives is counted and thrown away
        self._drainable = LINGER_BYTES
        self._deadline: asyncio.TimerHandle | None = None

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Take a new connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            transport.set_write_buffer_limits(TLS_BUFFER)
            shown = tls.getpeercert(binary_form=True)
            self.certificate = certificate_thumbprint(shown) if shown else None
        self._set_deadline(self.limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request of this connection that its client is gone."""
        self._clear_deadline()
        self._unset_keepalive_if_required()
        active, self._active = self._active, None
        waiting, self._waiting = self._waiting, []
        super().connection_lost(exc)
        for downstream in (active, *waiting):
            if downstream is not None:
                downstream.lost()

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
            self._unset_keepalive_if_required()
        read = 0
        reading = True
        while reading and read < len(data):
            piece = data[read : read + HEAD_AT_MOST - self._barren]
            read += len(piece)
            self._barren += len(piece)  # before the parser reads: its callbacks set it to 0
            reading = self._feed(piece)
        if not reading:
            self._drain(len(data) - read)
        elif self._deadline is None and (self._head_begun or self._idle):
            self._set_deadline(self.limits.head_s)

    @property
    def _idle(self) -> bool:
        return self._active is None and not self._waiting

    def _feed(self, piece: bytes) -> bool:
        """Let the parser read; tell whether it may read on."""
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._deaf = True  # the request itself is refused by its header fields; what follows it is not HTTP
        except httptools.HttpParserError as error:
            self._refuse(self._reason_of(error))
        else:
            if not self._deaf and (self._barren >= HEAD_AT_MOST or len(self.headers or ()) > MOST_FIELDS):
                too_long = self._head_begun and len(self.url) > LONGEST_TARGET and not self.headers
                self._refuse(Malformed(Reason.TARGET_TOO_LONG if too_long else Reason.HEADERS_TOO_LARGE))
        return not self._deaf

    def _reason_of(self, error: Exception) -> Malformed:
        if isinstance(error, httptools.HttpParserCallbackError):
            return Malformed(Reason.INTERNAL, repr(error.__context__))
        if isinstance(error, httptools.HttpParserInvalidURLError):
            return Malformed(Reason.TARGET_MALFORMED)
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            return Malformed(Reason.HEADERS_MALFORMED, "the request line names no method known here")
        return Malformed(
            Reason.HEADERS_MALFORMED if self._in_head else Reason.BODY_MALFORMED, "the request is not valid HTTP/1.1"
        )

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        super().on_message_begin()
        self._in_head = self._head_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field; white space behind its value is no part of it (RFC 9112 §5.1), and llhttp cuts only before."""
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Hand the request on; its body may still be on the way."""
        self._in_head = self._head_begun = False
        self._barren = 0
        self._clear_deadline()
        self._requests += 1
        parser = self.parser
        keep_alive = parser.should_keep_alive() and not parser.should_upgrade() and self._requests < REQUESTS_AT_MOST
        self._admit(
            self._downstream(parser.get_method().decode("ascii"), parser.get_http_version(), keep_alive=keep_alive)
        )

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body for whoever reads it."""
        self._barren = 0
        super().on_body(body)
        cycle = self.cycle
        if cycle is not None and cycle is not self._active and len(cycle.body) > HEAD_AT_MOST:
            self._stop_reading()

    def on_message_complete(self) -> None:
        """Note that the next bytes are a new head."""
        self._in_head = True
        self._barren = 0
        super().on_message_complete()

    def _downstream(self, method: str, http_version: str, *, keep_alive: bool) -> Downstream:
        scope = self.scope
        scope["method"] = method
        scope["http_version"] = http_version
        scope["path"] = ""  # a decoded path is no basis for any decision
        scope["raw_path"] = self.url
        scope["query_string"] = b""
        downstream = Downstream(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=cast("asyncio.Event", Wake()),
            expect_100_continue=self.expect_100_continue and http_version == "1.1",  # RFC 9110 §10.1.1
            keep_alive=keep_alive and http_version == "1.1",
            on_response=_nothing,
        )
        downstream.edge = self
        downstream.method = method
        downstream.target = self.url
        downstream.http_version = http_version
        downstream.headers = self.headers
        self.headers = []  # what follows is a trailer: never merged (RFC 9110 §6.5.1), never looked at
        downstream.peer = self.client[0] if self.client else None
        scope["extensions"] = cast("dict[str, dict[object, object]]", {EXTENSION: downstream})
        return downstream

    def _admit(self, downstream: Downstream) -> None:
        self.cycle = downstream
        if self._deaf and downstream.refusal is None:
            return  # behind a request that ends the connection
        if len(self._waiting) < PIPELINE_AT_MOST:
            self._waiting.append(downstream)
            if self._active is None:
                self._go_on()
        else:
            self._stop_reading()

    def _go_on(self) -> None:
        """Begin with the next request, but not while the client leaves earlier answers unread."""
        if self._waiting and not self.flow.write_paused:
            self._unset_keepalive_if_required()
            self._active = self._waiting.pop(0)
            self._start_asgi_task(self._active, self.app)

    def _refuse(self, refusal: Malformed) -> None:
        """Answer what could not be read, in its turn, and read no further."""
        self._deaf = True
        self._clear_deadline()
        cycle = self.cycle
        if cycle is not None and not self._in_head and cycle.more_body:
            # The body broke: the request itself is being answered, or waits for its turn.
            cycle.body_fault = refusal
            cycle.keep_alive = False
            cycle.message_event.set()
            return
        if not self._head_begun:
            self.on_message_begin()
        self.headers.clear()  # nobody reads them
        refused = self._downstream("", "1.1", keep_alive=False)
        refused.refusal = refusal
        self._admit(refused)

    def _stop_reading(self) -> None:
        """Serve what waits and then close, instead of pausing a connection on which a leave must be seen."""
        self._deaf = True
        if self._waiting and self._waiting[-1] is self.cycle and self.cycle.more_body:
            self._waiting.pop()  # it can never be read to its end; the client sends it again
        last = self._waiting[-1] if self._waiting else self._active
        if last is not None:
            last.keep_alive = False
        self.flow.resume_reading()

    # Answering

    def answered(self, downstream: Downstream) -> None:
        """Go on after a whole answer: with the next request, or with closing."""
        self.server_state.total_requests += 1
        self._active = None
        if self.transport.is_closing():
            return
        if not downstream.keep_alive:
            if downstream.more_body or self._deaf:
                self._linger()
            else:
                self.close_within(self.timeout_keep_alive)
            return
        self.flow.resume_reading()
        self._go_on()
        if self._active is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing was asked, or no answer taken, for long."""
        self.timeout_keep_alive_task = None
        self.close_within(self.limits.linger_s)

    def _linger(self) -> None:
        self._deaf = True
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.close_within(self.limits.linger_s, close=False)

    def _drain(self, size: int) -> None:
        self._drainable -= size
        if self._drainable < 0:
            self.transport.abort()

    def close_within(self, seconds: float, *, close: bool = True) -> None:
        """Close as soon as what was written is out, and drop the connection after so many seconds in any case."""
        self._clear_deadline()
        self._deaf = True
        self._deadline = self.loop.call_later(seconds, self.transport.abort)
        if close:
            self.transport.close()

    def shutdown(self) -> None:
        """Close now, or behind the answers that are under way (called once at a graceful shutdown)."""
        last = self._waiting[-1] if self._waiting else self._active
        if last is not None:
            last.keep_alive = False
        elif not self._deaf:  # otherwise it is closing already, behind an answer that must arrive
            self.close_within(self.limits.linger_s)

    # Deadlines

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._head_too_late)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _head_too_late(self) -> None:
        self._deadline = None
        if not self._idle:
            self._stop_reading()
        elif self._head_begun:
            self._refuse(Malformed(Reason.REQUEST_TIMEOUT, "the header fields did not arrive in time"))
        else:
            self.close_within(self.limits.linger_s)


def _nothing() -> None:
    """Stand in for uvicorn's callback: ``Downstream`` tells the protocol itself."""
