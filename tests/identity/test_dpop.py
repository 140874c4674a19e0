from __future__ import annotations

from typing import Any

import pytest

from gateway.identity.dpop import (
    MOST_REMEMBERED,
    NONCE_LIFE_S,
    Asked,
    Nonces,
    NonceWanted,
    Proof,
    Proofs,
    SeenProofs,
    read,
)
from gateway.reasons import Malformed, Reason
from tests.simulators.prover import Prover
from tests.simulators.signing import SigningKey, compact, default_keys, hmac_sha256, okp, signing_input

NOW = 1_796_000_000.0
NONCES = Nonces(b"secret")
PROVER = Prover()
TOKEN = "a.token.here"
URL = "https://llm.example.com/v1/models"
ASKED = Asked("GET", "llm.example.com", "/v1/models")


def proof(**changes: Any) -> str:  # noqa: ANN401  (JSON)
    given = {"token": TOKEN, "method": "GET", "url": URL, "nonce": NONCES.current(NOW), "iat": NOW, "jti": "p-1"}
    return PROVER.proof(**{**given, **changes})


def holds(text: str, asked: Asked = ASKED, now: float = NOW) -> Proof:
    return read(text, TOKEN, asked, now, NONCES)


def detail_of(text: str, asked: Asked = ASKED, now: float = NOW) -> str:
    with pytest.raises(Malformed) as caught:
        holds(text, asked, now)
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    return caught.value.detail


def test_a_proof_that_holds_tells_its_key() -> None:
    assert holds(proof()) == Proof(PROVER.thumbprint, "p-1")


@pytest.mark.parametrize("name", ["K1", "E1", "ED"])
def test_each_kind_of_key_can_prove(name: str) -> None:
    key = default_keys()[name]
    prover = Prover(key=SigningKey("x", key.algorithm, key.pair))
    text = prover.proof(TOKEN, "GET", URL, NONCES.current(NOW), iat=NOW)
    assert holds(text).key == prover.thumbprint


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "JWT"},
        {"typ": None},
        {"typ": 5},
        {"jwk": None},
        {"alg": None},
        {"kid": "k"},
        {"crit": ["x"]},
        {"jku": "https://evil.example"},
    ],
)
def test_a_proof_has_a_header_of_its_own_kind(header: dict[str, Any]) -> None:
    assert "typ dpop+jwt" in detail_of(proof(header=header))


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": {**PROVER.jwk, "d": "x"}},
        {"jwk": {"kty": "oct", "k": "eA"}},
        {"jwk": Prover("another").jwk},
        {"jwk": "x"},
        {"jwk": {}},
        {"alg": "ES384"},
        {"alg": "none"},
        {"alg": 5},
    ],
)
def test_a_proof_is_signed_with_the_public_key_that_it_bears(header: dict[str, Any]) -> None:
    assert "public key that it bears" in detail_of(proof(header=header))


def test_a_proof_is_never_signed_with_a_shared_secret() -> None:
    header = {"typ": "dpop+jwt", "alg": "HS256", "jwk": {"kty": "oct", "k": "eA"}}
    message = signing_input(header, {})
    assert "public key that it bears" in detail_of(compact(message, hmac_sha256(b"x", message)))


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "POST"},
        {"htm": "get"},
        {"htm": None},
        {"url": "https://llm.example.com/v1/chat/completions"},
        {"url": "https://evil.example/v1/models"},
        {"url": "http://llm.example.com/v1/models"},
        {"url": "https://llm.example.com:8443/v1/models"},
        {"url": "https://a@llm.example.com/v1/models"},
        {"url": "/v1/models"},
        {"url": "https://[x/v1/models"},
        {"url": "https://llm.example.com:x/v1/models"},
        {"htu": 5},
        {"htu": None},
    ],
)
def test_a_proof_is_for_one_request(changes: dict[str, Any]) -> None:
    assert detail_of(proof(**changes)) == "the proof is for another request"


@pytest.mark.parametrize(
    "url, host",
    [
        ("https://llm.example.com/v1/models?a=b#c", "llm.example.com"),
        ("https://LLM.example.com:443/v1/models", "llm.example.com"),
        ("https://llm.example.com/v1/models", "LLM.example.com:443"),
        ("https://llm.example.com:8443/v1/models", "llm.example.com:8443"),
        ("http://127.0.0.1:8080/v1/models", "127.0.0.1:8080"),
        ("http://localhost/v1/models", "localhost:80"),
        ("http://[::1]:8080/v1/models", "[::1]:8080"),
    ],
)
def test_an_address_is_compared_as_an_address(url: str, host: str) -> None:
    assert holds(proof(url=url), Asked("GET", host, "/v1/models")).id == "p-1"


@pytest.mark.parametrize("changes", [{"token": "another"}, {"ath": "x"}, {"ath": None}, {"ath": 5}])
def test_a_proof_is_for_one_token(changes: dict[str, Any]) -> None:
    assert detail_of(proof(**changes)) == "the proof is for another token"


@pytest.mark.parametrize("iat, good", [(NOW - 300, True), (NOW + 300, True), (NOW - 301, False), (NOW + 301, False)])
def test_a_clock_may_differ_by_five_minutes(iat: float, *, good: bool) -> None:
    if good:
        assert holds(proof(iat=iat)).id == "p-1"
    else:
        assert "too long ago" in detail_of(proof(iat=iat))


@pytest.mark.parametrize("changes", [{"iat": "now"}, {"iat": None}, {"jti": None}, {"jti": ""}, {"jti": "a\nb"}])
def test_time_and_name_of_a_proof_are_well_formed(changes: dict[str, Any]) -> None:
    assert detail_of(proof(**changes))


@pytest.mark.parametrize("nonce", [None, "", "x", 5, Nonces(b"other").current(NOW)])
def test_a_proof_without_our_nonce_is_asked_for_again(nonce: object) -> None:
    with pytest.raises(NonceWanted):
        holds(proof(nonce=nonce))


def test_a_nonce_is_good_for_its_stretch_and_the_next() -> None:
    begun = NOW // NONCE_LIFE_S * NONCE_LIFE_S
    nonce = NONCES.current(begun)
    assert NONCES.holds(nonce, begun + 2 * NONCE_LIFE_S - 0.1)
    assert not NONCES.holds(nonce, begun + 2 * NONCE_LIFE_S)
    assert not NONCES.holds(nonce, begun - 0.1)


def test_a_proof_is_used_once() -> None:
    seen = SeenProofs()
    seen.use(Proof("key", "p-1"), NOW)
    with pytest.raises(Malformed, match="used before"):
        seen.use(Proof("key", "p-1"), NOW + 2 * NONCE_LIFE_S - 0.1)
    seen.use(Proof("key", "p-2"), NOW)
    seen.use(Proof("other", "p-1"), NOW)
    seen.use(Proof("key", "p-1"), NOW + 2 * NONCE_LIFE_S)


def test_a_process_has_nonces_and_remembers_proofs_together() -> None:
    proofs = Proofs(b"secret")
    assert proofs.nonces.holds(proofs.nonces.current(NOW), NOW)
    proofs.seen.use(Proof("key", "a"), NOW)
    with pytest.raises(Malformed, match="used before"):
        proofs.seen.use(Proof("key", "a"), NOW)


def test_what_does_not_fit_into_memory_is_refused_and_not_forgotten() -> None:
    """To drop the oldest would let it be used again."""
    seen = SeenProofs(most=2)
    seen.use(Proof("key", "a"), NOW)
    seen.use(Proof("key", "b"), NOW)
    with pytest.raises(Malformed, match="more proofs"):
        seen.use(Proof("key", "c"), NOW)
    seen.use(Proof("key", "c"), NOW + 2 * NONCE_LIFE_S)
    assert MOST_REMEMBERED > 10_000


def test_what_is_no_token_is_no_proof() -> None:
    for text in ("", "x", "a.b", "a.b.c", proof()[:-2]):
        assert detail_of(text)
    key = SigningKey("x", "EdDSA", okp("x"))
    message = signing_input(b"[]", {})
    assert detail_of(compact(message, key.sign(message)))
