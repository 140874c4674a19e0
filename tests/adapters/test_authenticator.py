from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.adapters.authenticator import Authenticator, issuers_of
from gateway.adapters.jwks import IssuerSource, JwksFetcher
from gateway.adapters.key_sets import KeySets
from gateway.identity import api_key
from gateway.identity.credential import CredentialReader
from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CallerTrust, CloudflareAccess, IntrospectionIssuer
from gateway.identity.principal import CredentialKind, Principal
from gateway.limits.limit import Limit
from gateway.policy.model import Client, Key, Plane
from gateway.reasons import ANSWERS, Malformed, Reason, Unavailable
from gateway.wire.headers import RequestHeaders
from tests.simulators.hostile_tokens import credentials
from tests.simulators.issuer import Issuer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

KEY = api_key.new_key(bytes(range(24)))
LIMIT = Limit("standard", 60, 8)
CORPUS = json.loads(Path(__file__).parents[1].joinpath("corpus", "attacks.json").read_text("utf-8"))
CASES = [case for case in CORPUS if case["group"] == "jwt" and case["stage"] in {"gate", "wall"}]


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


def trust_of(issuer: Issuer, caller: str = "corp") -> AccessTokenIssuer:
    return AccessTokenIssuer(
        caller,
        issuer.url,
        issuer.audience,
        frozenset({"RS256", "PS256", "ES256", "EdDSA"}),
        "at+jwt",
        30,
        "client_id",
        3600,
    )


def plane_of(*trusted: CallerTrust, edge: CloudflareAccess | None = None) -> Plane:
    client = Client("batch", "keys", LIMIT, frozenset({"chat"}), keys=(Key(api_key.sha256_of(KEY)), Key("ab" * 32)))
    callers: dict[str, CallerTrust] = {trust.caller: trust for trust in (*trusted, ApiKeys("keys"))}
    return Plane(
        "partner",
        "public",
        "",
        public=True,
        callers=callers,
        endpoints={},
        models={},
        limits={},
        clients={"batch": client},
        edge=edge,
    )


class Door:
    """A plane with its reader and its authenticator, as the enforcement has them."""

    def __init__(self, plane: Plane, key_sets: KeySets) -> None:
        keys = {key.sha256: client.caller for client in plane.clients.values() for key in client.keys}
        self.reader = CredentialReader(plane.callers, keys, edge=plane.edge is not None)
        self.authenticator = Authenticator(plane, key_sets)

    async def enter(self, text: str, now: float | None = None) -> Principal:
        now = time.time() if now is None else now
        credential = self.reader.read(RequestHeaders("h", f"Bearer {text}".encode("latin-1")))
        return self.authenticator.known(credential, now) or await self.authenticator.identify(credential, now)

    def knows(self, text: str, now: float | None = None) -> bool:
        credential = self.reader.read(RequestHeaders("h", f"Bearer {text}".encode()))
        return self.authenticator.known(credential, time.time() if now is None else now) is not None

    async def status(self, text: str) -> int:
        try:
            await self.enter(text)
        except (Malformed, Unavailable) as refusal:
            return ANSWERS[refusal.reason].status
        return 200

    async def detail(self, text: str) -> str:
        with pytest.raises(Malformed) as caught:
            await self.enter(text)
        assert caught.value.reason is Reason.CREDENTIAL_INVALID
        return caught.value.detail


@asynccontextmanager
async def opened(plane: Plane, source: IssuerSource | None = None) -> AsyncIterator[tuple[Door, KeySets]]:
    fetcher = JwksFetcher()
    key_sets = KeySets({"corp": source or IssuerSource(timeout_s=30)}, fetcher)
    key_sets.keep(issuers_of(plane))
    try:
        async with key_sets.running():
            await asyncio.sleep(0)
            yield Door(plane, key_sets), key_sets
    finally:
        await fetcher.close()


def test_a_plane_needs_the_keys_of_its_access_token_issuers_only(issuer: Issuer) -> None:
    asked = IntrospectionIssuer("asked", "https://a", "us")
    assert issuers_of(plane_of(trust_of(issuer), asked)) == {"corp": issuer.url}


async def test_a_token_is_verified_once_and_known_until_it_expires(issuer: Issuer) -> None:
    token = issuer.token()
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        assert not door.knows(token)
        principal = await door.enter(token)
        assert (principal.caller, principal.kind, principal.id) == ("corp", CredentialKind.ACCESS_TOKEN, "cli-1")
        assert door.knows(token)
        assert await door.enter(token) is principal
        assert principal.expires_at is not None
        assert door.knows(token, principal.expires_at - 0.1)
        assert not door.knows(token, principal.expires_at)
        assert issuer.fetches["/keys"] == 1


async def test_each_token_of_the_corpus_ends_as_the_corpus_says_at_the_door(issuer: Issuer) -> None:
    """By way of the Authorization field, where blanks and other grammar count too."""
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        for case in CASES:
            for text in credentials(case, issuer.stage):
                assert await door.status(text) in {*case["expected"]["status"]}, (case["id"], text[:100])
        assert issuer.fetches["/keys"] <= 2


async def test_a_failed_token_is_not_remembered(issuer: Issuer) -> None:
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        forged = issuer.token("ATT", {"kid": "k1"})
        for _ in range(3):
            assert await door.detail(forged) == "the signature does not fit"
        assert not door.knows(forged)


async def test_an_issuer_that_is_down_makes_the_credential_unavailable_and_not_invalid(issuer: Issuer) -> None:
    """Corpus jwks-005."""
    issuer.fault = "down"
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        assert await door.status(issuer.token()) == 503
        assert await door.detail(issuer.token(aud="another")) == "aud does not name this plane"


async def test_keys_come_by_themselves_when_the_issuer_is_back(issuer: Issuer) -> None:
    issuer.fault = "down"
    async with opened(plane_of(trust_of(issuer)), IssuerSource(max_age_s=0.05, timeout_s=30)) as (door, _):
        assert await door.status(issuer.token()) == 503
        issuer.fault = None
        while await door.status(issuer.token()) != 200:  # noqa: ASYNC110  (what is waited for happens at the issuer)
            await asyncio.sleep(0.02)


async def test_a_rotated_key_is_accepted_at_once_and_a_removed_one_after_the_age(issuer: Issuer) -> None:
    """AUTH-11, corpus jwks-007: also for a token that was verified before."""
    issuer.published = ["K1"]
    source = IssuerSource(max_age_s=0.2, cool_down_s=0.05, timeout_s=30)
    async with opened(plane_of(trust_of(issuer)), source) as (door, _):
        old = issuer.token()
        assert await door.status(old) == 200
        issuer.published = ["K1", "E1"]
        assert await door.status(issuer.token("E1")) == 200
        assert door.knows(issuer.token()) is False
        assert await door.status(old) == 200
        issuer.published = ["E1"]
        while door.knows(old):  # noqa: ASYNC110  (as above)
            await asyncio.sleep(0.02)
        assert await door.status(old) == 401
        assert await door.status(issuer.token("E1")) == 200


async def test_an_unknown_kid_never_disturbs_tokens_whose_keys_are_known(issuer: Issuer) -> None:
    """AUTH-13, corpus jwks-002."""
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        assert await door.status(issuer.token()) == 200
        for number in range(30):
            assert await door.status(issuer.token("ATT", {"kid": f"random {number}"})) == 401
        assert issuer.fetches["/keys"] == 2
        issuer.fault = "garbage"
        assert await door.status(issuer.token(jti="another")) == 200


async def test_a_token_for_another_plane_causes_no_fetch(issuer: Issuer) -> None:
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        assert await door.status(issuer.token()) == 200
        assert await door.status(issuer.token("ATT", {"kid": "random"}, aud="another")) == 401
        assert issuer.fetches["/keys"] == 1


async def test_two_issuers_are_told_apart_by_iss_and_each_has_its_own_keys(issuer: Issuer) -> None:
    """Corpus jwt-059, -060: the same kid in both."""
    with Issuer(name="b") as other:
        async with opened(plane_of(trust_of(issuer), trust_of(other, "other"))) as (door, _):
            assert (await door.enter(issuer.token())).caller == "corp"
            assert (await door.enter(other.token())).caller == "other"
            assert await door.status(issuer.token(iss=other.url)) == 401


async def test_a_key_of_the_policy_is_known_without_any_issuer() -> None:
    async with opened(plane_of()) as (door, _):
        expected = Principal("keys", CredentialKind.API_KEY, api_key.sha256_of(KEY))
        assert await door.enter(KEY) == expected
        assert door.knows(KEY)
        credential = door.reader.read(RequestHeaders("h", f"Bearer {KEY}".encode()))
        assert await door.authenticator.identify(credential, time.time()) == expected


async def test_an_unknown_key_is_invalid_and_the_record_says_of_which_sort() -> None:
    async with opened(plane_of()) as (door, _):
        assert "policy does not hold" in await door.detail(api_key.new_key(bytes(24)))
        assert "mistyped" in await door.detail(f"{KEY[:-1]}0")
        assert "neither a token" in await door.detail("opaque-abc")


async def test_the_hash_of_a_key_is_not_the_key() -> None:
    async with opened(plane_of()) as (door, _):
        assert await door.status(api_key.sha256_of(KEY)) == 401


async def test_a_signed_token_is_invalid_where_no_caller_takes_one(issuer: Issuer) -> None:
    async with opened(plane_of()) as (door, _):
        assert await door.detail(issuer.token()) == "iss is no issuer of this plane"


async def test_kinds_that_are_not_served_yet_are_refused_and_the_record_says_so() -> None:
    asked = IntrospectionIssuer("asked", "https://a", "us")
    async with opened(plane_of(asked)) as (door, _):
        assert await door.detail("opaque-abc") == "callers of the kind introspection are not served by this version"


async def test_a_plane_with_an_edge_lets_nobody_pass_while_the_lock_is_not_turned(issuer: Issuer) -> None:
    plane = plane_of(trust_of(issuer), edge=CloudflareAccess("edge", "t", "aud"))
    async with opened(plane) as (door, _):
        assert not door.knows(KEY)
        for text in (KEY, issuer.token()):
            assert "trust.edge" in await door.detail(text)


async def test_a_new_policy_verifies_anew_with_the_keys_at_hand(issuer: Issuer) -> None:
    token = issuer.token()
    async with opened(plane_of(trust_of(issuer))) as (door, key_sets):
        await door.enter(token)
        plane = plane_of(replace(trust_of(issuer), audience="another"))
        key_sets.keep(issuers_of(plane))
        assert await Door(plane, key_sets).status(token) == 401
        assert issuer.fetches["/keys"] == 1


async def test_a_principal_is_given_for_the_claims_of_the_token_alone(issuer: Issuer) -> None:
    """Corpus jwt-075, -076, -097: scopes are whole words, an e-mail address is no identity."""
    changes: dict[str, Any] = {"scope": "chat-readonly xchat", "email": "ceo@corp.example", "email_verified": "false"}
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        principal = await door.enter(issuer.token(**changes))
        assert (principal.id, principal.subject) == ("cli-1", "user-1")
        assert principal.scopes == {"chat-readonly", "xchat"}
        assert (await door.enter(issuer.token(scope=["chat"]))).scopes == {"chat"}
