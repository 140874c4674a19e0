"""Connections to one engine, kept for the next request.

Enters: an engine's address. Leaves: ``EngineConnection``, which belongs to one exchange at a time. The pool never waits
and never queues: how many requests an engine gets is decided before. Bytes on an idle connection mean that it is out of
step: it is closed.
"""

from __future__ import annotations

import asyncio
import collections
import ssl
from typing import TYPE_CHECKING, Protocol, cast

from gateway.adapters.alarm import Alarm
from gateway.adapters.walk import in_task
from gateway.addresses import Unix
from gateway.reasons import Reason, Unavailable
from gateway.wire.http1 import ResponseReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gateway.addresses import EngineAddress


class CaFileUnusable(Exception):  # noqa: N818  (says what is so)
    """A file of authorities cannot be used; the text completes a sentence that names the setting."""


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """Make what decides whether a certificate is believed: the authorities of a PEM file alone, or the system's.

    Raises ``CaFileUnusable``.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise CaFileUnusable("holds no certificate in PEM") from None
    except OSError as error:
        raise CaFileUnusable(f"cannot be read: {error.strerror}") from None


class Receiver(Protocol):
    """The exchange that a connection belongs to."""

    def received(self, data: bytes) -> None:
        """Take bytes of the engine's answer."""

    def closed(self) -> None:
        """Learn that the connection has ended."""

    def late(self) -> None:
        """Learn that the alarm of the connection rang."""


class EngineConnection(asyncio.Protocol):
    """One connection to an engine.

    ``receiver`` is the exchange it belongs to, ``None`` while it is idle; ``alarm`` rings for that exchange, and
    ``reader`` reads its answer. ``sending``: a request is not all written.
    """

    __slots__ = (
        "_drained", "_forget", "alarm", "idle_since", "loop", "open", "reader", "receiver", "sending", "transport",
        "used",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, forget: Callable[[EngineConnection], None]) -> None:
        self._forget = forget
        self.loop = asyncio.get_running_loop()
        self.alarm = Alarm(self._ring, self.loop)
        self.reader = ResponseReader()
        self.receiver: Receiver | None = None
        self.open = False
        self.used = False
        self.sending = False
        self.idle_since = 0.0
        self._drained: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        """Hand bytes to the exchange; without one they are out of step."""
        receiver = self.receiver
        if receiver is None:
            self.transport.abort()
        else:
            receiver.received(data)

    def _ring(self) -> None:
        if self.receiver is not None:
            self.receiver.late()

    def eof_received(self) -> None:
        """Take the engine's half-close as the end: the transport closes itself then."""

    def pause_writing(self) -> None:
        """Learn that the engine reads slower than is written."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Learn that the engine has caught up, or that the connection has ended."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    async def drained(self) -> None:
        """Wait until the engine has taken most of what was written, or will take nothing more."""
        if self._drained is not None:
            await self._drained

    def connection_lost(self, _exc: Exception | None) -> None:
        """Tell the exchange, or leave the pool."""
        if not self.open:
            return
        self.open = False
        self.alarm.end()
        self.resume_writing()
        receiver, self.receiver = self.receiver, None
        if receiver is None:
            self._forget(self)
        else:
            receiver.closed()
        self.reader.close()


class EnginePool:
    """The connections of one engine: ``idle`` at most so many, none older than ``keep_alive_s``.

    The age is kept below the engine's own keep-alive (vLLM's uvicorn closes after 5 s), so that a reused connection is
    seldom stale. ``tls``: whom an https engine must convince; the system's authorities when absent.
    """

    def __init__(
        self,
        address: EngineAddress,
        *,
        idle: int,
        keep_alive_s: float,
        connect_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self._at_most = idle
        self._keep_alive_s = keep_alive_s
        self._connect_s = connect_s
        self._idle: collections.deque[EngineConnection] = collections.deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._tls = (tls or trust(None)) if address.tls else None
        self._shut = False

    def reuse(self) -> EngineConnection | None:
        """Take an idle connection, the youngest; ``None`` when there is none."""
        while self._idle:
            connection = self._idle.pop()
            if connection.open and not connection.transport.is_closing():
                connection.reader.begin()
                return connection
        return None

    async def connect(self) -> EngineConnection:
        """Open a connection. Raises ``Unavailable`` with ``ENGINE_UNAVAILABLE`` or ``ENGINE_TIMEOUT`` (connect)."""
        await in_task()
        loop = asyncio.get_running_loop()
        where = self.address.where
        try:
            async with asyncio.timeout(self._connect_s):
                if isinstance(where, Unix):
                    _, protocol = await loop.create_unix_connection(self._protocol, where.path)
                else:
                    _, protocol = await loop.create_connection(self._protocol, where.host, where.port, ssl=self._tls)
        except TimeoutError:
            raise Unavailable(Reason.ENGINE_TIMEOUT, "connect") from None
        except OSError as error:
            raise Unavailable(Reason.ENGINE_UNAVAILABLE, _why(error)) from None
        if not protocol.open:  # nobody would be told any more
            raise Unavailable(Reason.ENGINE_UNAVAILABLE, "connection closed")
        return protocol

    def _protocol(self) -> EngineConnection:
        return EngineConnection(self._forget)

    def give_back(self, connection: EngineConnection) -> None:
        """Take a connection back whose answer is complete; the caller has let go of it in the same step."""
        idle, transport = self._idle, connection.transport
        fit = connection.reader.reusable and not connection.sending and not transport.is_closing()
        if self._shut or not fit or len(idle) >= self._at_most:
            transport.abort()
            return
        connection.used = True
        connection.idle_since = connection.loop.time()
        idle.append(connection)
        if self._sweep is None:
            self._sweep = connection.loop.call_later(self._keep_alive_s / 2, self._close_old)

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._keep_alive_s / 2
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.popleft().transport.abort()
        self._sweep = loop.call_later(self._keep_alive_s / 2, self._close_old) if self._idle else None

    def _forget(self, connection: EngineConnection) -> None:
        """Drop an idle connection that ended by itself."""
        if connection in self._idle:
            self._idle.remove(connection)

    @property
    def idle(self) -> int:
        """How many connections wait."""
        return len(self._idle)

    def close(self) -> None:
        """Close what is idle; what is in use closes when it is given back."""
        self._shut = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        while self._idle:
            self._idle.popleft().transport.abort()


def _why(error: OSError) -> str:
    """Name the kind of failure without the address: answers and records must not map the inside network."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, FileNotFoundError):
        return "no such socket"
    if isinstance(error, ssl.SSLError):
        return "TLS failed"
    return "not reached"
