"""Many requests mixed with faults, resets and clients that leave: at the end nothing is left, and all is recorded."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from anyio.from_thread import start_blocking_portal

from tests.e2e.chaos import STORY, Chaos, ChaoticEngine
from tests.e2e.raw_http import ask, request
from tests.e2e.site import running, wait
from tests.e2e.test_fault_matrix import descriptors, streams_open

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.site import Site

SETTINGS = {
    "DEADLINES__HEAD": "20s",  # a client that is slow because the machine is busy is no slow client
    "DEADLINES__BODY": "20s",
    "DEADLINES__FIRST_BYTE": "2s",
    "DEADLINES__IDLE": "2s",
    "DEADLINES__TOTAL": "8s",
    "DEADLINES__DRAIN": "20s",
    "ENGINES__RAW__KEEP_ALIVE": "1s",
    "ENGINES__MAIN__KEEP_ALIVE": "1s",
}


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Site]:
    """Run the gateway in Python's development mode, with asyncio's own checks, in a process that can be asked."""
    with (
        pytest.MonkeyPatch.context() as patch,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(ChaoticEngine()) as engine,
    ):
        patch.setenv("WATCHED_FILE", str(tmp_path / "alive.jsonl"))
        program = ("-X", "dev", "-m", "tests.e2e.watched")
        with running(tmp_path, program=program, ENGINES__RAW__URLS=engine.url, **SETTINGS) as site:
            yield site
            begun = time.monotonic()
            site.process.send_signal(signal.SIGTERM)
            assert site.process.wait(15) == 0
            assert time.monotonic() - begun < 5.0, "something was waited for at the end"


def alive(site: Site) -> dict[str, int]:
    """Ask the process what is alive in it."""
    told = site.folder / "alive.jsonl"
    before = told.read_bytes().count(b"\n") if told.exists() else 0
    site.metrics()  # adds up the records that were gathered for it, and lets go of them
    site.process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 10
    while not told.exists() or told.read_bytes().count(b"\n") <= before:
        assert time.monotonic() < deadline, "the process told nothing"
        ask(site.ops, request("/livez", f"{site.ops[0]}:{site.ops[1]}"))  # wakes it, and must work now as ever
    return dict(json.loads(told.read_bytes().splitlines()[-1]))


def least(site: Site) -> dict[str, int]:
    """Ask a few times and give the least of each: an answer on the ops listener may be under way, as one task more."""
    told = [alive(site) for _ in range(6)]
    return {name: min(one[name] for one in told) for name in told[0]}


def places_held(site: Site) -> float:
    """Ask how many requests hold a place of their client's limit; each must have been counted once."""
    found = re.findall(r"^gateway_requests_open\{.*\} (\S+)$", site.metrics(), re.MULTILINE)
    assert found
    return sum(map(float, found))


def chaos(site: Site, requests: int) -> None:
    """Send so many requests and look at what is left."""
    seed = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    one = Chaos(site, seed)
    assert site.chat(token=site.issuer.token(client_id="cli-2")).status == 200
    time.sleep(2.5)
    before, files = least(site), descriptors(site)
    begun = time.monotonic()
    asyncio.run(one.run(requests))
    took = time.monotonic() - begun
    wait(lambda: streams_open(site) == 0, "the end of every stream", 15)
    wait(lambda: places_held(site) == 0, "the freedom of every place", 15)
    wait(lambda: descriptors(site) <= files, "the end of every connection", 15)
    after: dict[str, int] = {}

    def settled() -> bool:
        after.update(alive(site))
        return after == before

    try:
        wait(settled, "the end of every task", 15)
    finally:
        records = [orjson.loads(line) for line in site.audit().splitlines()]
        STORY.extend(_story(one, requests, took, records, before, after, files, descriptors(site)))
    assert not one.late, f"seed {seed}: without an end: {one.late}"
    counted = Counter(record["client_request_id"] for record in records)
    wrong = {name: (counted[name], want) for name, want in one.expected.items() if counted[name] != want}
    assert not wrong, f"seed {seed}: records (found, expected): {wrong}"
    assert len({record["id"] for record in records}) == len(records)
    log = site.log()
    for word in ("internal error", "py.warnings", "Traceback", "never awaited", "audit record lost"):
        assert word not in log, f"seed {seed}: {log[:4000]}"


def _story(
    one: Chaos,
    requests: int,
    took: float,
    records: list[dict[str, Any]],
    before: dict[str, int],
    after: dict[str, int],
    files: int,
    files_after: int,
) -> list[str]:
    ours = [record for record in records if record["client_request_id"] in one.expected]
    outcomes = Counter(f"{record['verdict']}/{record['outcome'] or record['reason']}" for record in ours)
    return [
        f"chaos: seed {one.seed}, {requests} requests in {took:.0f} s",
        f"  {len(ours)} records for {sum(one.expected.values())} complete heads",
        f"  ways {dict(one.ways.most_common())}",
        f"  answers {dict(one.answers.most_common())}",
        f"  records {dict(outcomes.most_common())}",
        f"  alive before {before}",
        f"  alive after  {after}",
        f"  descriptors {files} before, {files_after} after",
    ]


def test_the_process_tells_what_is_alive_in_it(dev: Site) -> None:
    """Otherwise the tests below would find nothing left because nobody looks."""
    before = least(dev)
    with dev.connect() as connection:
        connection.send(dev.script("slow-stream", stream=True))
        wait(lambda: streams_open(dev) == 1, "a stream")
        wait(lambda: alive(dev) == {name: count + 1 for name, count in before.items()}, "one more of everything")
    wait(lambda: alive(dev) == before, "its end")


def test_nothing_is_left_of_five_hundred_requests(dev: Site) -> None:
    chaos(dev, 500)


@pytest.mark.long
def test_nothing_is_left_of_ten_thousand_requests(dev: Site) -> None:
    chaos(dev, 10_000)
