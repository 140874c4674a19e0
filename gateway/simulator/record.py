"""What reached the engine: every request as it came off the wire, and how it ended.

Enters: the ASGI calls of the simulator's server. Leaves: ``Recorded`` objects in ``Recorder.requests`` and, for a test
in another process, a JSON line for each step (head, body, end) in a file that ``read`` puts together again. It judges
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TARGET = "gateway.simulator.target"


class TargetProtocol(HttpToolsProtocol):
    """uvicorn's own protocol, which also leaves the untouched target in the scope."""

    def on_headers_complete(self) -> None:
        """Note the target just before uvicorn takes it apart."""
        self.scope["extensions"] = {TARGET: {"bytes": self.url}}
        super().on_headers_complete()


@dataclass(slots=True)
class Recorded:
    """One request. All text is latin-1, so that it holds the very bytes; ``status`` is 0 until an answer began."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: str = ""
    body_complete: bool = False
    status: int = 0
    finished: bool = False
    left: bool = False

    def header(self, name: str) -> list[str]:
        """Give every value that a field came with."""
        return [value for field_name, value in self.headers if field_name == name]

    @property
    def json(self) -> Any:  # noqa: ANN401  (a JSON value)
        """The body as JSON. Raises ``ValueError`` when it is none."""
        return orjson.loads(self.body.encode("latin-1"))

    @property
    def own_traffic(self) -> bool:
        """Whether the gateway asked on its own account: no caller caused this request."""
        return any(value.endswith("(probe)") for value in self.header("user-agent"))


@dataclass(slots=True)
class Recorder:
    """Wraps an application and keeps what passes; ``file`` takes the JSON lines."""

    app: ASGIApp
    file: Path | None = None
    requests: list[Recorded] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and keep it, from its head on."""
        target = scope.get("extensions", {}).get(TARGET, {}).get("bytes", scope["raw_path"])
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        seen = Recorded(scope["method"], target.decode("latin-1"), headers)
        number = len(self.requests)
        self.requests.append(seen)
        self._write(number, method=seen.method, target=seen.target, headers=seen.headers)

        async def hear() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                seen.body += message["body"].decode("latin-1")
                if not message["more_body"]:
                    seen.body_complete = True
                    self._write(number, body=seen.body, body_complete=True)
            elif not seen.finished and not seen.left:
                seen.left = True
                self._write(number, left=True)
            return message

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and not seen.left:
                seen.status = message["status"]
                self._write(number, status=seen.status)
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body") and not seen.left:
                seen.finished = True
                self._write(number, finished=True)

        await self.app(scope, hear, tell)

    def _write(self, number: int, **step: object) -> None:
        if self.file is not None:
            with self.file.open("ab") as lines:
                lines.write(orjson.dumps({"n": number, **step}) + b"\n")


def read(file: Path) -> list[Recorded]:
    """Put the steps in a recorder's file together; an absent file is an engine that nobody asked."""
    if not file.exists():
        return []
    found: dict[int, dict[str, Any]] = {}
    for line in file.read_bytes().splitlines():
        step = orjson.loads(line)
        found.setdefault(step.pop("n"), {}).update(step)
    for parts in found.values():
        parts["headers"] = [(name, value) for name, value in parts["headers"]]
    return [Recorded(**parts) for parts in found.values()]
