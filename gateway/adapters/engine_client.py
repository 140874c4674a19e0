"""What the gateway says to an engine: the head of a relayed request, and requests of its own.

Enters: judged requests, and the gateway's own questions. Leaves: request heads built from constants alone, and whole
answers to those questions. Own questions bear another user-agent, so that an engine's log can tell what no caller
caused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway import __version__
from gateway.reasons import Malformed, Reason, Unavailable

if TYPE_CHECKING:
    from gateway.adapters.engine_pool import EngineConnection, EnginePool
    from gateway.ports import Upload, UpstreamRequest

FETCHED_AT_MOST = 1024 * 1024
"""Bytes of an answer to a question of our own."""

_RELAYED = f"vllm-gateway/{__version__}"
_OWN = f"vllm-gateway/{__version__} (probe)"


class EngineClient:
    """One engine: its pool, and its key, which is ours and never a caller's."""

    def __init__(self, pool: EnginePool, api_key: str | None) -> None:
        self.pool = pool
        self._api_key = api_key
        self._heads: dict[tuple[str, str, bool], str] = {}

    def head(self, request: UpstreamRequest) -> bytes:
        """Give the head of a relayed request; the path is the dialect's constant."""
        if request.upload is not None:
            return self._upload_head(request, request.upload)
        key = (request.method, request.path, request.stream)
        constant = self._heads.get(key)
        if constant is None:
            accept = "text/event-stream" if request.stream else "application/json"
            fields = f"accept: {accept}\r\ncontent-type: application/json\r\n"
            beginning = self._constant(request.method, request.path, _RELAYED).decode("ascii")
            constant = self._heads[key] = f"{beginning}{fields}x-request-id: "
        # As text: to put a number into bytes costs more than to encode all of this.
        return f"{constant}{request.id}\r\ncontent-length: {len(request.body)}\r\n\r\n".encode("ascii")

    def _upload_head(self, request: UpstreamRequest, upload: Upload) -> bytes:
        """Give the head of a form; its length is known, since its file is whole."""
        accept = "text/event-stream" if request.stream else "application/json"
        length = len(request.body) + upload.file.size + len(upload.tail)
        fields = (
            f"accept: {accept}\r\ncontent-type: multipart/form-data; boundary={upload.boundary}\r\n"
            f"x-request-id: {request.id}\r\ncontent-length: {length}\r\n\r\n"
        )
        return self._constant(request.method, request.path, _RELAYED) + fields.encode("ascii")

    def _constant(self, method: str, path: str, agent: str) -> bytes:
        key = f"authorization: Bearer {self._api_key}\r\n" if self._api_key else ""
        return (
            f"{method} {path} HTTP/1.1\r\nhost: {self.pool.address.host_field}\r\nuser-agent: {agent}\r\n"
            f"accept-encoding: identity\r\n{key}"
        ).encode("ascii")

    async def fetch(self, method: str, path: str, *, timeout_s: float, body: bytes = b"") -> tuple[int, bytes]:
        """Ask the engine something for ourselves; give status and body.

        Raises ``Unavailable`` with ``ENGINE_UNAVAILABLE``, ``ENGINE_TIMEOUT`` or ``ENGINE_MALFORMED``.
        """
        connection = await self.pool.connect()
        head = self._constant(method, path, _OWN)
        if body:
            head += b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        try:
            status, answer, _ = await _answered(connection, head + b"connection: close\r\n\r\n" + body, timeout_s)
        finally:
            connection.transport.abort()
        return status, answer

    async def fetch_on(self, connection: EngineConnection, path: str, *, timeout_s: float) -> tuple[int, bytes, bool]:
        """Get something for ourselves on a connection that is to stay; give status, body, and whether it stays.

        Raises as ``fetch`` does.
        """
        return await _answered(connection, self._constant("GET", path, _OWN) + b"\r\n", timeout_s)


async def _answered(connection: EngineConnection, question: bytes, timeout_s: float) -> tuple[int, bytes, bool]:
    """Ask one question, and let go of the connection."""
    receiver = _Question(connection)
    connection.transport.write(question)
    try:
        async with asyncio.timeout(timeout_s):
            return await receiver.answer
    except TimeoutError:
        raise Unavailable(Reason.ENGINE_TIMEOUT, "total") from None
    finally:
        connection.receiver = None


class _Question:
    """Receives the answer to one question, whole."""

    def __init__(self, connection: EngineConnection) -> None:
        self._reader = connection.reader
        self._reader.begin()
        self._parts: list[bytes] = []
        self._size = 0
        self.answer: asyncio.Future[tuple[int, bytes, bool]] = asyncio.get_running_loop().create_future()
        connection.receiver = self

    def received(self, data: bytes) -> None:
        """Take a piece of the answer."""
        try:
            self._reader.feed(data)
        except Malformed as malformed:
            self._fail(Reason.ENGINE_MALFORMED, malformed.detail)
            return
        part = self._reader.take()
        self._size += len(part)
        if self._size > FETCHED_AT_MOST:
            self._fail(Reason.ENGINE_MALFORMED, "answer too long")
            return
        self._parts.append(part)
        if self._reader.complete:
            self._succeed()

    def closed(self) -> None:
        """Take the end of the connection."""
        if self._reader.eof():
            self._succeed()
        else:
            self._fail(Reason.ENGINE_UNAVAILABLE, "connection closed")

    def late(self) -> None:
        """Have no alarm: ``fetch`` has its own deadline."""

    def _succeed(self) -> None:
        if not self.answer.done():
            self.answer.set_result((self._reader.status, b"".join(self._parts), self._reader.reusable))

    def _fail(self, reason: Reason, detail: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(Unavailable(reason, detail))
