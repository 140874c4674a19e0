from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit import LONGEST_TEXT, MOST_CHANGES, AuditRecord, Outcome, Verdict, escaped
from gateway.dialects.call import Usage
from gateway.reasons import Reason

KEYS = (
    "time id client_request_id cf_ray usage bytes_in bytes_out ms plane listener peer edge_ip method target endpoint "
    "client subject credential model verdict reason detail status engine engine_status outcome changes policy"
)


def _written(**facts: Any) -> dict[str, Any]:  # noqa: ANN401
    record: dict[str, Any] = json.loads(AuditRecord(time=0.5, id="0" * 32, **facts).to_json())
    return record


def test_a_record_of_nothing_has_every_key_and_counts_as_a_failure() -> None:
    """A request that ends before its verdict was ours to answer."""
    record = _written()
    assert list(record) == KEYS.split()
    assert record["verdict"] == "failure"
    assert record["time"] == "1970-01-01T00:00:00.500000Z"
    assert record["ms"] == {"head": None, "judge": None, "first_byte": None, "total": None}
    assert record["changes"] == []
    assert record["usage"] is None


def test_a_permitted_request_is_told_whole() -> None:
    record = _written(
        plane="partner",
        listener="public",
        policy="f" * 64,
        peer="127.0.0.1",
        method="POST",
        target=b"/v1/chat/completions",
        client_request_id="abc",
        edge_ip="2001:db8::1",
        cf_ray="8f-AMS",
        endpoint="chat",
        client="acme",
        subject="subject",
        credential="access_token",
        model="small",
        verdict=Verdict.PERMIT,
        status=200,
        engine="main",
        engine_status=200,
        outcome=Outcome.OK,
        changes=("lower max_tokens",),
        usage=Usage(1, 2, None),
        bytes_in=10,
        bytes_out=20,
        head_ms=0.12345,
        judge_ms=0.5,
        first_byte_ms=30.0,
        total_ms=600_000.25,
    )
    assert record == {
        "time": "1970-01-01T00:00:00.500000Z",
        "id": "0" * 32,
        "client_request_id": "abc",
        "plane": "partner",
        "listener": "public",
        "peer": "127.0.0.1",
        "edge_ip": "2001:db8::1",
        "cf_ray": "8f-AMS",
        "method": "POST",
        "target": "/v1/chat/completions",
        "endpoint": "chat",
        "client": "acme",
        "subject": "subject",
        "credential": "access_token",
        "model": "small",
        "verdict": "permit",
        "reason": None,
        "detail": "",
        "status": 200,
        "engine": "main",
        "engine_status": 200,
        "outcome": "ok",
        "changes": ["lower max_tokens"],
        "usage": {"prompt": 1, "completion": 2, "reasoning": None},
        "bytes_in": 10,
        "bytes_out": 20,
        "ms": {"head": 0.123, "judge": 0.5, "first_byte": 30.0, "total": 600_000.25},
        "policy": "f" * 64,
    }


def test_a_refusal_is_told_with_its_reason_and_what_failed() -> None:
    record = _written(verdict=Verdict.DENY, reason=Reason.CREDENTIAL_INVALID, detail="expired", status=401)
    assert (record["verdict"], record["reason"], record["detail"]) == ("deny", "credential-invalid", "expired")


@pytest.mark.parametrize(
    "text",
    [
        "a\r\nb",
        '"},{"',
        "a\u2028b\u0085c\u202egnp.exe",  # log-003
        "\x1b[2J\x1b[31mroot",
        "\x7f",
        "\x00",
        "%s %n {0.__class__} ${jndi:ldap://x/a}",  # log-006
        "\U0001f600\u00e9",
        "\x7f\u2028",
    ],
)
def test_no_text_of_a_caller_breaks_or_colours_the_line(text: str) -> None:
    line = AuditRecord(time=0.0, id="0", subject=text).to_json()
    assert line.isascii()
    assert line.decode().isprintable()
    assert json.loads(line)["subject"] == text


def test_a_lone_surrogate_is_replaced_because_no_reader_would_take_it() -> None:
    line = AuditRecord(time=0.0, id="0", subject="a\ud800b\u2028").to_json()
    assert json.loads(line)["subject"] == "a?b\u2028"
    assert json.loads(line)["time"] == "1970-01-01T00:00:00.000000Z"


def test_every_text_that_a_caller_chooses_is_bounded() -> None:
    long = "a" * 10_000
    record = _written(
        method=long, target=b"/" + long.encode(), subject=long, model=long, detail=long, changes=(long,) * 1000
    )
    assert {len(record[key]) for key in ("method", "target", "subject", "model", "detail")} == {LONGEST_TEXT}
    assert len(record["changes"]) == MOST_CHANGES
    assert len(json.dumps(record)) < 32 * 1024


@pytest.mark.parametrize(
    "target,text",
    [
        (b"", ""),
        (b"/v1/models", "/v1/models"),
        (b"/%1b%5b2J%1b%5b31mroot", "/%1b%5b2J%1b%5b31mroot"),  # log-002
        (b"/v1/models?access_token=secret", "/v1/models?[left out]"),  # header-017
        (b"/v1/models?", "/v1/models?"),  # path-003
        (b"/v1/models#access_token=secret", "/v1/models#[left out]"),
        (b"/a#b?c", "/a#[left out]"),
        (b"/a\\b\x1b\x7f\xff\r\n", "/a\\x5cb\\x1b\\x7f\\xff\\x0d\\x0a"),
        (b"\xff" * 100, "\\xff" * 64),
        (b"/" + b"a" * 300 + b"?b", "/" + "a" * 244 + "?[left out]"),
    ],
)
def test_a_target_is_written_in_printable_ascii_without_its_query(target: bytes, text: str) -> None:
    assert escaped(target) == text


@given(st.binary(max_size=400))
def test_no_target_escapes_the_bound_or_the_alphabet(target: bytes) -> None:
    text = escaped(target)
    assert len(text) <= LONGEST_TEXT
    assert text.isascii()
    assert text == "" or text.isprintable()


def test_the_repr_of_a_record_does_not_show_the_query() -> None:
    assert "secret" not in repr(AuditRecord(time=0.0, id="0", target=b"/?secret"))
