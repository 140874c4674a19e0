from __future__ import annotations

import json

import pytest

from gateway.review.diagnosis import FOUND, HOLDS, MISUSED, Diagnosis, Finding, Layer, Verdict, told


def finding(layer: Layer, verdict: Verdict, do: str = "") -> Finding:
    return Finding(layer, verdict, "main", "connection refused", do)


ENGINE = finding(Layer.ENGINE, Verdict.BROKEN, "start it")
TUNNEL = finding(Layer.TUNNEL, Verdict.BROKEN)
WARNING = finding(Layer.MODEL, Verdict.WARNING, "look")
NOT_TRIED = finding(Layer.MODEL, Verdict.NOT_TRIED)


@pytest.mark.parametrize(
    "findings, status",
    [
        ([], HOLDS),
        ([WARNING, NOT_TRIED, finding(Layer.GPU, Verdict.OK)], HOLDS),
        ([WARNING, ENGINE], FOUND),
        ([finding(Layer.CONFIGURATION, Verdict.BROKEN)], MISUSED),
    ],
)
def test_warnings_hold_and_only_a_broken_configuration_is_misuse(findings: list[Finding], status: int) -> None:
    assert Diagnosis(findings).status == status


def test_the_first_broken_layer_is_first_by_the_order_of_layers() -> None:
    diagnosis = Diagnosis([TUNNEL, ENGINE])
    assert diagnosis.first_broken is ENGINE
    assert diagnosis.conclusion == "The first broken layer is: engine (main: connection refused)."


def test_a_finding_without_a_subject_is_told_without_one() -> None:
    broken = Finding(Layer.CONFIGURATION, Verdict.BROKEN, "", "nothing is set")
    assert Diagnosis([broken]).conclusion == "The first broken layer is: configuration (nothing is set)."
    assert broken.lines() == ["broken     configuration  nothing is set"]


@pytest.mark.parametrize(
    "warnings, text", [(0, "no warnings"), (1, "1 warning"), (3, "3 warnings")], ids=["none", "one", "three"]
)
def test_without_a_broken_layer_the_warnings_are_counted(warnings: int, text: str) -> None:
    assert Diagnosis([WARNING] * warnings).conclusion == f"No layer is broken; {text}."


def test_what_was_broken_off_never_holds() -> None:
    diagnosis = Diagnosis([WARNING], interrupted=True)
    assert diagnosis.status == FOUND
    assert diagnosis.conclusion.startswith("Interrupted: nothing was broken so far")
    assert Diagnosis([ENGINE], interrupted=True).conclusion.startswith("The first broken layer is: engine")


def test_a_person_reads_what_to_do_below_what_was_seen() -> None:
    assert ENGINE.lines() == [
        "broken     engine         main: connection refused",
        "                          → start it",
    ]


def test_a_machine_reads_all_of_it() -> None:
    assert json.loads(Diagnosis([WARNING, ENGINE]).as_json()) == {
        "holds": False,
        "interrupted": False,
        "first_broken": "engine",
        "findings": [
            {"layer": "model", "verdict": "warning", "subject": "main", "saw": "connection refused", "do": "look"},
            {"layer": "engine", "verdict": "broken", "subject": "main", "saw": "connection refused", "do": "start it"},
        ],
    }
    assert json.loads(Diagnosis().as_json()) == {
        "holds": True,
        "interrupted": False,
        "first_broken": None,
        "findings": [],
    }


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain", "plain"),
        ("two\r\nlines\x1b[31m and\ta tab", "two lines [31m and a tab"),
        ("x" * 1000, "x" * 159 + "…"),
    ],
)
def test_foreign_texts_are_shown_as_one_bounded_line(text: str, shown: str) -> None:
    assert told(text) == shown
