from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
from dataclasses import fields

import pytest

from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.cache_salt import CacheSalts, is_salted, isolated
from gateway.policy.decision import Change, Permit
from tests.policy.planes import MODELS

SECRET = b"0123456789abcdef0123456789abcdef"
SALTS = CacheSalts(SECRET)
DAY = "2027-01-15"


def test_a_salt_is_the_keyed_digest_of_plane_client_and_day() -> None:
    message = b"vllm-gateway cache_salt\0partner\0acme\x002027-01-15"
    digest = hmac.new(SECRET, message, hashlib.sha256).digest()
    assert SALTS.salt("partner", "acme", DAY) == base64.urlsafe_b64encode(digest).decode().rstrip("=")


def test_each_secret_plane_client_and_day_has_its_own_salt_and_keeps_it() -> None:
    who = list(itertools.product(["partner", "internal"], ["acme", "batch"], [DAY, "2027-01-16"]))
    salts = [secret.salt(*one) for one in who for secret in (SALTS, CacheSalts(SECRET[::-1]))]
    assert len(set(salts)) == 16
    again = CacheSalts(SECRET)
    assert [again.salt(*one) for one in (who[0], who[1], who[0])] == [salts[0], salts[2], salts[0]]
    assert salts == [secret.salt(*one) for one in who for secret in (CacheSalts(SECRET), CacheSalts(SECRET[::-1]))]


def test_a_salt_is_one_that_every_engine_takes() -> None:
    """At most 128 characters are taken, and by cache servers no separator of paths (CVE-2026-105756)."""
    for client in ("a", "x" * 1000):
        salt = SALTS.salt("partner", client, DAY)
        assert len(salt) == 43
        assert salt.isascii()
        assert not set(salt) & set("@/\\\0 \n=+")


def test_neither_the_secret_nor_a_salt_is_shown() -> None:
    permit = isolated(Permit((), MODELS["local"]), FACTS["openai-chat"], SALTS.salt("partner", "acme", DAY))
    assert SECRET.decode() not in repr(SALTS)
    assert not hasattr(SALTS, "__dict__")
    assert permit.changes[0].value not in repr(permit)
    assert str(permit.changes[0]) == "set cache_salt"


def test_the_salt_comes_after_every_other_change() -> None:
    before = Permit((Change("drop", "cache_salt"), Change("set", "n", 1)), MODELS["local"], stream=True)
    after = isolated(before, FACTS["openai-chat"], "salt")
    assert after == Permit((*before.changes, Change("set", "cache_salt", "salt")), MODELS["local"], stream=True)


def test_whatever_else_a_permit_says_is_kept() -> None:
    said = {field.name: object() for field in fields(Permit)} | {"changes": ()}
    after = isolated(Permit(**said), FACTS["openai-chat"], "salt")  # type: ignore[arg-type]  # what, does not matter
    assert {name: getattr(after, name) for name in said} == {**said, "changes": (Change("set", "cache_salt", "salt"),)}


@pytest.mark.parametrize("name", sorted(FACTS))
def test_a_dialect_is_salted_exactly_where_its_table_forces_the_field(name: str) -> None:
    """A table that let callers choose the salt, or dropped the field, would undo the isolation without a word."""
    facts = FACTS[name]
    permit = isolated(Permit(), facts, "salt")
    assert is_salted(facts) == ("cache_salt" in facts.fields)
    assert permit.changes == ((Change("set", "cache_salt", "salt"),) if is_salted(facts) else ())


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_the_salt_replaces_whatever_the_caller_sent(name: str) -> None:
    dialect = DIALECTS[name]
    if not FACTS[name].has_body or not is_salted(FACTS[name]):
        assert isolated(Permit(), FACTS[name], "salt").changes == ()
        return
    call = dialect.read(b'{"cache_salt": "another client\'s"}')
    assert dialect.write(call, isolated(Permit(), FACTS[name], "ours").changes) == b'{"cache_salt":"ours"}'
