from __future__ import annotations

from gateway.policy.clients import ClientIndex
from gateway.policy.model import Key
from tests.policy.planes import NEW_KEY, OLD_KEY, client

BY_ID = client("one")
TWIN = client("twin", id="one")
GROUP = client("people", id=None, group="staff")
OTHERS = client("others", id=None, group="staff")
KEYS = client("keys", id=None, keys=(Key(OLD_KEY), Key(NEW_KEY)))


def test_clients_are_found_by_what_proves_them() -> None:
    index = ClientIndex.of([BY_ID, GROUP, KEYS])
    assert index.ids == {("corp", "one"): (BY_ID,)}
    assert index.groups == {"corp": {"staff": (GROUP,)}}
    assert index.keys == {("corp", OLD_KEY): ((KEYS, Key(OLD_KEY)),), ("corp", NEW_KEY): ((KEYS, Key(NEW_KEY)),)}


def test_clients_that_share_a_proof_stay_two() -> None:
    index = ClientIndex.of([BY_ID, TWIN, GROUP, OTHERS, KEYS, client("more", id=None, keys=(Key(OLD_KEY),))])
    assert [one.name for one in index.ids["corp", "one"]] == ["one", "twin"]
    assert [one.name for one in index.groups["corp"]["staff"]] == ["people", "others"]
    assert [one.name for one, _ in index.keys["corp", OLD_KEY]] == ["keys", "more"]
