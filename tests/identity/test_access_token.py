from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity import access_token
from gateway.identity.confirmation import Confirmation
from gateway.identity.issuer import AccessTokenIssuer
from gateway.identity.key_set import KeySet
from gateway.identity.principal import CredentialKind, Principal
from gateway.reasons import ANSWERS, Malformed, Reason
from tests.simulators.hostile_tokens import Stage, credentials
from tests.simulators.signing import SigningKey, compact, default_keys, ec, hmac_sha256, okp, signing_input

NOW = 1_796_000_000
KEYS = default_keys()
ISSUER = AccessTokenIssuer(
    caller="corp",
    issuer="https://login.example/realms/a",
    audience="vllm-gateway/partner",
    algorithms=frozenset({"RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"}),
    token_type="at+jwt",
    clock_skew_s=30,
    client_claim="client_id",
    longest_lifetime_s=86_400,
    groups_claim=("realm", "groups"),
)
OTHER = replace(ISSUER, caller="other", issuer="https://login.example/realms/b")
STAGE = Stage(ISSUER.issuer, ISSUER.audience, KEYS, NOW, other_issuer=OTHER.issuer)
CORPUS = json.loads(Path(__file__).parents[1].joinpath("corpus", "attacks.json").read_text("utf-8"))
# Those of stage "who" that are about access tokens alone; the others need scopes, Access or a list of revoked tokens.
LATER = {"jwt-059", "jwt-060", "jwt-092", "jwt-093", "jwt-097"}
CASES = [
    case for case in CORPUS if case["group"] == "jwt" and (case["stage"] in {"gate", "wall"} or case["id"] in LATER)
]
GOOD = {
    "iss": ISSUER.issuer,
    "sub": "user-1",
    "aud": ISSUER.audience,
    "client_id": "cli-1",
    "scope": "chat models",
    "iat": NOW,
    "exp": NOW + 300,
    "jti": "j-1",
}


def key_set(*keys: SigningKey) -> KeySet:
    return KeySet.parse(json.dumps({"keys": [key.public for key in keys]}).encode())


PUBLISHED = {"corp": key_set(*(KEYS[name] for name in ("K1", "E1", "KPS", "ED"))), "other": key_set(KEYS["B1"])}


def token(key: SigningKey = KEYS["K1"], header: dict[str, Any] | None = None, **changes: object) -> str:
    members = {"alg": key.algorithm, "kid": key.kid, "typ": "at+jwt", **(header or {})}
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    message = signing_input(members, claims)
    return compact(message, key.sign(message))


def with_claim(claim: str, value: object) -> str:
    changes: dict[str, Any] = {claim: value}
    return token(**changes)


def verify(text: str, issuer: AccessTokenIssuer = ISSUER, now: float = NOW) -> Principal:
    return access_token.verify(text, {issuer.issuer: issuer, OTHER.issuer: OTHER}, PUBLISHED, now)


def detail_of(text: str, issuer: AccessTokenIssuer = ISSUER, now: float = NOW) -> str:
    with pytest.raises(Malformed) as caught:
        verify(text, issuer, now)
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    return caught.value.detail


def status_of(text: str) -> int:
    try:
        verify(text)
    except Malformed as refusal:
        return ANSWERS[refusal.reason].status
    return 200


@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']} {case['title']}" for case in CASES])
def test_each_token_of_the_corpus_ends_as_the_corpus_says(case: dict[str, Any]) -> None:
    expected = case["expected"]["status"]
    for text in credentials(case, STAGE):
        assert status_of(text) in expected, text[:200]


def test_a_good_token_proves_who_calls() -> None:
    text = token(realm={"groups": ["ml", "research"]})
    assert verify(text) == Principal(
        caller="corp",
        kind=CredentialKind.ACCESS_TOKEN,
        id="cli-1",
        subject="user-1",
        groups=frozenset({"ml", "research"}),
        scopes=frozenset({"chat", "models"}),
        expires_at=NOW + 300,
    )


@pytest.mark.parametrize("name", ["K1", "E1", "KPS", "ED"])
def test_a_token_is_verified_with_each_kind_of_key(name: str) -> None:
    assert verify(token(KEYS[name])).id == "cli-1"


def test_a_presented_token_names_its_key_and_its_id_and_nothing_in_a_log() -> None:
    presented = access_token.read(token(), {ISSUER.issuer: ISSUER}, NOW)
    assert (presented.key_id, presented.token_id, presented.issuer) == ("k1", "j-1", ISSUER)
    assert token().partition(".")[0] not in repr(presented)


def test_a_token_id_that_is_no_text_is_none() -> None:
    plain = replace(ISSUER, token_type="JWT")
    presented = access_token.read(token(header={"typ": "JWT"}, jti=5), {ISSUER.issuer: plain}, NOW)
    assert presented.token_id is None


@pytest.mark.parametrize("name", ["K1", "E1", "KPS", "ED"])
def test_no_character_of_a_token_can_be_another(name: str) -> None:
    text = token(KEYS[name])
    for position, character in enumerate(text):
        for other in ("A", "B"):
            if other != character:
                assert detail_of(f"{text[:position]}{other}{text[position + 1 :]}")


@given(st.data())
def test_no_bit_of_a_token_can_be_another(data: st.DataObject) -> None:
    octets = bytearray(token(KEYS[data.draw(st.sampled_from(["K1", "E1", "KPS", "ED"]))]).encode())
    octets[data.draw(st.integers(0, len(octets) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert detail_of(octets.decode("latin-1"))


def test_no_part_of_a_token_can_be_left_out_or_repeated() -> None:
    text = token()
    for cut in range(len(text)):
        assert detail_of(text[:cut])
    assert detail_of(text + text[-1])


@pytest.mark.parametrize("claimed", ["RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519", "HS256", "none", "RS512"])
@pytest.mark.parametrize("name", ["K1", "E1", "KPS", "ED"])
def test_a_token_verifies_under_the_algorithm_that_made_it_and_no_other(name: str, claimed: str) -> None:
    """RFC 8725 §2.1, §3.1: neither the header nor the key alone decides."""
    key = KEYS[name]
    message = signing_input({"alg": claimed, "kid": key.kid, "typ": "at+jwt"}, GOOD)
    text = compact(message, key.sign(message))
    if claimed == key.algorithm:
        assert verify(text).id == "cli-1"
    else:
        assert detail_of(text)


def test_a_key_that_fits_two_schemes_verifies_each_under_its_name_alone() -> None:
    """A JWK without ``alg`` is good for RS256 and PS256 (RFC 8725 §3.5 would rather have two keys)."""
    key = KEYS["K1"]
    message = signing_input({"alg": "PS256", "kid": "k1", "typ": "at+jwt"}, GOOD)
    assert verify(compact(message, key.sign(message, "PS256"))).id == "cli-1"
    assert detail_of(compact(message, key.sign(message, "RS256"))) == "the signature does not fit"


def test_eddsa_and_ed25519_each_match_their_own_text_only() -> None:
    """RFC 9864: two names of one scheme; the issuer's list and its key decide which one is in use."""
    key = SigningKey("new", "Ed25519", okp("new"), {"alg": "Ed25519"})
    keys = {"corp": key_set(key)}

    def outcome(alg: str, issuer: AccessTokenIssuer) -> bool:
        message = signing_input({"alg": alg, "kid": "new", "typ": "at+jwt"}, GOOD)
        try:
            access_token.verify(compact(message, key.sign(message, alg)), {ISSUER.issuer: issuer}, keys, NOW)
        except Malformed:
            return False
        return True

    only_old = replace(ISSUER, algorithms=frozenset({"EdDSA"}))
    only_new = replace(ISSUER, algorithms=frozenset({"Ed25519"}))
    assert [outcome(alg, ISSUER) for alg in ("EdDSA", "Ed25519")] == [False, True]
    assert [outcome(alg, only_new) for alg in ("EdDSA", "Ed25519")] == [False, True]
    assert [outcome(alg, only_old) for alg in ("EdDSA", "Ed25519")] == [False, False]


def test_an_algorithm_that_the_policy_does_not_list_is_refused_whatever_the_keys() -> None:
    assert detail_of(token(KEYS["E1"]), replace(ISSUER, algorithms=frozenset({"RS256"}))).startswith("alg ")


def test_every_public_form_of_a_key_fails_as_an_hmac_secret() -> None:
    for key in (KEYS["K1"], KEYS["E1"], KEYS["ED"]):
        for secret in (key.pem, key.pem.strip(), key.der, json.dumps(key.public).encode(), b"", bytes(32)):
            message = signing_input({"alg": "HS256", "kid": key.kid, "typ": "at+jwt"}, GOOD)
            assert detail_of(compact(message, hmac_sha256(secret, message)))


@pytest.mark.parametrize("r, s", [(0, 0), (0, 1), (1, 0), (2**256 - 1, 2**256 - 1), (1, 1)])
def test_numbers_that_are_no_ecdsa_signature_are_refused(r: int, s: int) -> None:
    message = signing_input({"alg": "ES256", "kid": "e1", "typ": "at+jwt"}, GOOD)
    assert detail_of(compact(message, r.to_bytes(32, "big") + s.to_bytes(32, "big"))) == "the signature does not fit"


def test_a_key_of_another_curve_does_not_verify() -> None:
    key = SigningKey("e1", "ES384", ec("p384", "P-384"))
    assert detail_of(token(key)) == "the issuer has no key of this kid for this alg"


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "at+JWT", "application/at+jwt", "Application/AT+jwt"])
def test_the_type_is_a_media_type_whose_case_does_not_matter(typ: str) -> None:
    """RFC 7515 §4.1.9, RFC 2045 §5.1; RFC 9068 itself writes "at+JWT" in its example."""
    assert verify(token(header={"typ": typ})).id == "cli-1"


@pytest.mark.parametrize(
    "typ", ["", "JWT", "jwt", "at+jwt ", "at/jwt", "text/at+jwt", "application/application/at+jwt", "at"]
)
def test_any_other_type_is_refused(typ: str) -> None:
    assert detail_of(token(header={"typ": typ})) == "typ is not the issuer's token type"


def test_an_issuer_of_plain_jwt_is_served_by_its_own_profile() -> None:
    """Entra writes neither at+jwt nor jti; then at+jwt is refused, since each issuer has one type."""
    plain = replace(ISSUER, token_type="JWT", client_claim="azp")
    assert verify(token(header={"typ": "JWT"}, azp="cli-9", client_id=None, jti=None), plain).id == "cli-9"
    assert detail_of(token(azp="cli-9"), plain).startswith("typ ")


def test_an_issuer_that_writes_no_typ_is_served_by_a_profile_that_demands_none() -> None:
    """Okta and Cognito; where at+jwt or JWT is the type, none is still refused."""
    silent = replace(ISSUER, token_type="absent")
    message = signing_input({"alg": "RS256", "kid": "k1"}, {**GOOD, "token_use": "access"})
    assert verify(compact(message, KEYS["K1"].sign(message)), silent).id == "cli-1"
    for typ in ("JWT", "at+jwt", "absent", ""):
        assert detail_of(token(header={"typ": typ}), silent) == "typ is not the issuer's token type"
    bare = compact(message, KEYS["K1"].sign(message))
    for other in ("at+jwt", "JWT"):
        assert detail_of(bare, replace(ISSUER, token_type=other)) == "typ is not the issuer's token type"


def test_the_client_claim_of_the_policy_is_the_one_that_counts() -> None:
    """Keycloak writes azp, and no client_id, under at+jwt too."""
    assert verify(token(azp="cli-9", client_id=None), replace(ISSUER, client_claim="azp")).id == "cli-9"
    assert detail_of(token(), replace(ISSUER, client_claim="azp")).startswith("azp ")


@pytest.mark.parametrize("claim", ["iss", "exp", "aud", "sub", "client_id", "iat", "jti"])
def test_each_claim_that_the_profile_requires_must_be_there(claim: str) -> None:
    """RFC 9068 §2.2."""
    assert claim in detail_of(with_claim(claim, None))


@pytest.mark.parametrize("iss", ["https://login.example/realms/a/", "https://LOGIN.example/realms/a", "", 5, ["x"], {}])
def test_the_issuer_is_compared_character_by_character(iss: object) -> None:
    assert detail_of(token(iss=iss)) == "iss is no issuer of this plane"


def test_a_token_is_verified_with_the_keys_of_its_own_issuer_only() -> None:
    assert detail_of(token(iss=OTHER.issuer)) == "the signature does not fit"
    assert verify(token(KEYS["B1"], iss=OTHER.issuer)).caller == "other"
    assert detail_of(token(KEYS["B1"])) == "the signature does not fit"


@pytest.mark.parametrize(
    "changes, now, good",
    [
        ({}, NOW + 329.9, True),
        ({}, NOW + 330, False),
        ({"iat": NOW + 30}, NOW, True),
        ({"iat": NOW + 31}, NOW, False),
        ({"nbf": NOW + 30}, NOW, True),
        ({"nbf": NOW + 31}, NOW, False),
        ({"nbf": NOW - 5}, NOW, True),
        ({"nbf": "0"}, NOW, False),
        ({"exp": NOW + 86_400}, NOW, True),
        ({"exp": NOW + 86_401}, NOW, False),
        ({"exp": NOW, "iat": NOW}, NOW, False),
        ({"exp": NOW - 1, "iat": NOW}, NOW, False),
        ({"exp": NOW + 0.5}, NOW, True),
        ({"iat": True}, NOW, False),
        ({"iat": 0}, NOW, False),
    ],
)
def test_time_is_judged_with_the_clock_skew_of_the_policy(changes: dict[str, Any], now: float, *, good: bool) -> None:
    if good:
        assert verify(token(**changes), now=now).id == "cli-1"
    else:
        assert detail_of(token(**changes), now=now)


@pytest.mark.parametrize("mark", ["nonce", "at_hash", "c_hash", "s_hash", "events", "htm", "htu", "ath"])
def test_what_bears_the_mark_of_another_kind_of_token_is_refused(mark: str) -> None:
    assert "marks an ID token" in detail_of(with_claim(mark, "x"))


@pytest.mark.parametrize("claim, value", [("typ", "ID"), ("typ", "Refresh"), ("typ", 5), ("token_use", "id")])
def test_what_says_that_it_is_no_access_token_is_refused(claim: str, value: object) -> None:
    assert claim in detail_of(with_claim(claim, value))


@pytest.mark.parametrize("claim, value", [("typ", "Bearer"), ("token_use", "access")])
def test_what_says_that_it_is_an_access_token_passes(claim: str, value: str) -> None:
    assert verify(with_claim(claim, value)).id == "cli-1"


@pytest.mark.parametrize("cnf", [{"jkt": "x"}, {"x5t#S256": "x"}, {}, "x", False])
def test_a_bound_token_is_no_bearer_token(cnf: object) -> None:
    """RFC 9449 §7.2, RFC 8705 §3."""
    assert "cnf" in detail_of(token(cnf=cnf))


def test_where_the_policy_asks_for_proofs_only_a_bound_token_is_one() -> None:
    bound = replace(ISSUER, sender="dpop")
    assert verify(token(cnf={"jkt": "thumbprint"}), bound).bound_to == Confirmation("dpop", "thumbprint")
    assert "cnf.jkt" in detail_of(token(), bound)
    assert verify(token()).bound_to is None


def test_where_the_policy_asks_for_certificates_only_a_token_for_one_is_good() -> None:
    """RFC 8705 §3."""
    bound = replace(ISSUER, sender="mtls")
    held = verify(token(cnf={"x5t#S256": "thumbprint"}), bound).bound_to
    assert held == Confirmation("mtls", "thumbprint")
    for cnf in ({"jkt": "x"}, {"x5t#S256": "x", "jkt": "x"}, {"x5t": "x"}):
        assert "cnf.x5t#S256" in detail_of(token(cnf=cnf), bound)
    assert "cnf.x5t#S256" in detail_of(token(), bound)


def test_a_missing_kid_is_forgiven_only_when_the_issuer_has_one_key() -> None:
    message = signing_input({"alg": "RS256", "typ": "at+jwt"}, GOOD)
    text = compact(message, KEYS["K1"].sign(message))
    assert detail_of(text) == "the issuer has no key of this kid for this alg"
    assert access_token.verify(text, {ISSUER.issuer: ISSUER}, {"corp": key_set(KEYS["K1"])}, NOW).id == "cli-1"


def test_a_failed_token_is_refused_without_any_of_its_values() -> None:
    for text in (
        token(iss="https://evil.example"),
        token(aud="evil"),
        token(sub="evil\n"),
        token(header={"typ": "evil"}),
    ):
        assert "evil" not in detail_of(text)


def test_a_token_for_somebody_else_costs_no_cryptography() -> None:
    """Cheap before dear: ``read`` refuses it before any key is looked up."""
    with pytest.raises(Malformed):
        access_token.read(token(aud="another"), {ISSUER.issuer: ISSUER}, NOW)


def test_an_encrypted_token_with_a_costly_header_is_refused_at_once() -> None:
    """Corpus jwt-041: no key is derived, whatever p2c says."""
    case = next(case for case in CASES if case["id"] == "jwt-041")
    begun = time.process_time()
    for text in credentials(case, STAGE):
        detail_of(text)
    assert time.process_time() - begun < 0.05
