"""Requests are killed at random points, in every way that there is, and each gives its place back.

The whole gateway runs in this process, before a played engine, so that a request can also be cancelled by a drain or
meet a bug of ours at any turn of the event loop. Points are bytes and turns, never times. ``CHAOS_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.adapters.audit_log import AuditLog
from gateway.adapters.metrics import Metrics
from gateway.adapters.walk import in_task
from gateway.app import Gateway, PlaneApp
from gateway.enforcement import Enforcement
from gateway.policy.compile import compile_plane
from gateway.policy.model import Deadlines
from tests.adapters.relaying import LAST, STREAM, chunk, playing, warmed, whole
from tests.adapters.wiring import Cut, serving
from tests.small_house import POLICY, chat, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.adapters.downstream import Downstream
    from gateway.ports import Delivery, Dispatcher, UpstreamRequest
    from tests.adapters.relaying import Line
    from tests.adapters.wiring import Served

AT_ONCE = 12
IN_FLIGHT = 8  # so that some are killed while they wait for the engine
TURNS = 60  # of the event loop: as many as a request has, and more
TOKENS = 6
WAYS = ("leaves", "engine dies", "bug", "drain", "stays")
_WORD = re.compile(rb"(dies|breaks):([0-9]+)")


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Run on the event loop of production."""
    return "asyncio", {"use_uvloop": True}


async def turns(count: int) -> None:
    """Let others go on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def play(line: Line) -> None:
    """Answer with a few tokens, or die at the point that the request names."""
    found = _WORD.search(line.body)
    if b'"stream":true' not in line.body:
        if found is not None and found[1] == b"dies":
            await line.send(whole(b'{"choices":[]}')[: int(found[2])])
            line.reset()
            return
        await line.send(whole(b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}'))
        return
    answer = STREAM + chunk(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n') * TOKENS
    answer += chunk(b"data: [DONE]\n\n") + LAST
    if found is not None and found[1] == b"dies":
        await line.send(answer[: int(found[2])])
        line.reset()
        return
    for start in range(0, len(answer), 97):
        if line.transport.is_closing():
            return
        await line.send(answer[start : start + 97])
        await turns(2)


class Breaking:
    """A dispatcher in which a bug of ours comes up, at the turn that the request names."""

    def __init__(self, inner: Dispatcher[Downstream]) -> None:
        self._inner = inner

    def chooses(self, engine: str) -> bool:
        return self._inner.chooses(engine)

    async def forward(self, request: UpstreamRequest, inbound: Downstream) -> Delivery:
        found = _WORD.search(request.body)
        if found is None or found[1] != b"breaks":
            return await self._inner.forward(request, inbound)
        await in_task()
        async with asyncio.TaskGroup() as group:
            forwarding = group.create_task(self._inner.forward(request, inbound))
            await turns(int(found[2]))
            forwarding.cancel()
            await asyncio.wait((forwarding,))
        raise ZeroDivisionError


@dataclass
class Killing:
    """One run: what is asked, and how each request comes to its end."""

    served: Served
    host: str
    chance: random.Random

    async def one(self, way: str) -> None:
        """Ask once, and be killed."""
        stream = self.chance.random() < 0.7
        words = {
            "engine dies": f"dies:{self.chance.randrange(700 if stream else 80)}",
            "bug": f"breaks:{self.chance.randrange(TURNS)}",
        }
        message = {"role": "user", "content": words.get(way, "hi")}
        data = chat(self.host, messages=[message], stream=stream)
        async with self.served.client() as client:
            if way == "leaves" and self.chance.random() < 0.5:
                client.send(data[: self.chance.randrange(len(data))])
                await turns(self.chance.randrange(TURNS))
                return
            client.send(data)
            if way == "leaves":
                await turns(self.chance.randrange(TURNS))
            elif way == "drain":
                await turns(self.chance.randrange(TURNS))
                for task in list(self.served.server.server_state.tasks):
                    task.cancel()
            else:
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, Cut):
                    await client.answer()


async def kills(folder: Path, count: int) -> Counter[str]:
    """Kill so many requests; give how those that were read ended, by their records."""
    seed = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    chance = random.Random(seed)  # noqa: S311  (a game, not a key)
    text = POLICY.replace("600", "60000").replace("concurrent_requests: 16", f"concurrent_requests: {AT_ONCE}")
    plane = compile_plane(text, "public.yaml")
    log = AuditLog.open(str(folder / "audit.jsonl"))
    async with playing(warmed(play)) as (_, url):
        settings = settings_of(folder, url, ENGINES__MAIN__IN_FLIGHT=str(IN_FLIGHT))
        gateway = Gateway(settings, [plane], log, Metrics())
        ports = gateway.apps["public"].enforcement._ports
        broken = replace(ports, dispatcher=Breaking(ports.dispatcher))
        enforcement = Enforcement(plane, settings.host_rule("public"), Deadlines(5, 5, 10), broken)
        async with gateway.running(), serving(PlaneApp(enforcement, Metrics())) as served:
            killing = Killing(served, str(settings.listeners["public"]), chance)
            for start in range(0, count, AT_ONCE):
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(AT_ONCE, count - start)):
                        group.create_task(killing.one(chance.choice(WAYS)))
                async with asyncio.timeout(10):
                    while held := sum(gateway.ledger.open.values()):  # noqa: ASYNC110  (nobody signals it)
                        await asyncio.sleep(0.001)
                assert held == 0, f"seed {seed}"
            for _ in range(AT_ONCE):
                assert (await served.ask(chat(killing.host))).status == 200, f"seed {seed}"
    log.close()
    records = [json.loads(line) for line in (folder / "audit.jsonl").read_bytes().splitlines()]
    return Counter(str(record["outcome"] or record["reason"]) for record in records)


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with structlog.testing.capture_logs() as lines:
        yield lines


async def test_five_hundred_requests_that_are_killed_at_random_points_give_their_places_back(tmp_path: Path) -> None:
    ends = await kills(tmp_path, 500)
    assert min(ends[name] for name in ("ok", "client-left", "engine-died", "draining", "internal")) > 5, ends


@pytest.mark.long
async def test_five_thousand_do(tmp_path: Path) -> None:
    ends = await kills(tmp_path, 5000)
    assert min(ends[name] for name in ("ok", "client-left", "engine-died", "draining", "internal")) > 50, ends
