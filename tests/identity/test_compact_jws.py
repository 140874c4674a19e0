from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity import compact_jws
from gateway.reasons import Malformed, Reason
from tests.simulators.signing import part

HEADER = {"alg": "RS256", "kid": "k1", "typ": "at+jwt"}


def token(header: object = HEADER, claims: object = None, signature: bytes = b"signature") -> str:
    parts = (raw if isinstance(raw, bytes) else json.dumps(raw).encode() for raw in (header, claims or {"iss": "us"}))
    return ".".join([*map(part, parts), part(signature)])


def detail_of(text: str) -> str:
    with pytest.raises(Malformed) as caught:
        compact_jws.parse(text)
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    return caught.value.detail


def outcome(text: str) -> Reason | None:
    try:
        compact_jws.parse(text)
    except Malformed as refusal:
        return refusal.reason
    return None


def test_a_token_is_taken_apart() -> None:
    jws = compact_jws.parse(token())
    assert jws.header == ("RS256", "k1", "at+jwt")
    assert jws.claims == {"iss": "us"}
    assert jws.signing_input.decode() == token().rpartition(".")[0]
    assert jws.signature == b"signature"


def test_a_token_shows_nothing_of_itself_in_a_log() -> None:
    assert repr(compact_jws.parse(token())) == "CompactJws(…)"


def test_key_id_and_type_may_be_absent_and_certificate_thumbprints_are_ignored() -> None:
    assert compact_jws.parse(token({"alg": "ES256", "x5t": "a", "x5t#S256": "b"})).header == ("ES256", None, None)


@pytest.mark.parametrize(
    "name, value",
    [
        ("jwk", {"kty": "RSA"}),
        ("jku", "https://attacker.example/keys"),
        ("x5u", "https://attacker.example/c.pem"),
        ("x5c", ["MII"]),
        ("crit", []),
        ("crit", ["exp"]),
        ("crit", "exp"),
        ("b64", False),
        ("zip", "DEF"),
        ("cty", "JWT"),
        ("enc", "A128GCM"),
        ("p2c", 2147483647),
        ("nonce", "n"),
        ("ALG", "none"),
    ],
)
def test_a_member_of_the_header_that_is_not_known_is_refused(name: str, value: object) -> None:
    assert "member other than" in detail_of(token({**HEADER, name: value}))


@pytest.mark.parametrize(
    "changes", [{"alg": 5}, {"alg": None}, {"kid": 1}, {"kid": None}, {"typ": ["at+jwt"]}, {"x5t": {}}]
)
def test_members_of_the_header_are_texts(changes: dict[str, Any]) -> None:
    assert "not a string" in detail_of(token({**HEADER, **changes}))


def test_there_is_no_default_algorithm() -> None:
    assert "no alg" in detail_of(token({"kid": "k1"}))


@pytest.mark.parametrize("kid", ["", "A" * 257])
def test_a_key_id_is_short_and_not_empty(kid: str) -> None:
    assert "kid" in detail_of(token({**HEADER, "kid": kid}))


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"none","alg":"RS256"}',
        b'\xef\xbb\xbf{"alg":"RS256"}',
        b'{"alg":"RS256"} ',
        b'{"alg":"RS256"}{}',
        b'["RS256"]',
        b"",
        b'{"alg":"RS\xff"}',
        '{"alg":"RS256"}'.encode("utf-16"),
    ],
)
def test_the_header_is_one_strict_json_object(header: bytes) -> None:
    """A blank after the object is good JSON, and the one row that passes."""
    if header.endswith(b" "):
        assert compact_jws.parse(token(header)).header.algorithm == "RS256"
    else:
        assert detail_of(token(header)) == "the header is not one strict JSON object"


@pytest.mark.parametrize("claims", [b"[1]", b'"x"', b"null", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":1e999}', b"{"])
def test_the_claims_are_one_strict_json_object(claims: bytes) -> None:
    assert detail_of(token(claims=claims)) == "the payload is not one strict JSON object"


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.b.c.d", "a.b.c.d.e", "....", '{"payload":"e30","signatures":[]}'])
def test_only_three_parts_are_a_token(text: str) -> None:
    assert "three parts" in detail_of(text)


def test_the_parts_have_one_spelling() -> None:
    good = token()
    for bad in (f"{good}=", good.replace(".", "=.", 1), f"{good[:-1]}+", f"{good[:-1]} ", f"{good[:-1]}\n"):
        assert "canonical base64url" in detail_of(bad)


def test_a_long_token_is_refused_before_it_is_decoded() -> None:
    assert "longer than" in detail_of("!" * 16_385)


def test_a_token_is_ascii() -> None:
    assert "ASCII" in detail_of(token().replace("e", "\u0435"))


@given(st.text(st.characters(codec="latin-1"), max_size=200) | st.from_regex(r"[\w.=+/-]{0,99}\.[\w=-]*\.[\w=-]*"))
def test_any_text_is_a_token_or_is_refused(text: str) -> None:
    assert outcome(text) in {None, Reason.CREDENTIAL_INVALID}


def test_a_token_has_the_form_of_one_even_when_it_is_bad() -> None:
    """A token that fails is never offered to introspection, so form is judged leniently."""
    for text in (token(), f"{token()}==", token(b'{"alg":"none","alg":"RS256"}'), token({"alg": 5}), token() + " "):
        assert compact_jws.is_signed(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "opaque-abc",
        "a.b",
        "..",
        "a.b.c",
        "....",
        "vgw_abc",
        f"{part(b'{}')}.a.b",
        f"{part(b'[1]')}.a.b",
        f"{part(b'5')}.a.b",
    ],
)
def test_other_texts_have_not_the_form_of_a_token(text: str) -> None:
    assert not compact_jws.is_signed(text)


def test_five_parts_are_not_the_form_of_a_signed_token() -> None:
    assert not compact_jws.is_signed(f"{token()}.a.b")
