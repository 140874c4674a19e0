"""A connection to the gateway's door without a network: bytes in, what the door hands on out.

Enters: bytes in pieces. Leaves: ``Reading``: each request as the plane would get it, what was refused, and the bytes
that were written. The transport is a double of asyncio's; everything else is as in production.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.server import ServerState

from gateway.adapters.edge import EdgeProtocol
from gateway.adapters.edge_limits import EdgeLimits
from gateway.enforcement import ENDS_CONNECTION
from gateway.reasons import ANSWERS, Malformed, Reason
from gateway.wire.headers import RequestHeaders
from gateway.wire.target import Target
from tests.fuzz.readers import ANY_HOST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.adapters.downstream import Downstream

BODY_AT_MOST = 1 << 20
HELD_AT_MOST = 1 << 20
"""Bytes that one connection may hold at any time: what waits is bounded, and what is read pauses at 64 KiB."""


@dataclass(frozen=True)
class Handed:
    """One request as the plane got it; ``refused`` is the reason why it went no further."""

    method: str
    target: bytes
    version: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    refused: Reason | None = None


@dataclass
class Reading:
    """What came of one connection. ``closed``: the door closed it before the client did."""

    handed: list[Handed] = field(default_factory=list)
    unreadable: list[Reason] = field(default_factory=list)
    closed: bool = False
    written: bytearray = field(default_factory=bytearray)

    @property
    def accepted(self) -> list[Handed]:
        """The requests that would have gone on."""
        return [one for one in self.handed if one.refused is None]


class MemoryTransport(asyncio.Transport):
    """The socket's side: keeps what is written, and tells the protocol when it is closed."""

    def __init__(self, reading: Reading) -> None:
        super().__init__({"peername": ("127.0.0.1", 40000), "sockname": ("127.0.0.1", 8080)})
        self.reading = reading
        self.paused = False
        self.gone = False
        self.protocol: EdgeProtocol | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep bytes."""
        if not self.gone:
            self.reading.written += data

    def is_closing(self) -> bool:
        """Tell whether nothing more can be written."""
        return self.gone

    def pause_reading(self) -> None:
        """Note that no more may be delivered."""
        self.paused = True

    def resume_reading(self) -> None:
        """Note that more may be delivered."""
        self.paused = False

    def can_write_eof(self) -> bool:
        """Say yes, as TCP does."""
        return True

    def write_eof(self) -> None:
        """Do nothing: the client reads on."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the client takes everything at once."""

    def close(self) -> None:
        """Close; the protocol learns of it in the next turn."""
        if not self.gone:
            self.gone = True
            asyncio.get_running_loop().call_soon(cast("EdgeProtocol", self.protocol).connection_lost, None)

    abort = close


def _target_fault(target: bytes) -> Malformed | None:
    """Read a target; one that is not canonical is a 404 like any other, so the rest of the syntax comes first."""
    try:
        Target.parse(target)
    except Malformed as malformed:
        if malformed.reason is not Reason.TARGET_NOT_CANONICAL:
            raise
        return malformed
    return None


async def _plane(downstream: Downstream, reading: Reading) -> None:
    """Do what the enforcement does first: check the syntax, read the body, answer."""
    if downstream.disconnected:
        return  # it came to be recorded alone
    if downstream.refusal is not None:
        reading.unreadable.append(downstream.refusal.reason)
        downstream.answer(ANSWERS[downstream.refusal.reason].status, [], b"")
        return
    refused, body = None, b""
    try:
        not_canonical = _target_fault(downstream.target)
        RequestHeaders.read(downstream.headers, http_version=downstream.http_version, hosts=ANY_HOST)
        if not_canonical is not None:
            raise not_canonical
        body = await downstream.read_body(BODY_AT_MOST)
    except Malformed as malformed:
        refused = malformed.reason
        if refused in ENDS_CONNECTION:
            downstream.keep_alive = False
    except ConnectionError:
        return
    headers = tuple(downstream.headers.pairs())
    reading.handed.append(Handed(downstream.method, downstream.target, downstream.http_version, headers, body, refused))
    downstream.answer(200 if refused is None else ANSWERS[refused].status, [], b"")


class Door:
    """A listener without a socket, for many connections one after another."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._reading = Reading()

        async def app(downstream: Downstream) -> None:
            await _plane(downstream, self._reading)

        self._config = uvicorn.Config(
            cast("Any", app),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        self._config.load()

    def read(self, parts: Iterable[bytes], *, eager: bool = False) -> Reading:
        """Deliver bytes on one connection; ``eager``: the plane answers between two pieces. Gives what came of it."""
        return self._loop.run_until_complete(self._converse(parts, eager=eager))

    async def _converse(self, parts: Iterable[bytes], *, eager: bool) -> Reading:
        self._reading = reading = Reading()
        state = ServerState()
        transport = MemoryTransport(reading)
        protocol = EdgeProtocol(self._config, state, {}, self._loop, limits=EdgeLimits())
        transport.protocol = protocol
        protocol.connection_made(transport)
        for part in parts:
            for _ in range(100):
                if transport.gone or not transport.paused:
                    break
                await asyncio.sleep(0)
            if transport.gone:
                break
            assert not transport.paused, "a connection on which nothing happens any more was left paused"
            protocol.data_received(part)
            assert held(protocol) <= HELD_AT_MOST
            if eager:
                await _settled(protocol, state)
        await _settled(protocol, state)
        reading.closed = transport.gone or protocol._deaf  # it lingers, so that the answer is not lost to a reset
        if not transport.gone:
            protocol.eof_received()
            await _settled(protocol, state)
            transport.close()
        await _settled(protocol, state)
        assert not state.tasks, "a request is still being served"
        assert protocol._deadline.due is None
        assert protocol._silence.due is None
        return reading


async def _settled(protocol: EdgeProtocol, state: ServerState) -> None:
    """Let what can go on go on: a pipeline of 8, each in a turn of its own; less where nobody is served."""
    for _ in range(30):
        await asyncio.sleep(0)
        if not state.tasks and not protocol._waiting:
            await asyncio.sleep(0)
            return


def held(protocol: EdgeProtocol) -> int:
    """Count the bytes that a connection keeps, as far as Python sees them."""
    kept = {id(one): one for one in (protocol.cycle, protocol._active, *protocol._waiting) if one is not None}
    bodies = sum(len(one.body) for one in kept.values())
    heads = sum(len(name) + len(value) for one in kept.values() for name, value in one.headers.pairs())
    own = sum(map(len, (*protocol._names, *protocol._values)))
    return bodies + heads + own + len(getattr(protocol, "url", b""))
