"""A grant is given again to the same proof on the same endpoint, and only where nothing else had a part in it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from typing import TYPE_CHECKING

from gateway.identity.principal import CredentialKind, Principal
from gateway.policy.admissions import Admissions
from gateway.policy.decide import admit
from gateway.policy.decision import Deny, Grant
from gateway.policy.model import Key
from gateway.reasons import Reason
from tests.policy.planes import client, plane, principal

if TYPE_CHECKING:
    from gateway.policy.model import Endpoint, Plane

DAY = "2026-11-30"
SHA256 = "ab" * 32


def endpoints(rules: Plane) -> list[Endpoint]:
    return [endpoint for methods in rules.endpoints.values() for endpoint in methods.values()]


def test_the_same_proof_gets_the_same_grant_and_another_one_of_its_own() -> None:
    rules = plane(clients=[client("acme")])
    admissions, (chat, models, *_), who = Admissions(rules), endpoints(rules), principal("acme")
    first = admissions.admit(chat, who, "192.0.2.1", DAY, b"hash")
    assert first == admit(rules, chat, who, "192.0.2.1", DAY)
    assert admissions.admit(chat, who, "192.0.2.2", DAY, b"hash") is first
    assert admissions.admit(chat, replace(who), "192.0.2.1", DAY, b"hash") is not first, "it was proved anew"
    other = admissions.admit(models, who, "192.0.2.1", DAY, b"hash")
    assert other == admit(rules, models, who, "192.0.2.1", DAY)
    assert other != first


def test_who_is_not_recognized_is_judged_each_time() -> None:
    rules = plane(clients=[client("acme")])
    admissions, chat, who = Admissions(rules), endpoints(rules)[0], principal("acme")
    assert admissions.admit(chat, who, None, DAY, None) is not admissions.admit(chat, who, None, DAY, None)


def test_where_the_address_counts_it_is_looked_at_each_time() -> None:
    rules = plane(clients=[replace(client("acme"), networks=(ip_network("192.0.2.0/24"),))])
    admissions, chat, who = Admissions(rules), endpoints(rules)[0], principal("acme")
    assert isinstance(admissions.admit(chat, who, "192.0.2.1", DAY, b"hash"), Grant)
    denied = admissions.admit(chat, who, "198.51.100.1", DAY, b"hash")
    assert isinstance(denied, Deny)
    assert denied.reason is Reason.ADDRESS_NOT_ACCEPTED


def test_a_refusal_is_not_remembered() -> None:
    rules = plane(clients=[client("acme")])
    admissions, chat = Admissions(rules), endpoints(rules)[0]
    stranger = principal("nobody")
    assert admissions.admit(chat, stranger, None, DAY, b"hash") is not admissions.admit(
        chat, stranger, None, DAY, b"hash"
    )


def test_the_last_day_of_a_key_is_looked_at_each_time() -> None:
    rules = plane(clients=[client("batch", caller="keys", id=None, keys=(Key(SHA256, DAY),))])
    admissions, chat = Admissions(rules), endpoints(rules)[0]
    holder = Principal("keys", CredentialKind.API_KEY, SHA256)
    assert isinstance(admissions.admit(chat, holder, None, DAY, b"hash"), Grant)
    denied = admissions.admit(chat, holder, None, "2026-12-01", b"hash")
    assert isinstance(denied, Deny)
    assert denied.reason is Reason.CREDENTIAL_INVALID


def test_the_memory_is_bounded() -> None:
    rules = plane(clients=[client("acme")])
    admissions, chat, who = Admissions(rules, most=2), endpoints(rules)[0], principal("acme")
    first = admissions.admit(chat, who, None, DAY, b"1")
    for known_as in (b"2", b"3"):
        admissions.admit(chat, who, None, DAY, known_as)
    assert admissions.admit(chat, who, None, DAY, b"1") is not first
