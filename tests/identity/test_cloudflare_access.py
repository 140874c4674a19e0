from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.identity import cloudflare_access
from gateway.identity.issuer import CloudflareAccess
from gateway.identity.key_set import KeySet
from gateway.identity.principal import CredentialKind, Principal
from gateway.reasons import ANSWERS, Malformed, Reason
from tests.simulators.hostile_tokens import Stage
from tests.simulators.signing import SigningKey, compact, default_keys, hmac_sha256, signing_input

NOW = 1_796_000_000
KEYS = default_keys()
TAG, OTHER_TAG = "4a" * 32, "5b" * 32
STAFF = CloudflareAccess("tunnel", "example", TAG, ("custom", "groups"))
OTHER = CloudflareAccess("other", "example", OTHER_TAG)
SET = KeySet.parse(json.dumps({"keys": [KEYS["K1"].public, KEYS["E1"].public]}).encode())
PERSON: dict[str, Any] = {
    "iss": "https://example.cloudflareaccess.com",
    "aud": [TAG],
    "email": "a@corp.example",
    "type": "app",
    "identity_nonce": "n",
    "country": "US",
    "sub": "7335d417-61da-459d-899c-0a01c76a2f94",
    "iat": NOW,
    "nbf": NOW,
    "exp": NOW + 300,
}
SERVICE: dict[str, Any] = {
    "sub": "",
    "common_name": "e367826f93b8d71185e03fe518aff3b4.access",
    "email": None,
    "nbf": None,
}
CASES = {
    case["id"]: case
    for case in json.loads(Path(__file__).parents[1].joinpath("corpus", "attacks.json").read_text("utf-8"))
}


def assertion(key: SigningKey = KEYS["K1"], header: dict[str, Any] | None = None, **changes: Any) -> str:  # noqa: ANN401  (JSON)
    members = {"alg": key.algorithm, "kid": key.kid, "typ": "JWT", **(header or {})}
    kept = {name: value for name, value in members.items() if value is not None}
    message = signing_input(kept, {name: value for name, value in {**PERSON, **changes}.items() if value is not None})
    return compact(message, key.sign(message))


def verify(text: str, *applications: CloudflareAccess, now: float = NOW) -> Principal:
    return cloudflare_access.read(text, applications or (STAFF,), now).proved_by(SET)


def detail_of(text: str, *applications: CloudflareAccess, now: float = NOW) -> str:
    with pytest.raises(Malformed) as caught:
        verify(text, *applications, now=now)
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    return caught.value.detail


def test_a_person_is_known_by_sub() -> None:
    assert verify(assertion(custom={"groups": ["ml"]})) == Principal(
        caller="tunnel",
        kind=CredentialKind.CLOUDFLARE_ACCESS,
        id=PERSON["sub"],
        subject=PERSON["sub"],
        groups=frozenset({"ml"}),
        scopes=frozenset(),
        expires_at=NOW + 300,
    )


def test_a_service_token_is_known_by_its_common_name() -> None:
    """Also without ``nbf``, which the documented sample has not."""
    principal = verify(assertion(**SERVICE))
    assert principal.id == principal.subject == SERVICE["common_name"]


def test_an_empty_sub_is_nobody() -> None:
    """Corpus jwt-099: all service tokens of a team would be one person."""
    assert "common_name" in detail_of(assertion(sub=""))
    assert "common_name" in detail_of(assertion(sub="", common_name=""))
    assert "sub" in detail_of(assertion(sub=None, common_name="x.access"))


def test_a_person_is_not_made_a_service_by_a_common_name() -> None:
    """The name of a client certificate stands beside a person's sub."""
    assert verify(assertion(common_name="e367826f93b8d71185e03fe518aff3b4.access")).id == PERSON["sub"]


def test_an_address_is_no_identity_and_not_needed() -> None:
    assert verify(assertion(email=None)).id == PERSON["sub"]


@pytest.mark.parametrize("kind", ["org", "APP", None, 5, ["app"]])
def test_only_an_assertion_for_an_application_counts(kind: object) -> None:
    """Corpus jwt-101."""
    assert detail_of(assertion(type=kind)).startswith("type ")


@pytest.mark.parametrize(
    "iss",
    ["https://example.cloudflareaccess.com/", "https://evil.cloudflareaccess.com", "http://example", "", None, 5, [1]],
)
def test_the_team_is_compared_character_by_character(iss: object) -> None:
    assert detail_of(assertion(iss=iss)) == "iss is no Access team of this plane"


def test_a_team_of_the_government_cloud_has_its_own_host() -> None:
    fed = CloudflareAccess("tunnel", "example.fed", TAG)
    assert verify(assertion(iss="https://example.fed.cloudflareaccess.com"), fed).caller == "tunnel"
    assert "team" in detail_of(assertion(), fed)


@pytest.mark.parametrize("aud", [[OTHER_TAG], OTHER_TAG, TAG.upper(), TAG[:-1], f"{TAG}4", [], None, [TAG, 5], {}])
def test_the_tag_alone_tells_applications_of_a_team_apart(aud: object) -> None:
    assert detail_of(assertion(aud=aud)) == "aud names no application here"


def test_each_application_is_a_caller_of_its_own_and_two_at_once_are_none() -> None:
    assert verify(assertion(), STAFF, OTHER).caller == "tunnel"
    assert verify(assertion(aud=[OTHER_TAG, "6" * 64]), STAFF, OTHER).caller == "other"
    assert "two Access applications" in detail_of(assertion(aud=[TAG, OTHER_TAG]), STAFF, OTHER)


def test_an_assertion_is_signed_with_rs256_by_a_key_that_it_names() -> None:
    k1 = KEYS["K1"]
    message = signing_input({"alg": "HS256", "kid": "k1", "typ": "JWT"}, PERSON)
    assert "RS256" in detail_of(compact(message, hmac_sha256(k1.pem, message)))
    assert "RS256" in detail_of(compact(signing_input({"alg": "none", "typ": "JWT"}, PERSON), b""))
    assert "RS256" in detail_of(assertion(KEYS["E1"]))
    assert "RS256" in detail_of(assertion(header={"alg": "PS256"}))
    assert "names its key" in detail_of(assertion(header={"kid": None}))
    assert detail_of(assertion(KEYS["ATT"], {"kid": "k1"})) == "the signature does not fit"
    assert detail_of(assertion(KEYS["ATT"])) == "the issuer has no key of this kid for this alg"


@pytest.mark.parametrize("typ", [None, "at+jwt", "logout+jwt", "JWE"])
def test_an_assertion_has_typ_jwt(typ: str | None) -> None:
    assert "typ JWT" in detail_of(assertion(header={"typ": typ}))


@pytest.mark.parametrize(
    "changes, now, good",
    [
        ({}, NOW + 329, True),
        ({}, NOW + 330, False),
        ({"iat": NOW + 30, "nbf": NOW + 30}, NOW, True),
        ({"iat": NOW + 31}, NOW, False),
        ({"nbf": NOW + 31}, NOW, False),
        ({"iat": None}, NOW, False),
        ({"exp": None}, NOW, False),
        ({"exp": str(NOW + 300)}, NOW, False),
        ({"exp": NOW + 10, "iat": NOW + 10}, NOW, False),
        ({"exp": NOW + 30 * 86_400}, NOW, True),
    ],
)
def test_time_is_judged_with_half_a_minute_for_clocks(changes: dict[str, Any], now: float, *, good: bool) -> None:
    if good:
        assert verify(assertion(**changes), now=now).id
    else:
        assert detail_of(assertion(**changes), now=now)


def test_what_is_no_token_is_refused() -> None:
    for text in ("", "x", "a.b.c", assertion()[:-1], f"{assertion()}x", "ceo@corp.example"):
        assert detail_of(text)


@pytest.mark.parametrize("name", [f"jwt-{number:03}" for number in range(98, 105) if f"jwt-{number:03}" in CASES])
def test_each_assertion_of_the_corpus_ends_as_it_must(name: str) -> None:
    given = CASES[name]["input"]
    stage = Stage("", "", KEYS, NOW)
    claims = {
        claim: value.replace("{{TEAM}}", "example") if isinstance(value, str) else value
        for claim, value in given["claims"].items()
    }
    claims["aud"] = [tag.replace("{{AUDTAG}}", TAG) for tag in claims["aud"]]
    message = signing_input({**given["header"], "kid": "k1"}, stage.fill(claims))
    status = 200
    try:
        verify(compact(message, KEYS["K1"].sign(message)))
    except Malformed as refusal:
        status = ANSWERS[refusal.reason].status
    assert status in CASES[name]["expected"]["status"]
