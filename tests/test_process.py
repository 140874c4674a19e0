"""What one process opens and how it ends; ``tests/test_server.py`` has the whole command."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest
import structlog
import uvloop

from gateway.adapters.listening import Unusable
from gateway.policy.compile import compile_planes
from gateway.process import Process, opened, warn
from tests.adapters.relaying import playing
from tests.adapters.wiring import Client, get
from tests.running import answers
from tests.small_house import INSIDE, POLICY, chat, settings_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

PLANES = compile_planes({"demo.yaml": POLICY})


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run with the event loop that a gateway has."""

    async def main() -> None:
        await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def nothing() -> None:
    """Watch over nothing."""
    await asyncio.Event().wait()


async def asked(host: str, data: bytes) -> tuple[int, str | None]:
    """Ask on a connection of its own; give status and ``connection``."""
    name, _, port = host.rpartition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    client = Client(reader, writer)
    client.send(data)
    answer = await client.answer()
    writer.transport.abort()
    return answer.status, answer.headers.get("connection")


def test_an_end_that_is_announced_lets_callers_in_until_it_comes(tmp_path: Path) -> None:
    async def work() -> None:
        async with playing(answers) as (_, url):
            settings = settings_of(tmp_path, url, DEADLINES__NOTICE="1s", DEADLINES__DRAIN="1s")
            host = str(settings.listeners["public"])
            async with opened(settings, PLANES, {}) as process, asyncio.TaskGroup() as group:
                serving = group.create_task(process.run(nothing()))
                assert await asked(host, chat(host)) == (200, None)
                process.stop()
                await asyncio.sleep(0.2)
                assert not (await process.ready()).ready
                reader, writer = await asyncio.open_connection(*host.split(":"))
                await asyncio.sleep(0.3)  # the next look at the connections
                client = Client(reader, writer)
                client.send(chat(host))
                answer = await client.answer()
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                writer.transport.abort()
                await serving
                with pytest.raises(ConnectionRefusedError):
                    await asked(host, get())

    run(work)


def test_told_to_stop_at_once_it_announces_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        settings = settings_of(tmp_path, DEADLINES__NOTICE="1h")
        async with opened(settings, PLANES, {}) as process, asyncio.timeout(20):
            process.stop_at_once()
            assert process.stopping
            await process.run(nothing())

    run(work)


def test_listeners_open_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "inside.yaml").write_text(INSIDE, "utf-8")
    planes = compile_planes({"demo.yaml": POLICY, "inside.yaml": INSIDE})

    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            settings = settings_of(tmp_path, LISTENERS__INSIDE=f"127.0.0.1:{taken.getsockname()[1]}")
            with pytest.raises(Unusable, match="Cannot listen on"):
                async with opened(settings, planes, {}):
                    pass
        host = str(settings.listeners["public"])
        with pytest.raises(ConnectionRefusedError):
            await asked(host, get())

    run(work)


def test_policies_that_nobody_can_reach_and_keys_that_mean_nothing_are_said(tmp_path: Path) -> None:
    lines: list[Any]
    with structlog.testing.capture_logs() as lines:
        warn(settings_of(tmp_path), compile_planes({"inside.yaml": INSIDE}))
    assert [(line["event"], line["plane"]) for line in lines] == [
        ("plane stays closed: its listener has no address", "inside")
    ]


def test_settings_of_engines_and_issuers_that_no_policy_has_are_said(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, ENGINES__MIAN__URLS="http://127.0.0.1:9", ISSUERS__COPR__JWKS_COOL_DOWN="1s")
    lines: list[Any]
    with structlog.testing.capture_logs() as lines:
        warn(settings, compile_planes({"demo.yaml": POLICY}))
    assert [line.get("setting") for line in lines] == ["GATEWAY_ENGINES__MIAN", "GATEWAY_ISSUERS__COPR"]


def test_a_process_refreshes_what_it_reads_from_files(tmp_path: Path) -> None:
    revoked = tmp_path / "revoked"
    revoked.write_text("", "utf-8")

    async def work() -> None:
        settings = settings_of(tmp_path, REVOKED_FILE=str(revoked))
        async with opened(settings, PLANES, {}) as process:
            assert isinstance(process, Process)
            revoked.write_text("some-jti\n", "utf-8")
            (tmp_path / "audit.jsonl").rename(tmp_path / "audit.jsonl.1")
            await process.refresh(told=False)
            assert not (tmp_path / "audit.jsonl").exists()
            await process.refresh(told=True)
            assert (tmp_path / "audit.jsonl").exists()
            assert process.gateway.revoked.generation == 2
            process.stop_at_once()
            await process.run(nothing())

    run(work)
