"""The line between the supervisor and one worker: each may ask the other, and gets one answer.

Enters: an end of a socket pair that nobody else has. Leaves: questions with facts in JSON, and their answers.
What comes is trusted, since both ends are this program; an end that is gone is ``ConnectionError`` for whoever waits.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from socket import socket

_LENGTH = 4  # bytes before each message


class Channel:
    """One end. ``answer`` gives the answer to a question of the other end."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._gone = False

    @classmethod
    async def of(cls, end: socket, answer: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]) -> Channel:
        """Make one of a connected socket, which it takes over."""
        reader, writer = await asyncio.open_unix_connection(sock=end)
        return cls(reader, writer, answer)

    async def run(self) -> None:
        """Answer what is asked, and hand out answers, until the other end is gone."""
        try:
            async with asyncio.TaskGroup() as group:
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    while True:
                        length = int.from_bytes(await self._reader.readexactly(_LENGTH))
                        message = orjson.loads(await self._reader.readexactly(length))
                        if "ask" in message:
                            group.create_task(self._reply(message))
                        elif message["to"] in self._waiting:
                            self._waiting.pop(message["to"]).set_result(message["answer"])
        finally:
            self._gone = True
            for future in self._waiting.values():
                future.set_exception(ConnectionError("the other end is gone"))
            self._waiting.clear()
            self._writer.close()

    async def ask(self, what: str, **facts: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
        """Ask, and wait for the answer. Raises ``ConnectionError``."""
        if self._gone:
            raise ConnectionError("the other end is gone")
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._send({"ask": what, "number": number, "facts": facts})
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """End it, behind what was sent."""
        self._writer.close()

    async def _reply(self, message: dict[str, Any]) -> None:
        answer = await self._answer(message["ask"], message["facts"])
        if not self._gone:
            self._send({"to": message["number"], "answer": answer})

    def _send(self, message: dict[str, Any]) -> None:
        data = orjson.dumps(message)
        self._writer.write(len(data).to_bytes(_LENGTH) + data)
