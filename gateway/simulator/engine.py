"""A vLLM 0.32 to test against: its whole HTTP surface, its traps included, without a model.

Enters: HTTP over TCP or a Unix socket. Leaves: vLLM's answers, and in ``EngineSimulator.requests`` every request that
reached it. The server is plain uvicorn with httptools and the router is Starlette's, as in the real thing, so a target
is decoded, matched and redirected as there. The key guards four prefixes only.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from uvicorn import Config, Server

from gateway.simulator.errors import Refused, not_routed, refused
from gateway.simulator.record import Recorded, Recorder, TargetProtocol
from gateway.simulator.routes import routes
from gateway.simulator.state import EngineState, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from starlette.types import ASGIApp, Receive, Scope, Send

GUARDED = ("/v1", "/v2", "/inference", "/cohere")


class KeyCheck:
    """vLLM's key check: a test of the decoded path's prefix, before routing, that lets OPTIONS through."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self.app = app
        self.api_key = api_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or hand on."""
        asked = scope["method"] != "OPTIONS" and scope["path"].startswith(GUARDED)
        if asked and not self._knows(scope["headers"]):
            await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _knows(self, headers: list[tuple[bytes, bytes]]) -> bool:
        first = next((value for name, value in headers if name == b"authorization"), b"")
        scheme, _, key = first.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(key, self.api_key.encode())


class NoWebSockets:
    """Any WebSocket is refused: 403 is what a text model's server says."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse an upgrade or hand on."""
        if (b"upgrade", b"websocket") in [(name, value.lower()) for name, value in scope["headers"]]:
            await JSONResponse({}, 403)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class QuietServer(Server):
    """uvicorn without its signal handlers: whoever runs the simulator decides when it ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class EngineSimulator:
    """A running engine: ``async with EngineSimulator() as engine: engine.url, engine.requests, engine.state``.

    ``uds`` is the path of a Unix socket in place of TCP; ``record`` a file that other processes read with
    ``record.read``. Without ``api_key`` nothing is asked. ``state`` may be changed while it runs.
    """

    def __init__(
        self,
        state: EngineState | None = None,
        *,
        api_key: str | None = None,
        dev_mode: bool = True,
        host: str = "127.0.0.1",
        port: int = 0,
        uds: Path | None = None,
        record: Path | None = None,
    ) -> None:
        self.state = state or EngineState()
        self.recorder = Recorder(self._application(api_key, dev_mode=dev_mode), record)
        self.api_key = api_key
        self._address = (host, port)
        self._uds = uds
        self._group = asyncio.TaskGroup()
        self.url = ""

    @property
    def requests(self) -> list[Recorded]:
        """Every request that reached the engine, in order."""
        return self.recorder.requests

    async def __aenter__(self) -> Self:
        """Open the socket and serve on it. Raises ``OSError`` where somebody else listens."""
        listener = self._listen()
        config = Config(
            self.recorder,
            http=TargetProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = QuietServer(config)
        await self._group.__aenter__()
        self._serving = self._group.create_task(self._server.serve([listener]))
        await until(lambda: self._server.started or self._serving.done())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, and cut off whoever is still being answered."""
        self._server.should_exit = True
        self.state.abort_all()
        await self._group.__aexit__(None, None, None)

    def _application(self, api_key: str | None, *, dev_mode: bool) -> ASGIApp:
        guard = [Middleware(KeyCheck, api_key=api_key)] if api_key else []
        cors = Middleware(CORSMiddleware, allow_origins=[], allow_methods=["*"], allow_headers=["*"])
        return Starlette(
            routes=routes(self.state, dev_mode=dev_mode),
            middleware=[*guard, Middleware(NoWebSockets), cors],
            exception_handlers={Refused: refused, HTTPException: not_routed},
        )

    def _listen(self) -> socket.socket:
        if self._uds is not None:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(self._uds))
            self.url = f"unix:{self._uds}"
            return listener
        # Named in full: asyncio sends small pieces at once, as uvloop does, on sockets that say that they are TCP.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(self._address)
            listener.listen()  # two may bind one address, and only one can listen
        except OSError:
            listener.close()
            raise
        host, port = listener.getsockname()
        self.url = f"http://{host}:{port}"
        return listener
