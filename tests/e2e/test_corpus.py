"""Every case of the corpus of attacks, on the wire, against the real command with a recording engine behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.e2e.attempts import attempts
from tests.e2e.raw_http import NotHttp
from tests.e2e.scenarios import SCENARIOS
from tests.e2e.tally import TALLY
from tests.e2e.verdicts import MUST, carry_out, faults

if TYPE_CHECKING:
    from tests.e2e.attempts import Case
    from tests.e2e.site import Site

STAGES = ("gate", "wall", "what", "engine")
CASES: list[Case] = [
    case
    for case in orjson.loads(Path(__file__).parents[1].joinpath("corpus", "attacks.json").read_bytes())
    if case["stage"] in STAGES
]
ON_THE_WIRE = [case for case in CASES if case["input"]["kind"] != "scenario"]
PLAYED = [case for case in CASES if case["input"]["kind"] == "scenario"]


@pytest.mark.parametrize("case", ON_THE_WIRE, ids=lambda case: f"{case['id']} {case['title']}")
def test_a_case_is_answered_as_it_must_be(case: Case, site: Site) -> None:
    """Sent whole and byte by byte; every fault of every variant is told."""
    count = TALLY.of(case["group"])
    count.cases += 1
    wrong = []
    for number, attempt in enumerate(attempts(case, site)):
        for trickle in (False, True):
            try:
                seen = carry_out(attempt, case, site, trickle=trickle)
            except NotHttp as fault:
                wrong.append(f"variant {number}{' in pieces' * trickle}: {type(fault).__name__}: {fault}")
                continue
            count.reached += case["expected"]["upstream"] == "none" and bool(seen.reached)
            count.server_errors += any(answer.status >= 500 for answer in seen.answers)
            wrong += [f"variant {number}{' in pieces' * trickle}: {fault}" for fault in faults(seen)]
    count.right += not wrong
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("case", PLAYED, ids=lambda case: f"{case['id']} {case['title']}")
def test_a_scenario_ends_as_it_must(case: Case, site: Site) -> None:
    count = TALLY.of(case["group"])
    count.cases += 1
    SCENARIOS[case["id"]](site)
    count.right += 1


def test_every_demand_of_the_corpus_is_checked() -> None:
    """A demand in words that no check knows would be a demand that nobody keeps."""
    unknown = {
        demand
        for case in ON_THE_WIRE
        for demand in (*case["expected"].get("must", ()), *case["expected"].get("must_not", ()))
        if demand not in MUST
    }
    assert not unknown
    assert {case["id"] for case in PLAYED} <= SCENARIOS.keys()
