"""One worker as its supervisor sees it: a process that was started, a line to it, and its end.

Enters: sockets and a lock that it is to have besides. Leaves: ``WorkerProcess``. It is a fresh interpreter, not a copy
of this one: nothing of an event loop, of a lock or of a connection can come along by mistake.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gateway.adapters.channel import Channel

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Awaitable, Callable, Collection, Mapping

MODULE = "gateway.worker"
# Settings go over the line, where nobody can read secrets in a list of processes; sockets were for the supervisor.
_NOT_FOR_WORKERS = ("GATEWAY_", "LISTEN_")


class WorkerProcess:
    """A process of ``gateway.worker``."""

    def __init__(self, process: Process, channel: Channel) -> None:
        self._process = process
        self._channel = channel

    @classmethod
    async def start(
        cls,
        descriptors: Collection[int],
        environ: Mapping[str, str],
        answer: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> WorkerProcess:
        """Start one with these open descriptors, which keep their numbers. Raises ``OSError``."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # nothing is imported from the folder that the gateway was started in
                    "-m",
                    MODULE,
                    str(theirs.fileno()),
                    pass_fds=(theirs.fileno(), *descriptors),
                    stdin=asyncio.subprocess.DEVNULL,
                    env={name: value for name, value in environ.items() if not name.startswith(_NOT_FOR_WORKERS)},
                )
            except OSError:
                ours.close()
                raise
        return cls(process, await Channel.of(ours, answer))

    @property
    def number(self) -> int:
        """The number that the system has given it."""
        return self._process.pid

    async def run(self) -> None:
        """Keep the line open until it ends."""
        await self._channel.run()

    async def ask(self, what: str, **facts: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
        """Ask it something. Raises ``ConnectionError`` when it has ended."""
        return await self._channel.ask(what, **facts)

    def hang_up(self) -> None:
        """End the line: whoever serves drains, whoever does not ends."""
        self._channel.close()

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> str:
        """Wait for its end, and say what it was."""
        status = await self._process.wait()
        return f"status {status}" if status >= 0 else signal.Signals(-status).name
