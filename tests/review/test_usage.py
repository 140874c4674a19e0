from __future__ import annotations

import json

import pytest

from gateway.audit import AuditRecord, Verdict
from gateway.dialects.call import Usage
from gateway.reasons import Reason
from gateway.review.usage import Sums, UsageReport, Use

MIDNIGHT = 1_799_712_000.0
"""2027-01-12T00:00:00Z"""


def _line(time: float, **facts: object) -> bytes:
    record = AuditRecord(time, "0" * 32, plane="partner", client="acme", model="local", verdict=Verdict.PERMIT)
    for name, value in facts.items():
        setattr(record, name, value)
    return record.to_json() + b"\n"


LINES = [
    _line(MIDNIGHT - 1, usage=Usage(10, 20, 5), engine_status=200),
    _line(MIDNIGHT, usage=Usage(1, 2), engine_status=200),
    _line(MIDNIGHT, usage=Usage(1000, 2000, None), engine_status=200),
    _line(MIDNIGHT, engine_status=400),
    _line(MIDNIGHT, verdict=Verdict.DENY, reason=Reason.OVER_RATE, model=None),
    _line(MIDNIGHT, verdict=Verdict.DENY, reason=Reason.CREDENTIAL_INVALID, model=None, client=None),
]


def _read(*lines: bytes, since: str = "", until: str = "9999") -> UsageReport:
    report = UsageReport(since, until)
    report.read(lines)
    return report


def test_records_are_added_up_by_day_client_and_model() -> None:
    assert _read(*LINES).sums == {
        Use("2027-01-11", "partner", "acme", "local"): Sums(1, 0, 10, 20, 5, 0),
        Use("2027-01-12", "partner", "acme", "local"): Sums(3, 0, 1001, 2002, 0, 1),
        Use("2027-01-12", "partner", "acme", "-"): Sums(1, 1),
        Use("2027-01-12", "partner", "-", "-"): Sums(1, 1),
    }


@pytest.mark.parametrize(
    "days,found",
    [
        ({"since": "2027-01-12"}, {"2027-01-12"}),
        ({"until": "2027-01-11"}, {"2027-01-11"}),
        ({"since": "2027-01-11", "until": "2027-01-12"}, {"2027-01-11", "2027-01-12"}),
        ({"since": "2028-01-01"}, set()),
    ],
)
def test_the_first_and_the_last_day_are_included(days: dict[str, str], found: set[str]) -> None:
    assert {use.day for use in _read(*LINES, **days).sums} == found


def test_what_is_no_record_is_counted_and_hides_nothing() -> None:
    report = _read(b'{"time": "2027-01-12T0', b"[]", b"{}", b'{"time": 1}', b"\n", b"\xff\n", LINES[1])
    assert report.unreadable == 5
    assert sum(sums.requests for sums in report.sums.values()) == 1
    assert report.as_text().endswith("\n5 lines are no audit records and are not counted.")


def test_people_get_a_table() -> None:
    table = _read(*LINES).as_text().splitlines()
    assert table[0].split() == [
        "day", "plane", "client", "model", "requests", "refused", "prompt", "completion", "reasoning", "uncounted"
    ]  # fmt: skip
    assert table[-1].split() == ["2027-01-12", "partner", "acme", "local", "3", "0", "1,001", "2,002", "0", "1"]
    assert len({len(line) for line in table}) == 1


def test_machines_get_the_same_numbers() -> None:
    document = json.loads(_read(*LINES, b"x").as_json())
    assert document["unreadable"] == 1
    assert document["usage"][0] == {
        "day": "2027-01-11", "plane": "partner", "client": "acme", "model": "local", "requests": 1, "refused": 0,
        "prompt": 10, "completion": 20, "reasoning": 5, "uncounted": 0,
    }  # fmt: skip
