"""Half an hour of mixed traffic with random faults, at the rate of the benchmark: nothing grows, nothing is lost.

Two load generators ask as fast as they are answered, one for plain answers and one for streams, before two replicas of
which one is killed again and again. Beside them clients of every kind meet an engine with every fault. Policies are
reloaded and the audit log is moved in each round. It needs a C compiler. ``SOAK_SECONDS`` shortens it, to 240 at least.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from anyio.from_thread import start_blocking_portal

from tests.e2e.chaos import STORY, Chaos, ChaoticEngine
from tests.e2e.raw_http import ask, request
from tests.e2e.site import HOST, running, wait
from tests.e2e.test_chaos import SETTINGS, least, places_held
from tests.e2e.test_fault_matrix import descriptors, streams_open
from tests.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.site import Site

SECONDS = int(os.environ.get("SOAK_SECONDS", "1800"))
ROUND_S = 20
FAULTY = 150
"""Requests of a round that meet faults, or are faults."""

SETTLED = 6
"""Rounds in which memory may grow: pools, caches and the interpreter's own."""

MOST_GROWTH = 1_000_000
"""Bytes of memory for each 100,000 requests."""

LOADS = {"plain": "-m ns -c 16", "stream": "-m st -c 16 -n 16 -p 5000"}
SOURCES = Path(__file__).parents[2] / "bench" / "src"
_MODEL = "  down: {engine: down, served_as: down, most_tokens: 64}\n"
_CLIENT = "clients:\n  partner:\n"
_LIMITS = "limits:\n  wide:\n"
_WHO = "    nobody: {}\n"
_CASES = "  expect:\n"


def busy(policy: str) -> str:
    """Let one more client ask for one more model, with every kind of limit, none of which it reaches."""
    limit = "  busy: {requests_per_minute: 100000000, concurrent_requests: 1000, tokens_per_minute: 1000000000000}\n"
    client = "  load: {is: {corp: load-1}, may: [chat], models: [fast], limits: busy}\n"
    case = "{name: x, who: load, ask: POST /v1/chat/completions, body: {model: fast, messages: []}, permit: {}}"
    if _MODEL not in policy:
        return policy
    return (
        policy.replace(_WHO, f"{_WHO}    load: {{client: load}}\n")
        .replace(_CASES, f"{_CASES}    - {case}\n")
        .replace(_MODEL, f"{_MODEL}  fast: {{engine: fast, served_as: bench, most_tokens: 64}}\n")
        .replace(_LIMITS, _LIMITS.replace("\n", f"\n{limit}", 1))
        .replace(_CLIENT, _CLIENT.replace("\n", f"\n{client}", 1))
    )


@dataclass
class Replica:
    """An engine that costs next to nothing, in a process that can be killed."""

    program: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        self.process = subprocess.Popen([self.program, str(self.port)])

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class Soak:
    """Everything that runs, and what was counted so far."""

    site: Site
    load: Path
    replicas: list[Replica]
    chance: random.Random
    requests: int = 0
    kills: int = 0
    memory: list[tuple[int, int]] = field(default_factory=list)
    """Requests so far, and bytes of memory then."""
    ways: Counter[str] = field(default_factory=Counter)

    def turn(self, number: int) -> None:
        """One round, at the end of which nothing is under way and everything is accounted for."""
        chaos = Chaos(self.site, self.chance.randrange(1, 1 << 31))
        with ThreadPoolExecutor() as pool:
            loads = {f"soak-{number}-{kind}": pool.submit(self._load, number, kind) for kind in LOADS}
            killing = pool.submit(self._kill)
            asyncio.run(chaos.run(FAULTY))
            killing.result()
            told = {name: one.result() for name, one in loads.items()}
        wait(lambda: streams_open(self.site) == 0, "the end of every stream", 15)
        wait(lambda: places_held(self.site) == 0, "the freedom of every place", 15)
        records = self._records()
        assert not chaos.late, f"seed {chaos.seed}: without an end: {chaos.late}"
        of_chaos = {name: len(records.pop(name, [])) for name in chaos.expected}
        assert of_chaos == chaos.expected, f"seed {chaos.seed}"
        for name, one in told.items():
            self._account(one, records.pop(name))
        self.requests += sum(chaos.expected.values())
        self.memory.append((self.requests, self.site.memory()))

    def _load(self, number: int, kind: str) -> dict[str, Any]:
        """Ask as fast as answers come, for the time of a round; give what was counted."""
        token = self.site.issuer.token(client_id="load-1")
        fields = ["-H", f"Authorization: Bearer {token}", "-H", f"X-Request-Id: soak-{number}-{kind}"]
        options = f"-P {self.site.address[1]} -M fast {LOADS[kind]} -d {ROUND_S} -w 0 -e 20".split()
        done = subprocess.run([self.load, *options, *fields], check=True, capture_output=True)
        return dict(json.loads(done.stdout))

    def _kill(self) -> None:
        """Kill a replica while both are used, and have it back before the round ends."""
        time.sleep(self.chance.uniform(1, ROUND_S / 2))
        wait(self.ready, "both replicas", 20)
        one = self.chance.choice(self.replicas)
        one.kill()
        self.kills += 1
        time.sleep(self.chance.choice([0, 0.1, 3]))
        one.start()
        wait(self.ready, "its return", 20)

    def ready(self) -> bool:
        """Tell whether both replicas take requests."""
        report = ask(self.site.ops, request("/readyz", f"{HOST}:{self.site.ops[1]}")).json
        found = report["planes"]["corpus"]["engines"]["fast"]["replicas"]
        return all(found[one.url]["ready"] for one in self.replicas)

    def _records(self) -> dict[str, list[dict[str, Any]]]:
        """Move the log away and have policies and log opened anew; give all that was in it, by the caller's id."""
        log = self.site.folder / "audit.jsonl"
        moved = log.rename(log.with_name("moved.jsonl"))
        self.site.process.send_signal(signal.SIGHUP)
        wait(log.exists, "the new log", 15)
        found: dict[str, list[dict[str, Any]]] = {}
        with moved.open("rb") as lines:
            for line in lines:
                record = orjson.loads(line)
                found.setdefault(record["client_request_id"], []).append(record)
        return found

    def _account(self, told: dict[str, Any], records: list[dict[str, Any]]) -> None:
        """Find for what was sent an answer, or a failure for a reason that its record names."""
        assert told["left"] == 0, told
        assert told["asked"] == told["done"] + told["errs"] == len(records), (told, len(records))
        failed = [one for one in records if (one["verdict"], one["outcome"]) != ("permit", "ok")]
        self.ways.update(f"{one['verdict']}/{one['outcome']}/{one['reason']}" for one in failed)
        assert len(failed) == told["errs"], (told, self.ways)
        assert all(one["reason"] for one in failed), failed
        assert told["errs"] <= told["conns"], "more failed than was in flight"
        self.requests += told["asked"]

    @property
    def growth(self) -> float:
        """Bytes of memory for each 100,000 requests, when what is made once has been made."""
        settled = self.memory[max(SETTLED, len(self.memory) // 5) :]
        return statistics.linear_regression(*zip(*settled, strict=True)).slope * 100_000


@pytest.fixture
def soak(tmp_path: Path) -> Iterator[Soak]:
    """Run the gateway in a process that can be asked what is alive in it, and all that it needs."""
    seed = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    for name in ("engine", "load"):
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-O2", "-Wall", "-o", tmp_path / name, SOURCES / f"{name}.c"], check=True)
    replicas = [Replica(tmp_path / "engine"), Replica(tmp_path / "engine")]
    settings = SETTINGS | {"LOG_LEVEL": "info", "ENGINES__FAST__URLS": ",".join(one.url for one in replicas)}
    with (
        pytest.MonkeyPatch.context() as patch,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(ChaoticEngine()) as engine,
    ):
        patch.setenv("WATCHED_FILE", str(tmp_path / "alive.jsonl"))
        try:
            for one in replicas:
                one.start()
            program = ("-m", "tests.e2e.watched")
            with running(tmp_path, busy, program=program, ENGINES__RAW__URLS=engine.url, **settings) as site:
                yield Soak(site, tmp_path / "load", replicas, random.Random(seed))  # noqa: S311  (a game, not a key)
        finally:
            for one in replicas:
                one.kill()


@pytest.mark.long
def test_half_an_hour_of_everything_leaves_nothing_and_loses_nothing(soak: Soak) -> None:
    site = soak.site
    wait(soak.ready, "both replicas", 20)
    soak.turn(0)
    time.sleep(3)
    before, files = least(site), descriptors(site)
    begun, number = time.monotonic(), 0
    try:
        while time.monotonic() - begun < SECONDS:
            number += 1
            soak.turn(number)
    finally:
        took = time.monotonic() - begun
        STORY.extend(
            [
                f"soak: {soak.requests} requests in {took:.0f} s ({soak.requests / max(1, took):.0f} a second)",
                f"  {soak.kills} kills; what failed {dict(soak.ways.most_common())}",
                f"  memory {[bytes_ // 1000 for _, bytes_ in soak.memory]} kB, {files} descriptors before",
            ]
        )
    wait(lambda: descriptors(site) <= files, "the end of every connection", 15)
    after = least(site)
    assert after == before
    growth = soak.growth
    STORY.append(f"  {growth:.0f} bytes for 100,000 requests, {descriptors(site)} descriptors behind")
    assert growth < MOST_GROWTH
    log = site.log()
    for word in ("internal error", "Traceback", "never awaited", "audit record lost"):
        assert word not in log, log[:4000]
