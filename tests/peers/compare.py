"""The raw cases of the corpus of attacks against this gateway and its peers: ``python -m tests.peers.compare``.

Leaves: a table of what each answered as it must, and of what reached the engine though it must not. Only status and
reach are compared, which every gateway has. Exit status 1: this gateway was not right in all cases, or a peer did not
run; a missing one is left out with a word, but where ``CI`` is set it is a failure.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import orjson
from anyio.from_thread import start_blocking_portal

from gateway import __version__
from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.attempts import attempts
from tests.e2e.raw_http import Connection, NotHttp
from tests.e2e.site import CHAT, MODELS, REAL_MODEL, running
from tests.peers.peers import NAMES, Missing, Peer, peer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.e2e.attempts import Attempt, Case
    from tests.e2e.site import Site

CASES: list[Case] = [
    case
    for case in orjson.loads(Path(__file__).parents[1].joinpath("corpus", "attacks.json").read_bytes())
    if case["stage"] in ("gate", "wall") and case["input"]["kind"] == "raw_http"
]
_TIMEOUT = 408
OPEN = {("GET", MODELS), ("POST", CHAT)}
SETTLE_S = 0.05
"""Seconds that a request which was refused has to reach the engine all the same."""


@dataclass
class Score:
    """Counts of one gateway by group, and which cases they are.

    ``through`` reached the engine though they must not; ``astray`` did so at another target than the two open ones.
    """

    title: str
    right: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    reached: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wrong: list[str] = field(default_factory=list)
    through: list[str] = field(default_factory=list)
    astray: list[str] = field(default_factory=list)


def score(title: str, one: Peer | Site, engine: EngineSimulator) -> Score:
    """Send every case and count."""
    counts = Score(title)
    for case in CASES:
        group, expected = case["group"], case["expected"]
        right, passed, astray = True, False, False
        for attempt in attempts(case, cast("Site", one)):
            statuses, reached = carry_out(attempt, one, engine)
            tolerated = (_TIMEOUT,) if "tolerated" in expected else ()
            fit = all(status in (*expected["status"], *tolerated) for status in statuses) or not expected["status"]
            allowed = set() if expected["upstream"] == "none" else OPEN
            beyond = [target for target in reached if target not in allowed]
            right &= fit and (len(statuses) == attempt.answers or bool(tolerated)) and not beyond
            passed |= bool(beyond)
            astray |= bool(set(reached) - OPEN)
        counts.right[group] += right
        counts.reached[group] += passed
        if not right:
            counts.wrong.append(case["id"])
        if passed:
            counts.through.append(case["id"])
        if astray:
            counts.astray.append(case["id"])
    return counts


def carry_out(attempt: Attempt, one: Peer | Site, engine: EngineSimulator) -> tuple[list[int], list[tuple[str, str]]]:
    """Send one attempt; give the statuses of its answers and what reached the engine."""
    before = len(engine.requests)
    statuses: list[int] = []
    with Connection(one.address, timeout=4.0) as connection:
        connection.send(attempt.data)
        with contextlib.suppress(NotHttp):
            statuses.extend(connection.answer(attempt.method).status for _ in range(attempt.answers))
    time.sleep(SETTLE_S)
    return statuses, [(seen.method, seen.target) for seen in engine.requests[before:] if not seen.own_traffic]


def scores(folder: Path) -> Iterator[Score | Missing]:
    """Run one gateway after the other."""
    with running(folder) as site:
        yield score(f"vllm-gateway {__version__}", site, site.engine)
    for name in NAMES:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            engine = stack.enter_context(
                portal.wrap_async_context_manager(EngineSimulator(EngineState((REAL_MODEL, "m"))))
            )
            try:
                one = stack.enter_context(peer(name, int(engine.url.rpartition(":")[2]), folder))
            except Missing as missing:
                yield missing
                continue
            yield score(f"{name} {one.version}", one, engine)


def table(found: Sequence[Score]) -> Iterator[str]:
    """Write the table in Markdown."""
    groups = list(dict.fromkeys(case["group"] for case in CASES))
    yield "| group | cases | " + " | ".join(f"{one.title}: right | reached" for one in found) + " |"
    yield "|---|---:|" + "---:|---:|" * len(found)
    for group in groups:
        cells = (f"{one.right[group]} | {one.reached[group]}" for one in found)
        yield f"| {group} | {sum(case['group'] == group for case in CASES)} | " + " | ".join(cells) + " |"
    cells = (f"{sum(one.right.values())} | {sum(one.reached.values())}" for one in found)
    yield f"| all | {len(CASES)} | " + " | ".join(cells) + " |"


def main() -> int:
    """Compare; 0 when this gateway was right in all cases and every peer ran."""
    logging.disable()  # the engine's own complaints about clients that leave
    found: list[Score] = []
    missing: list[Missing] = []
    with tempfile.TemporaryDirectory() as scratch:
        for result in scores(Path(scratch)):
            if isinstance(result, Score):
                found.append(result)
            else:
                missing.append(result)
    for line in table(found):
        print(line)  # noqa: T201  (what this is for)
    for one in found:
        print(f"{one.title}: reached the engine: {', '.join(one.through) or 'none'}")  # noqa: T201
        print(f"{one.title}: at another target than the two: {', '.join(one.astray) or 'none'}")  # noqa: T201
        if "--wrong" in sys.argv:
            print(f"{one.title}: not right: {', '.join(one.wrong) or 'none'}")  # noqa: T201
    for absent in missing:
        print(f"left out: {absent}")  # noqa: T201
    ours = found[0]
    clean = not ours.wrong and not ours.through and len(CASES) == sum(ours.right.values())
    return int(not clean or (bool(missing) and bool(os.environ.get("CI"))))


if __name__ == "__main__":
    sys.exit(main())
