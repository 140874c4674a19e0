from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.adapters.authenticator import Authenticator, signers_of
from gateway.adapters.introspection import IntrospectionSource, Introspector
from gateway.adapters.issuer_http import IssuerHttp
from gateway.adapters.jwks import IssuerSource, JwksFetcher
from gateway.adapters.key_sets import KeySets
from gateway.adapters.revoked_file import RevokedFile
from gateway.identity import api_key
from gateway.identity.credential import Credential, CredentialReader
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
TAG = "4a" * 32
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

    def __init__(self, plane: Plane, key_sets: KeySets, introspector: Introspector, revoked: RevokedFile) -> None:
        keys = {key.sha256: client.caller for client in plane.clients.values() for key in client.keys}
        self.reader = CredentialReader(plane.callers, keys, edge=plane.edge is not None)
        self.authenticator = Authenticator(plane, key_sets, introspector, revoked)

    def credential(self, text: str, assertion: str = "") -> Credential:
        return self.reader.read(
            RequestHeaders("h", f"Bearer {text}".encode("latin-1"), access_assertion=assertion.encode() or None)
        )

    async def enter(self, text: str, now: float | None = None, assertion: str = "") -> Principal:
        now = time.time() if now is None else now
        credential = self.credential(text, assertion)
        return self.authenticator.known(credential, now) or await self.authenticator.identify(credential, now)

    def knows(self, text: str, now: float | None = None, assertion: str = "") -> bool:
        credential, now = self.credential(text, assertion), time.time() if now is None else now
        recognized = self.authenticator.recognize(sha256(b"Bearer " + text.encode()).digest(), now)
        known = self.authenticator.known(credential, now)
        by_field = credential.kind is CredentialKind.ACCESS_TOKEN and credential.assertion is None
        assert recognized is (known if by_field else None), "a field is as good as the token in it, and nothing else is"
        return known is not None

    async def status(self, text: str, assertion: str = "") -> int:
        try:
            await self.enter(text, assertion=assertion)
        except (Malformed, Unavailable) as refusal:
            return ANSWERS[refusal.reason].status
        return 200

    async def detail(self, text: str, assertion: str = "") -> str:
        with pytest.raises(Malformed) as caught:
            await self.enter(text, assertion=assertion)
        assert caught.value.reason is Reason.CREDENTIAL_INVALID
        return caught.value.detail


@asynccontextmanager
async def opened(
    plane: Plane, source: IssuerSource | None = None, revoked: RevokedFile | None = None, **asked: IntrospectionSource
) -> AsyncIterator[tuple[Door, KeySets]]:
    """Open a plane; each caller's keys come from ``source``, else from the issuer's metadata."""
    fetcher, http = JwksFetcher(), IssuerHttp()
    source = source or IssuerSource(timeout_s=30)
    key_sets = KeySets(dict.fromkeys(("corp", "tunnel", "edge"), source), fetcher)
    introspector = Introspector(asked, http)
    key_sets.keep(signers_of(plane))
    try:
        async with key_sets.running(), introspector.running():
            await asyncio.sleep(0)
            yield Door(plane, key_sets, introspector, revoked or RevokedFile(None)), key_sets
    finally:
        await fetcher.close()
        await http.close()


def test_a_plane_needs_the_keys_of_those_who_sign(issuer: Issuer) -> None:
    asked = IntrospectionIssuer("asked", "https://a", "us")
    corp, tunnel, edge = trust_of(issuer), CloudflareAccess("tunnel", "t", TAG), CloudflareAccess("edge", "t", "e" * 64)
    assert signers_of(plane_of(corp, asked, tunnel)) == {"corp": corp, "tunnel": tunnel}
    assert signers_of(plane_of(edge=edge)) == {"edge": edge}


async def test_the_field_of_a_verified_token_is_known_and_no_other(issuer: Issuer) -> None:
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        token = issuer.token()
        assert await door.status(token) == 200
        assert list(door.authenticator.known_fields) == [sha256(b"Bearer " + token.encode()).digest()]
        assert await door.status(KEY) == 200
        assert await door.status(issuer.token(aud="another")) == 401
        assert len(door.authenticator.known_fields) == 1


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


async def test_an_assertion_is_the_caller_where_the_plane_says_so(issuer: Issuer) -> None:
    plane = plane_of(trust_of(issuer), CloudflareAccess("tunnel", "team", TAG))
    assertion = issuer.assertion("team", TAG)
    async with opened(plane, IssuerSource(issuer.jwks_url, timeout_s=30)) as (door, _):
        credential = door.reader.read(RequestHeaders("h", access_assertion=assertion.encode()))
        now = time.time()
        assert door.authenticator.known(credential, now) is None
        principal = await door.authenticator.identify(credential, now)
        assert (principal.caller, principal.kind) == ("tunnel", CredentialKind.CLOUDFLARE_ACCESS)
        assert door.authenticator.known(credential, now) is principal
        assert await door.detail(assertion) == "iss is no issuer of this plane", "an assertion is no access token"
        assert not door.knows(assertion)


async def test_without_the_lock_of_the_edge_no_credential_is_good(issuer: Issuer) -> None:
    plane = plane_of(trust_of(issuer), edge=CloudflareAccess("edge", "team", TAG))
    good, token = issuer.assertion("team", TAG), issuer.token()
    async with opened(plane, IssuerSource(issuer.jwks_url, timeout_s=30)) as (door, _):
        for text in (KEY, token):
            assert "team" in await door.detail(text, issuer.assertion("evil", TAG))
            assert "aud" in await door.detail(text, issuer.assertion("team", "f" * 64))
            assert "three parts" in await door.detail(text, "x")
            assert not door.knows(text, assertion=good)
        assert await door.status(KEY, good) == 200
        assert door.knows(KEY, assertion=good)
        assert not door.knows(token, assertion=good)
        assert await door.status(token, good) == 200
        assert await door.status(token, good) == 200  # the first may have fetched keys, which voids the open lock
        assert door.knows(token, assertion=good)
        assert not door.knows(token, assertion=issuer.assertion("team", TAG, sub="another"))
        assert await door.detail("unknown", good) == "neither a token of an issuer nor a key of the policy"
        for text in (KEY, token):
            with pytest.raises(Malformed):
                await door.authenticator.identify(door.credential(text, good)._replace(assertion=None), time.time())


async def test_an_assertion_that_opens_the_edge_is_no_caller(issuer: Issuer) -> None:
    plane = plane_of(trust_of(issuer), edge=CloudflareAccess("edge", "team", TAG))
    good = issuer.assertion("team", TAG)
    async with opened(plane, IssuerSource(issuer.jwks_url, timeout_s=30)) as (door, _):
        assert await door.detail(good, good) == "iss is no issuer of this plane"
        await door.authenticator.open_edge(good, time.time())


async def test_a_plane_without_an_edge_has_no_lock_to_open() -> None:
    async with opened(plane_of()) as (door, _):
        await door.authenticator.open_edge("x", time.time())


async def test_an_opaque_token_is_asked_about_once(issuer: Issuer) -> None:
    asked = IntrospectionIssuer("asked", issuer.url, issuer.audience)
    issuer.opaque["opaque-abc"] = {"active": True, "aud": issuer.audience, "client_id": "cli-1"}
    async with opened(plane_of(asked), asked=IntrospectionSource("gw", "s", timeout_s=30)) as (door, _):
        assert not door.knows("opaque-abc")
        assert (await door.enter("opaque-abc")).id == "cli-1"
        assert door.knows("opaque-abc")
        assert await door.status("opaque-abc") == 200
        assert await door.status("opaque-other") == 401
        issuer.opaque["opaque-third"] = 500
        assert await door.status("opaque-third") == 503
        assert await door.status(issuer.token("ATT")) == 401
        assert [form.partition("&")[0] for form, _ in issuer.asked] == [
            "token=opaque-abc",
            "token=opaque-other",
            "token=opaque-third",
        ]


async def test_an_opaque_token_is_nothing_where_nobody_is_asked() -> None:
    async with opened(plane_of()) as (door, _):
        credential = Credential(CredentialKind.INTROSPECTION, "opaque", "authorization")
        assert door.authenticator.known(credential, 0) is None
        with pytest.raises(Malformed, match="asks nobody"):
            await door.authenticator.identify(credential, 0)


async def test_who_is_on_the_list_is_shut_out_at_once_however_known(issuer: Issuer, tmp_path: Path) -> None:
    """Corpus jwt-091: by jti, by the hash of a token, of a key, of an assertion, of an opaque token or its jti."""
    file = tmp_path / "revoked"
    file.write_text("# nobody yet\n", "utf-8")
    revoked = RevokedFile(file)
    revoked.load()
    corp, asked = trust_of(issuer), IntrospectionIssuer("asked", issuer.url, issuer.audience)
    one, two, opaque, third = issuer.token(jti="j-1"), issuer.token(), "opaque-abc", "opaque-xyz"
    for text, jti in ((opaque, "o-1"), (third, "o-2")):
        issuer.opaque[text] = {"active": True, "aud": issuer.audience, "client_id": "cli-1", "jti": jti}
    source = IntrospectionSource("gw", "s", timeout_s=30)
    async with opened(plane_of(corp, asked), revoked=revoked, asked=source) as (door, _):
        for text in (one, two, opaque, third, KEY):
            assert await door.status(text) == 200
            assert door.knows(text)
        listed = [sha256(text.encode()).hexdigest() for text in (two, opaque, KEY)]
        file.write_text("\n".join(["j-1", "o-2", *listed]), "utf-8")
        revoked.refresh()
        for text in (one, two, opaque, third, KEY):
            assert not door.knows(text)
            assert "revoked" in await door.detail(text)
        assert await door.status(issuer.token()) == 200
        file.write_text("", "utf-8")
        revoked.refresh()
        for text in (one, two, opaque, third, KEY):
            assert await door.status(text) == 200


async def test_a_revoked_assertion_opens_no_edge(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "revoked"
    good = issuer.assertion("team", TAG)
    file.write_text(sha256(good.encode()).hexdigest(), "utf-8")
    revoked = RevokedFile(file)
    revoked.load()
    plane = plane_of(edge=CloudflareAccess("edge", "team", TAG))
    async with opened(plane, IssuerSource(issuer.jwks_url, timeout_s=30), revoked) as (door, _):
        assert await door.detail(KEY, good) == "the token is revoked"
        assert await door.status(KEY, issuer.assertion("team", TAG)) == 200


async def test_a_new_policy_verifies_anew_with_the_keys_at_hand(issuer: Issuer) -> None:
    token = issuer.token()
    async with opened(plane_of(trust_of(issuer))) as (door, key_sets):
        await door.enter(token)
        plane = plane_of(replace(trust_of(issuer), audience="another"))
        key_sets.keep(signers_of(plane))
        again = Door(plane, key_sets, Introspector({}, IssuerHttp()), RevokedFile(None))
        assert await again.status(token) == 401
        assert issuer.fetches["/keys"] == 1


async def test_a_principal_is_given_for_the_claims_of_the_token_alone(issuer: Issuer) -> None:
    """Corpus jwt-075, -076, -097: scopes are whole words, an e-mail address is no identity."""
    changes: dict[str, Any] = {"scope": "chat-readonly xchat", "email": "ceo@corp.example", "email_verified": "false"}
    async with opened(plane_of(trust_of(issuer))) as (door, _):
        principal = await door.enter(issuer.token(**changes))
        assert (principal.id, principal.subject) == ("cli-1", "user-1")
        assert principal.scopes == {"chat-readonly", "xchat"}
        assert (await door.enter(issuer.token(scope=["chat"]))).scopes == {"chat"}
