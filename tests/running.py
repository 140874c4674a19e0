"""The real command in a process of its own: begun, asked, told by signals, and ended well.

Enters: settings that differ from the smallest house. Leaves: ``Running``, with which a test asks it and reads what it
says and records.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.adapters.relaying import MODELS, whole
from tests.adapters.wiring import Client
from tests.small_house import POLICY, chat, environment

if TYPE_CHECKING:
    import ssl
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from socket import socket

    from tests.adapters.relaying import Line

PATIENCE_S = 60


class Running:
    """A gateway in a process of its own."""

    def __init__(self, process: Process, settings: dict[str, str], folder: Path) -> None:
        self._process = process
        self._settings = settings
        self._folder = folder
        self.lines: list[dict[str, Any]] = []

    def address(self, listener: str = "PUBLIC") -> str:
        return self._settings[f"GATEWAY_LISTENERS__{listener}"]

    @asynccontextmanager
    async def client(self, listener: str = "PUBLIC", *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
        address = self.address(listener)
        if address.startswith("unix:"):
            reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            name = "localhost" if tls else None
            reader, writer = await asyncio.open_connection(host, int(port), ssl=tls, server_hostname=name)
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def ask(
        self, data: bytes, listener: str = "PUBLIC", *, tls: ssl.SSLContext | None = None
    ) -> tuple[int, bytes]:
        async with self.client(listener, tls=tls) as client:
            client.send(data)
            answer = await client.answer()
            return answer.status, answer.body

    async def chat(self, **body: object) -> tuple[int, bytes]:
        return await self.ask(chat(self.address(), **body))

    def tell(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    async def said(self, event: str, **facts: object) -> dict[str, Any]:
        """Wait for an operational log line, with these facts in it."""
        wanted = {"event": event, **facts}.items()
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            for line in self.lines:
                if wanted <= line.items():
                    return line
            while said := await self._process.stderr.readline():
                self.lines.append(json.loads(said))
                if wanted <= self.lines[-1].items():
                    return self.lines[-1]
        pytest.fail(f"never said {wanted!r}: {self.lines}")

    async def ended(self) -> int:
        """Wait for the end; give the exit status."""
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            rest = await self._process.stderr.read()
            self.lines += [json.loads(line) for line in rest.splitlines()]
            return await self._process.wait()

    async def pestered(self) -> int:
        """Send every signal that means something, again and again, until the end; give the exit status."""
        ending = asyncio.ensure_future(self.ended())
        with suppress(ProcessLookupError):
            while not ending.done():
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    os.kill(self._process.pid, number)  # ``send_signal`` may take the status, and lose it
                await asyncio.sleep(0.001)
        return await ending

    def records(self) -> list[dict[str, Any]]:
        """Give the audit records so far."""
        return [json.loads(line) for line in (self._folder / "audit.jsonl").read_bytes().splitlines()]


async def begin(settings: dict[str, str], handed: Sequence[socket] = ()) -> Process:
    """Begin the command; ``handed``: listening sockets that it does not bind itself."""
    numbers = [one.fileno() for one in handed]
    program = ["tests.e2e.handed", *map(str, numbers), "--"] if handed else ["gateway"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *program,
        "serve",
        env={**inherited, **settings},
        stderr=asyncio.subprocess.PIPE,
        pass_fds=numbers,
    )


def _write_policy(folder: Path) -> None:
    if not list(folder.glob("*.yaml")):
        (folder / "demo.yaml").write_text(POLICY, "utf-8")


@asynccontextmanager
async def running(
    folder: Path,
    engine: str = "http://127.0.0.1:9",
    ends_with: int = 0,
    handed: Sequence[socket] = (),
    /,
    **more: str,
) -> AsyncIterator[Running]:
    """Run a gateway within this block; it must end well when it is told to, or with another status as expected."""
    _write_policy(folder)
    settings = environment(folder, engine, **more)
    gateway = Running(await begin(settings, handed), settings, folder)
    try:
        for _ in range(sum(name.startswith("GATEWAY_LISTENERS") for name in settings)):
            await gateway.said("listening")
        yield gateway
    finally:
        if gateway._process.returncode is None:
            gateway.tell(signal.SIGTERM)
        status = await gateway.ended()
    assert status == ends_with


async def refused(folder: Path, handed: Sequence[socket] = (), /, **more: str) -> str:
    """Begin in vain; give the sentence."""
    process = await begin(environment(folder, "http://127.0.0.1:9", **more), handed)
    async with asyncio.timeout(PATIENCE_S):
        _, said = await process.communicate()
    assert process.returncode == 2
    return said.decode()


async def answers(line: Line) -> None:
    """Play an engine that answers at once."""
    await line.send(MODELS if line.head.startswith(b"GET") else whole(b'{"choices":[]}'))
