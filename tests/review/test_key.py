from __future__ import annotations

import json
from datetime import date

import pytest

from gateway.identity import api_key
from gateway.review.key import new_key

OCTETS = bytes(range(24))
KEY = api_key.new_key(OCTETS)
SHA256 = api_key.sha256_of(KEY)


def test_a_person_reads_the_key_once_and_the_line_to_commit() -> None:
    text = new_key("batch", OCTETS, date(2027, 1, 31)).as_text()
    assert text.count(KEY) == 1
    assert f"- {{sha256: {SHA256}, not_after: 2027-01-31}}" in text
    assert "clients.batch.is" in text


def test_a_key_without_a_last_day_has_a_line_without_one() -> None:
    assert new_key("batch", OCTETS).stanza == f"- {{sha256: {SHA256}}}"


@pytest.mark.parametrize("not_after, expected", [(None, None), (date(2027, 1, 31), "2027-01-31")])
def test_a_machine_reads_the_same_as_json(not_after: date | None, expected: str | None) -> None:
    assert json.loads(new_key("batch", OCTETS, not_after).as_json()) == {
        "client": "batch",
        "key": KEY,
        "sha256": SHA256,
        "not_after": expected,
    }


@pytest.mark.parametrize("client", ["", "Batch", "9a", "a b", "a\n", "ä"])
def test_what_is_no_name_of_a_client_is_refused(client: str) -> None:
    with pytest.raises(ValueError, match="a client's name"):
        new_key(client, OCTETS)


def test_a_key_does_not_show_itself_in_a_log() -> None:
    assert KEY not in repr(new_key("batch", OCTETS))
