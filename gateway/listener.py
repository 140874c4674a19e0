"""One address that is served: uvicorn's server, without its signals and with our way to begin and to end.

Enters: an application, an address, perhaps a socket that somebody else has bound, perhaps what TLS is spoken with.
Leaves: connections, each with a protocol of its own. It decides nothing about a request.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from gateway.adapters.edge_limits import LINGER_S
from gateway.adapters.handshakes import HandshakeLimits, Handshakes
from gateway.adapters.listening import Unusable, bind, release
from gateway.addresses import Unix

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    import uvloop

    from gateway.adapters.edge import EdgeProtocol
    from gateway.adapters.server_certificate import ServerCertificate
    from gateway.settings import Settings

KEEP_ALIVE_S = 95
"""Seconds that an idle connection stays open: cloudflared keeps its own for 90 s, and whoever closes first must not be
us.
"""

BACKLOG = 4096


@dataclass(frozen=True, slots=True)
class Door:
    """What is behind an address: an application, the protocol of its connections, and what TLS is spoken with.

    ``given``: a bound socket. ``failed`` is told of each handshake that came to nothing.
    """

    app: Any
    protocol: object
    given: socket | None = None
    certificate: ServerCertificate | None = None
    failed: Callable[[], None] | None = None


def _config(app: Any, protocol: object, drain_s: float) -> uvicorn.Config:  # noqa: ANN401  (any ASGI application)
    """Say how connections are served: nothing of uvicorn's own but accepting them and the Date field."""
    return uvicorn.Config(
        app,
        http=cast("Any", protocol),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(drain_s)),
        backlog=BACKLOG,
    )


class Listener(uvicorn.Server):
    """One address.

    Signals are the process's, not uvicorn's, which would raise SIGTERM again and end with its status. ``given``: a
    bound socket, which stays whose it is: nothing is removed behind it.
    """

    def __init__(self, settings: Settings, name: str, door: Door) -> None:
        super().__init__(_config(door.app, door.protocol, settings.deadlines.drain))
        self._address = settings.listeners[name]
        self._given = door.given
        self._socket: socket | None = None
        self._handshakes: Handshakes | None = None
        if door.certificate is not None and door.failed is not None:
            limits = HandshakeLimits(settings.deadlines.head, LINGER_S, settings.max_connections)
            connections = self.server_state.connections
            self._handshakes = Handshakes(door.certificate, self.protocol, limits, connections, door.failed)

    async def open(self) -> None:
        """Begin to accept connections. Raises ``Unusable``."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        self.servers: list[asyncio.AbstractServer] = []  # type: ignore[assignment]  # as the event loop gives them
        try:
            self._socket = bound = self._given or bind(self._address)
            bound.listen(self.config.backlog)
            if self._handshakes is None:
                self.servers.append(await self._accept(bound))
        except OSError as error:
            if self._socket is not None and self._given is None:
                self._socket.close()
            raise Unusable(f"Cannot listen on {self._address}: {error.strerror}.") from None
        self.started = True

    async def _accept(self, bound: socket) -> asyncio.AbstractServer:
        """Have the event loop accept connections."""
        loop = cast("uvloop.Loop", asyncio.get_running_loop())
        backlog = self.config.backlog
        if isinstance(self._address, Unix):
            return await loop.create_unix_server(
                self.protocol,
                sock=bound,
                backlog=backlog,
                cleanup_socket=False,  # type: ignore[call-arg]  # newer than its types; whoever made the path removes it
            )
        return await loop.create_server(self.protocol, sock=bound, backlog=backlog)

    async def main_loop(self) -> None:
        """Accept, where the event loop does not, and keep the Date field until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._handshakes is not None and self._socket is not None:
                group.create_task(self._handshakes.accept(self._socket))
            await super().main_loop()

    def protocol(self) -> asyncio.Protocol:
        """Make the protocol of one connection, as uvicorn does."""
        return self.config.http_protocol_class(
            config=self.config,  # type: ignore[call-arg]  # any class that uvicorn takes has these three
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    def retire(self) -> None:
        """Let each connection end with its next answer, so that its client opens the next one elsewhere."""
        for connection in cast("set[EdgeProtocol]", self.server_state.connections):
            connection.retire()

    async def close(self) -> None:
        """Stop accepting, let what is under way finish within the drain deadline, and end the rest cleanly."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(0)  # those that were just accepted get their protocol, and are told like all others
        await self.shutdown([self._socket] if self._socket is not None else None)
        for task in self.server_state.tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while self.server_state.tasks:  # noqa: ASYNC110  (records are to be written; uvicorn's set has no event)
                    await asyncio.sleep(0.01)
        if self._given is None:
            release(self._address)
