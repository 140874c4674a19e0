"""Connections of a listener that speaks TLS: each is led through its handshake before anybody hears of it.

Enters: a listening socket, what handshakes are made with, bounds. Leaves: connections over TLS, each with a protocol of
its own, as if they had come in the clear. uvicorn's way to accept would let handshakes last a minute, not count them
among the connections, and keep the first certificate for ever. What fails here is the doing of strangers: it is
counted, and told at most once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from gateway.adapters.edge_limits import FIRST_S
from gateway.adapters.server_certificate import LINE

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from gateway.adapters.server_certificate import ServerCertificate

PAUSE_S = 1.0
"""Seconds without a new connection after the system had nothing left to make one of."""

_log = structlog.get_logger("gateway.tls")


@dataclass(frozen=True, slots=True)
class HandshakeLimits:
    """Seconds for a handshake and for a close, and connections at one time, handshakes included."""

    handshake_s: float
    close_s: float
    connections: int


class Handshakes:
    """The door of one listener. ``established`` are its connections; ``failed`` is told of each that came to none."""

    def __init__(
        self,
        certificate: ServerCertificate,
        protocol: Callable[[], asyncio.Protocol],
        limits: HandshakeLimits,
        established: Sized,
        failed: Callable[[], None],
    ) -> None:
        self._certificate = certificate
        self._protocol = protocol
        self._limits = limits
        self._established = established
        self._failed = failed
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, listening: socket.socket) -> None:
        """Take connections until cancelled; those that are not ready a moment later are given up."""
        async with asyncio.TaskGroup() as group:
            try:
                await self._accept(listening, group)
            finally:
                if self._tasks:  # whoever has just come may have a request on the way
                    await asyncio.wait(self._tasks, timeout=min(FIRST_S, self._limits.handshake_s))

    async def _accept(self, listening: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # one that waits already is taken without a turn of the loop
            try:
                accepted, _ = await loop.sock_accept(listening)
            except ConnectionError:
                continue  # it was gone before we came
            except OSError as error:
                _log.error("no connection can be accepted", why=error.strerror, sampled=True)
                await asyncio.sleep(PAUSE_S)
                continue
            if self._under_way + len(self._established) >= self._limits.connections:
                accepted.close()
                continue
            self._under_way += 1
            task = group.create_task(self._shake_hands(accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        """Lead one connection through its handshake; what goes wrong ends this connection and nothing else."""
        loop = asyncio.get_running_loop()
        LINE.set(accepted)
        try:
            with contextlib.suppress(OSError):  # it may be gone; the handshake will say so
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._certificate.current,
                ssl_handshake_timeout=self._limits.handshake_s,
                ssl_shutdown_timeout=self._limits.close_s,
            )
        except OSError as error:
            self._failed()
            _log.info("TLS handshake failed", why=_why(error), sampled=True)
        except Exception as error:  # noqa: BLE001  (a bug of ours must not end the other connections)
            accepted.close()
            _log.error("TLS handshake failed: bug", exc_info=error, sampled=True)
        finally:
            self._under_way -= 1


def _why(error: OSError) -> str:
    """Give a constant of OpenSSL's or the kind of the error, nothing that the peer wrote."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or type(error).__name__).lower().replace("_", " ")
    return type(error).__name__
