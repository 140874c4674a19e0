"""A connection to an engine that is kept from one question of our own to the next (RFC 9112 §9.3).

Enters: questions. Leaves: answers, and ``lost``: the engine has ended the connection sooner than it had kept it idle
before. An engine that dies or starts anew ends every connection in that moment, so none of it is overlooked, however
quickly another process listens in its place. What to think of it is not decided here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.reasons import Unavailable

if TYPE_CHECKING:
    from gateway.adapters.engine_client import EngineClient
    from gateway.adapters.engine_pool import EngineConnection


class PersistentConnection:
    """One connection at a time, opened for the next question when it has ended.

    An engine may end an idle connection when it likes, so only what it has kept for longer counts as lost. ``lost``
    stays until it is explained (``settle``).
    """

    def __init__(self, client: EngineClient) -> None:
        self.lost = False
        self._client = client
        self._connection: EngineConnection | None = None
        self._answered_at = 0.0
        self._kept_s = 0.0

    async def fetch(self, path: str, *, timeout_s: float) -> tuple[int, bytes]:
        """Get something; give status and body. Raises ``Unavailable`` as the client does, with nothing kept."""
        loop = asyncio.get_running_loop()
        reused, self._connection = self._connection, None
        connection = reused or await self._client.pool.connect()
        idle_s = loop.time() - self._answered_at
        stays = False
        try:
            status, body, stays = await self._client.fetch_on(connection, path, timeout_s=timeout_s)
        except Unavailable:
            if reused and not connection.open:
                self._ended(idle_s)
            raise
        finally:
            if not stays:
                connection.transport.abort()
        if reused:
            self._kept_s = max(self._kept_s, idle_s)
        self._answered_at = loop.time()
        if stays and connection.open:
            connection.receiver = self
            self._connection = connection
        elif stays:  # it has ended behind the answer
            self._ended(0.0)
        return status, body

    def settle(self) -> None:
        """Take a loss as explained; how long the engine keeps a connection is found out anew."""
        self.lost, self._kept_s = False, 0.0

    def received(self, _: bytes) -> None:
        """Leave an engine that speaks without having been asked."""
        self.close()

    def closed(self) -> None:
        """Learn that the engine has ended it."""
        self._connection = None
        self._ended(asyncio.get_running_loop().time() - self._answered_at)

    def late(self) -> None:
        """Have no alarm."""

    def close(self) -> None:
        """Leave the engine."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.receiver = None
            connection.transport.abort()

    def _ended(self, idle_s: float) -> None:
        self.lost = self.lost or idle_s < self._kept_s
