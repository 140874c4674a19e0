"""Several processes behind one address: they serve, die, reload and drain as one gateway would."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from tests.adapters.relaying import LAST, STREAM, chunk, playing, warmed
from tests.e2e.steady import crew, operators, steady
from tests.running import answers, refused
from tests.small_house import INSIDE, POLICY, chat

if TYPE_CHECKING:
    from pathlib import Path

    from tests.adapters.relaying import Line
    from tests.running import Running

EVENT = b'data: {"choices":[]}\n\n'
LESS = POLICY.replace("at_most: 2", "at_most: 1").replace("n: 2", "n: 1")


def process(gateway: Running, worker: int) -> int:
    """Give the number of the process that was last in a worker's place."""
    lines = [line for line in gateway.lines if line["event"] == "worker serves" and line["worker"] == worker]
    return int(lines[-1]["process"])


async def metric(gateway: Running, name: str) -> float:
    """Give the sum of a metric's values."""
    lines = (await operators(gateway, "/metrics"))[1].decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.partition("{")[0].partition(" ")[0] == name)


async def ready(gateway: Running) -> tuple[int, dict[str, Any]]:
    """Give the status and the body of ``/readyz``."""
    status, body = await operators(gateway, "/readyz")
    return status, json.loads(body)


async def closed(gateway: Running) -> None:
    """Wait until the last worker has closed its end of the listener."""
    async with steady(gateway.chat, 1) as calls:
        while not calls.outcomes["ConnectionRefusedError"]:
            await calls.reach(1)


async def test_each_worker_serves_every_listener_and_the_sum_is_told(tmp_path: Path) -> None:
    (tmp_path / "inside.yaml").write_text(INSIDE, "utf-8")
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    path = tmp_path / "inside.sock"
    async with (
        playing(answers) as (_, url),
        crew(tmp_path, url, LISTENERS__INSIDE=f"unix:{path}") as gateway,
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        for worker in (1, 2):
            other = process(gateway, worker)
            os.kill(other, signal.SIGSTOP)  # what waits is taken by whoever runs
            try:
                for _ in range(10):
                    assert (await gateway.chat())[0] == 200
                    assert (await gateway.ask(chat("anything"), "INSIDE"))[0] == 200
                status, report = await ready(gateway)
                assert (status, report["workers"]) == (200, {"of": 2, "running": 2, "ready": 1})
            finally:
                os.kill(other, signal.SIGCONT)
        assert (await ready(gateway))[1]["workers"] == {"of": 2, "running": 2, "ready": 2}
        assert json.loads((await operators(gateway, "/livez"))[1]) == {
            "alive": True,
            "workers": {"of": 2, "running": 2},
        }
        assert await metric(gateway, "gateway_decisions_total") == 40
        assert await metric(gateway, "gateway_build_info") == 1
        assert await metric(gateway, "gateway_workers") == 2
        (tmp_path / "audit.jsonl").rename(tmp_path / "audit.jsonl.1")
        gateway.tell(signal.SIGHUP)
        await gateway.said("policies reloaded")
        for _ in range(20):
            await gateway.chat()
    assert not path.exists()
    before = (tmp_path / "audit.jsonl.1").read_bytes().splitlines()
    assert (len(before), len(gateway.records())) == (40, 20), "all workers write to the new file"


async def test_a_worker_that_is_killed_under_load_takes_nothing_with_it_but_its_own(tmp_path: Path) -> None:
    async with playing(answers) as (_, url), crew(tmp_path, url) as gateway:
        async with steady(gateway.chat) as calls:
            await calls.reach(50)
            counted = await metric(gateway, "gateway_decisions_total")
            processes = [process(gateway, worker) for worker in (1, 2)]
            for worker, told, how in ((1, signal.SIGKILL, "SIGKILL"), (2, signal.SIGTERM, "status 0")):
                gateway.lines.clear()
                os.kill(processes[worker - 1], told)
                assert (await gateway.said("worker ended", worker=worker))["how"] == how
                await calls.reach(50)
                now = await metric(gateway, "gateway_decisions_total")
                assert now >= counted, "a count never falls when a worker ends"
                counted = now
                await gateway.said("worker serves", worker=worker)
            await calls.reach(50)
        failed = calls.outcomes.total() - calls.outcomes[200]
        assert failed <= 4, f"each of four callers had one request under way: {calls.outcomes}"
        assert set(calls.outcomes) <= {200, "Cut", "ConnectionResetError"}
        assert await metric(gateway, "gateway_worker_ends_total") == 2
    # Whole lines all of them; what a killed process has answered a moment ago may be in none.
    assert calls.outcomes[200] - 4 <= len(gateway.records()) <= calls.outcomes.total()


async def test_policies_change_in_all_workers_or_in_none_and_no_request_fails_for_it(tmp_path: Path) -> None:
    async with playing(answers) as (_, url), crew(tmp_path, url) as gateway:
        first = process(gateway, 1)
        async with steady(gateway.chat) as calls:
            for text, most in ((LESS, 1), (POLICY, 2)):
                await calls.reach(20)
                (tmp_path / "demo.yaml").write_text(text, "utf-8")
                gateway.lines.clear()
                gateway.tell(signal.SIGHUP)
                await gateway.said("policies reloaded")
                for _ in range(20):
                    assert (await gateway.chat(n=2))[0] == (200 if most == 2 else 400)
            for text in (LESS.replace("body_limit: 1MiB", "body_limit: much"), INSIDE):
                gateway.lines.clear()
                (tmp_path / "demo.yaml").write_text(text, "utf-8")
                await gateway.said("policies not reloaded: the old ones stay in force")
                for _ in range(20):
                    assert (await gateway.chat(n=2))[0] == 200
        assert set(calls.outcomes) == {200}
        os.kill(first, signal.SIGKILL)
        await gateway.said("worker ended", worker=1)
        gateway.lines.clear()
        await gateway.said("worker serves", worker=1)
        for _ in range(20):
            assert (await gateway.chat(n=2))[0] == 200, "one that comes later has the policies in force, too"


async def test_streams_of_all_workers_come_to_their_end_before_the_gateway_does(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(EVENT))
        await go.wait()
        await line.send(chunk(EVENT) + LAST)

    async with playing(warmed(play)) as (_, url), crew(tmp_path, url) as gateway, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(gateway.client()) for _ in range(16)]
        for client in clients:
            client.send(chat(gateway.address(), stream=True))
            await client.head()
            assert await client.chunk() == EVENT
        assert await metric(gateway, "gateway_streams_open") == 16
        gateway.tell(signal.SIGTERM)
        for worker in (1, 2):
            await gateway.said("draining", worker=worker)
        status, report = await ready(gateway)
        assert (status, report["problems"], report["workers"]["ready"]) == (503, ["draining"], 0)
        await closed(gateway)
        go.set()
        for client in clients:
            assert [await client.chunk(), await client.chunk()] == [EVENT, b""]
        assert await gateway.ended() == 0
    assert len(gateway.records()) == 16


async def test_told_twice_no_worker_waits(tmp_path: Path) -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(EVENT))
        await line.gone()

    async with playing(warmed(play)) as (_, url), crew(tmp_path, url) as gateway, gateway.client() as client:
        client.send(chat(gateway.address(), stream=True))
        await client.head()
        gateway.tell(signal.SIGTERM)
        await gateway.said("draining")
        gateway.tell(signal.SIGINT)
        assert await gateway.ended() == 0
    (record,) = gateway.records()
    assert record["outcome"] == "draining"


async def test_what_they_are_told_while_they_end_does_not_change_the_status(tmp_path: Path) -> None:
    async with playing(answers) as (_, url), crew(tmp_path, url) as gateway:
        assert await gateway.pestered() == 0


async def test_workers_drain_and_end_when_their_supervisor_is_gone(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(EVENT))
        await go.wait()
        await line.send(chunk(EVENT) + LAST)

    killed = -signal.SIGKILL
    async with playing(warmed(play)) as (_, url), crew(tmp_path, url, killed) as gateway, gateway.client() as client:
        client.send(chat(gateway.address(), stream=True))
        await client.head()
        gateway.tell(signal.SIGKILL)
        for worker in (1, 2):
            await gateway.said("draining", worker=worker)
        go.set()
        assert [await client.chunk(), await client.chunk(), await client.chunk()] == [EVENT, EVENT, b""]
        assert await gateway.ended() == killed
    assert len(gateway.records()) == 1


async def test_what_a_worker_cannot_begin_with_is_status_2_and_said_once(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    more = {"WORKERS": "2", "LEDGER": "valkey://127.0.0.1:9"}
    said = await refused(tmp_path, **more, AUDIT_LOG=str(tmp_path))
    assert said.splitlines()[-1] == "GATEWAY_AUDIT_LOG cannot be opened: Is a directory."
    assert said.count("GATEWAY_AUDIT_LOG") == 1


async def test_an_address_that_is_taken_is_status_2_before_any_worker_begins(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    more = {"WORKERS": "2", "LEDGER": "valkey://127.0.0.1:9"}
    async with playing(answers) as (_, url):
        taken = url.removeprefix("http://")
        said = await refused(tmp_path, **more, LISTENERS__PUBLIC=taken)
    assert said == f"Cannot listen on {taken}: Address already in use.\n"
