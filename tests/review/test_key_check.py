from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.identity import api_key
from gateway.policy.model import Key
from gateway.review.key_check import check_key
from tests.policy.planes import client, plane

KEY = api_key.new_key(bytes(range(24)))
SHA256 = api_key.sha256_of(KEY)
TODAY = "2026-11-30"


def held(not_after: str | None = None, *, suspended: bool = False) -> tuple[str, ...]:
    """Give the states of a key that one client of one plane has."""
    holder = client("batch", caller="keys", id=None, keys=(Key("ab" * 32), Key(SHA256, not_after)), suspended=suspended)
    found = check_key(KEY, [plane(clients=[holder, client("acme")])], TODAY)
    assert found.good == (found.holders[0].state == "good")
    return tuple(holder.state for holder in found.holders)


def test_a_key_is_good_until_its_last_day_has_passed_or_its_client_is_suspended() -> None:
    assert held() == held(TODAY) == ("good",)
    assert held("2026-11-29") == ("expired",)
    assert held(suspended=True) == ("suspended",)


@pytest.mark.parametrize(
    "key, form", [(KEY, "gateway"), (f"{KEY[:-1]}0", "mistyped"), (KEY[:-4], "mistyped"), ("ak_live_abc", "foreign")]
)
def test_a_typing_error_is_told_apart_from_a_key_that_nobody_has(key: str, form: str) -> None:
    found = check_key(key, [plane()], TODAY)
    assert (found.form, found.holders, found.good) == (form, (), False)
    assert "No client of these policies has it." in found.as_text()


def test_every_plane_that_knows_the_key_is_named_and_the_key_is_not() -> None:
    one = plane(clients=[client("batch", caller="keys", id=None, keys=(Key(SHA256, "2027-01-31"),))])
    found = check_key(KEY, [one, replace(one, name="other")], TODAY)
    text = found.as_text()
    assert text.splitlines()[1:] == [
        f"Its SHA-256 is {SHA256}.",
        "Plane partner: client batch, until 2027-01-31 (UTC); it is good.",
        "Plane other: client batch, until 2027-01-31 (UTC); it is good.",
    ]
    told = json.loads(found.as_json())
    assert told["good"] is True
    assert told["holders"][0] == {"plane": "partner", "client": "batch", "not_after": "2027-01-31", "state": "good"}
    assert KEY not in text + found.as_json()
