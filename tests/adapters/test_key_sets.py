from __future__ import annotations

import asyncio
import json

import pytest

from gateway.adapters.jwks import IssuerSource
from gateway.adapters.key_sets import KeySets
from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess
from tests.simulators.signing import default_keys


def corp(issuer: str) -> AccessTokenIssuer:
    return AccessTokenIssuer("corp", issuer, "us", frozenset({"RS256"}), "at+jwt", 30, "azp", 3600)


DOCUMENT = json.dumps({"keys": [default_keys()["K1"].public]}).encode()


class Shelf:
    """A fetcher that notes for whom it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []
        self.addresses: list[str | None] = []

    async def fetch(self, issuer: str, source: IssuerSource) -> bytes:
        self.asked.append((issuer, source.timeout_s))
        self.addresses.append(source.jwks_url)
        return DOCUMENT


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_issuers_that_are_kept_are_fetched_each_with_its_own_source() -> None:
    shelf = Shelf()
    sets = KeySets({"corp": IssuerSource(timeout_s=1)}, shelf)
    sets.keep({"corp": corp("https://a"), "other": corp("https://b")})
    assert shelf.asked == []
    async with sets.running():
        await settle()
        assert sorted(shelf.asked) == [("https://a", 1), ("https://b", 5)]
        assert {caller: age is not None for caller, age in sets.ages_s().items()} == {"corp": True, "other": True}


async def test_a_caller_without_keys_has_no_age() -> None:
    sets = KeySets({}, Shelf())
    sets.keep({"corp": corp("https://a")})
    assert sets.ages_s() == {"corp": None}


async def test_keys_outlive_a_new_policy_that_keeps_the_issuer() -> None:
    shelf = Shelf()
    sets = KeySets({}, shelf)
    sets.keep({"corp": corp("https://a")})
    async with sets.running():
        await settle()
        before = sets.of("corp")
        sets.keep({"corp": corp("https://a"), "new": corp("https://b")})
        await settle()
        assert sets.of("corp") is before
        assert [issuer for issuer, _ in shelf.asked] == ["https://a", "https://b"]


async def test_an_issuer_that_is_gone_or_replaced_is_no_longer_fetched() -> None:
    shelf = Shelf()
    sets = KeySets({"corp": IssuerSource(max_age_s=0.005), "old": IssuerSource(max_age_s=0.005)}, shelf)
    sets.keep({"corp": corp("https://a"), "old": corp("https://b")})
    async with sets.running():
        await settle()
        sets.keep({"corp": corp("https://c")})
        await settle()
        shelf.asked.clear()
        await asyncio.sleep(0.05)
        assert {issuer for issuer, _ in shelf.asked} == {"https://c"}
    with pytest.raises(KeyError):
        sets.of("old")


async def test_the_generation_grows_with_each_change_of_any_set() -> None:
    sets = KeySets({}, Shelf())
    sets.keep({"corp": corp("https://a"), "other": corp("https://b")})
    assert sets.generation == 0
    async with sets.running():
        await settle()
        assert sets.generation == 2


async def test_issuers_can_be_dropped_before_anything_runs() -> None:
    sets = KeySets({}, Shelf())
    sets.keep({"corp": corp("https://a")})
    sets.keep({})
    assert sets.ages_s() == {}


async def test_an_error_within_the_block_ends_the_fetching() -> None:
    shelf = Shelf()
    sets = KeySets({}, shelf)
    sets.keep({"corp": corp("https://a")})
    with pytest.raises(ExceptionGroup) as caught:
        async with sets.running():
            raise RuntimeError("the app failed")
    assert caught.group_contains(RuntimeError, match="the app failed")


async def test_the_keys_of_an_access_team_are_at_its_own_place_unless_the_settings_say_another() -> None:
    shelf = Shelf()
    sets = KeySets(
        {"edge": IssuerSource("https://mirror/keys", timeout_s=1), "tunnel": IssuerSource(timeout_s=2)}, shelf
    )
    sets.keep({"edge": CloudflareAccess("edge", "team", "tag"), "tunnel": CloudflareAccess("tunnel", "team", "tag")})
    async with sets.running():
        await settle()
    assert sorted(shelf.addresses, key=str) == [
        "https://mirror/keys",
        "https://team.cloudflareaccess.com/cdn-cgi/access/certs",
    ]
    assert shelf.asked == [("https://team.cloudflareaccess.com", 1), ("https://team.cloudflareaccess.com", 2)]
