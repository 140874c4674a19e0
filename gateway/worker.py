"""One of several processes that serve the same listeners: ``gateway.worker``, started by the supervisor alone.

Enters: the number of the descriptor of its line to the supervisor; over that, settings, policies and sockets. Leaves:
answers, records, and what the supervisor asks for. It reads no policy file and no environment, so that all workers have
the same, whenever they were started. When the supervisor is gone it drains and ends.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import uvloop

from gateway import __version__
from gateway.adapters.channel import Channel
from gateway.adapters.listening import Unusable
from gateway.adapters.logs import configured
from gateway.adapters.write_turns import WriteTurns
from gateway.app import served_by
from gateway.policy.compile import compile_planes
from gateway.process import opened
from gateway.server import WATCH_S, WRONG
from gateway.settings import load_settings, portion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.policy.model import Plane
    from gateway.process import Process

GOODBYE_S = 2.0
"""Seconds that the supervisor has to take the last word of a worker."""


class Worker:
    """A worker; everything that it does, it is asked for."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._prepared: Sequence[Plane] = ()
        loop = asyncio.get_running_loop()
        self._asked: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._begun: asyncio.Future[dict[str, Any]] = loop.create_future()

    async def run(self, end: socket.socket) -> int:
        """Serve until told to stop. Give the exit status."""
        channel = await Channel.of(end, self._answer)
        async with asyncio.TaskGroup() as group:
            line = group.create_task(channel.run())
            line.add_done_callback(self._left)
            facts = await self._asked
            status = 2
            if facts:
                try:
                    await self._serve(facts)
                    status = 0
                except WRONG as error:
                    self._begun.set_result({"problems": str(error).splitlines()})
                    await asyncio.wait([line], timeout=GOODBYE_S)
            if self._process is not None:
                with suppress(ConnectionError, TimeoutError):
                    async with asyncio.timeout(GOODBYE_S):
                        await channel.ask("counted", metrics=self._process.metrics.render().decode())
            line.cancel()
        return status

    async def _serve(self, facts: dict[str, Any]) -> None:
        if facts["version"] != __version__:
            raise Unusable(f"Version {__version__} was installed while {facts['version']} runs: restart the gateway.")
        number = facts["number"]
        settings = portion(load_settings(facts["environ"]), number)
        given = {name: socket.socket(fileno=descriptor) for name, descriptor in facts["sockets"].items()}
        planes = compile_planes(facts["policies"])
        with configured(settings.log_level, worker=number):
            async with opened(settings, planes, given, WriteTurns(facts["turns"])) as process:
                self._settings, self._process = settings, process
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGTERM, process.stop)  # also when the supervisor gets one
                self._begun.set_result({})
                await process.run(_watch(process))

    def _left(self, _line: asyncio.Task[None]) -> None:
        """Drain: nobody is there who would look after this process."""
        if not self._asked.done():
            self._asked.set_result({})
        if self._process is not None:
            self._process.stop()

    async def _answer(self, what: str, facts: dict[str, Any]) -> dict[str, Any]:
        if what == "serve":
            self._asked.set_result(facts)
            return await self._begun
        process = self._process
        if process is None:
            return {}
        if what == "prepare":
            return await asyncio.to_thread(self._prepare, facts["policies"])
        if what == "commit":
            process.gateway.reload(self._prepared)
        elif what == "refresh":
            await process.refresh(told=True)
        elif what == "metrics":
            return {"metrics": process.metrics.render().decode()}
        elif what == "ready":
            return {"report": await process.ready()}
        elif what == "drain":
            process.stop()
        elif what == "end":
            process.stop_at_once()
        return {}

    def _prepare(self, policies: dict[str, str]) -> dict[str, Any]:
        """Compile policies and keep them until they are to be put in place."""
        try:
            planes = compile_planes(policies)
            served_by(self._settings, planes)
        except WRONG as error:
            return {"problems": str(error).splitlines()}
        self._prepared = planes
        return {}


async def _watch(process: Process) -> None:
    while True:
        await asyncio.sleep(WATCH_S)
        await process.refresh(told=False)


async def _work(end: socket.socket) -> int:
    return await Worker().run(end)


def main(arguments: Sequence[str]) -> int:
    """Be a worker. Give the exit status."""
    # A terminal sends them to all: the supervisor reloads and stops for all.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    end = socket.socket(fileno=int(arguments[0]))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_work(end))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
