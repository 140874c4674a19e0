from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.key_set import KeySet, single_key
from gateway.reasons import Reason, Unavailable
from tests.simulators.signing import SigningKey, default_keys, ec, part, rsa

KEYS = default_keys()
K1, E1, KPS, ED = (KEYS[name].public for name in ("K1", "E1", "KPS", "ED"))

RFC_7515_MODULUS = (
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yR"
    "T-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXB"
    "dQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9ia"
    "GNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
)
RFC_7515_RSA_SIGNATURE = (
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9"
    "uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB"
    "_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rq"
    "Vt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
)
RFC_7515_CLAIMS = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
# RFC 7515 A.2 (RS256), A.3 (ES256) and RFC 8037 A.4 (Ed25519): the key, the signing input, the signature.
VECTORS = {
    "RS256": (
        {"kty": "RSA", "n": RFC_7515_MODULUS, "e": "AQAB"},
        f"eyJhbGciOiJSUzI1NiJ9.{RFC_7515_CLAIMS}",
        RFC_7515_RSA_SIGNATURE,
    ),
    "ES256": (
        {
            "kty": "EC",
            "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        },
        f"eyJhbGciOiJFUzI1NiJ9.{RFC_7515_CLAIMS}",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    ),
    "EdDSA": (
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    ),
}


def document(*keys: object) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def without(key: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in key.items() if name not in names}


def octets(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("alg", VECTORS)
def test_the_examples_of_the_rfcs_verify_and_a_changed_one_does_not(alg: str) -> None:
    jwk, message, signature = VECTORS[alg]
    key = KeySet.parse(document({**jwk, "kid": "rfc"})).find("rfc", alg)
    assert key is not None
    assert key.verifies(message.encode(), octets(signature))
    assert not key.verifies(message.encode() + b"A", octets(signature))


def test_a_key_verifies_only_under_its_own_kid_and_an_algorithm_that_fits() -> None:
    keys = KeySet.parse(document(K1, E1, KPS, ED))
    found = {
        (kid, alg)
        for kid in ("k1", "e1", "ps1", "ed1", "k2")
        for alg in ("RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519", "HS256", "none", "rs256")
        if keys.find(kid, alg) is not None
    }
    assert found == {("k1", "RS256"), ("k1", "PS256"), ("e1", "ES256"), ("ps1", "PS256"), ("ed1", "EdDSA")}


def test_a_key_without_alg_fits_every_algorithm_of_its_kind_and_one_with_alg_that_one_alone() -> None:
    """RFC 7517 §4.4; EdDSA and Ed25519 are two names, and a key that says one means one."""
    p384 = SigningKey("e2", "ES384", ec("p384", "P-384")).public
    keys = KeySet.parse(document({**K1, "alg": "RS256"}, without(ED, "alg"), p384))
    assert set(keys.keys) == {("k1", "RS256"), ("ed1", "EdDSA"), ("ed1", "Ed25519"), ("e2", "ES384")}


@pytest.mark.parametrize(
    "bad",
    [
        "text",
        5,
        None,
        {},
        {"kty": "RSA"},
        {"kty": ["RSA"], "crv": {}},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "o1"},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {**K1, "crv": "P-256"},
        {**K1, "use": "enc"},
        {**K1, "use": None},
        {**K1, "key_ops": ["encrypt"]},
        {**K1, "key_ops": "verify"},
        {**K1, "alg": "RSA-OAEP"},
        {**K1, "alg": "HS256"},
        {**K1, "alg": None},
        {**K1, "alg": ["RS256"]},
        {**K1, "kid": 5},
        {**K1, "kid": ""},
        {**K1, "kid": "A" * 257},
        {**K1, "d": "AA"},
        {**K1, "k": "AA"},
        {**K1, "n": 5},
        {**K1, "e": "AQ"},
        {**K1, "e": "Aw"},
        {**K1, "e": "AQAB="},
        {**K1, "e": "AQAC"},
        {**K1, "n": "\u00e9"},
        {**K1, "n": part((2**1023 + 1).to_bytes(128, "big"))},
        {**K1, "n": part((2**8200 + 1).to_bytes(1026, "big"))},
        {"kty": "RSA", "e": "AQAB", "kid": "n is missing"},
    ],
    ids=lambda bad: json.dumps(bad)[:40],
)
def test_a_key_that_is_not_fit_is_left_out_and_named_and_spoils_no_other(bad: object) -> None:
    """RFC 7517 §5; corpus jwks-013, -014, -016, -017."""
    keys = KeySet.parse(document(bad, E1))
    assert set(keys.keys) == {("e1", "ES256")}
    assert len(keys.refused) == 1
    assert keys.refused[0].startswith("keys[0] ")


def test_a_published_private_key_is_named_without_its_value() -> None:
    pair = rsa("leaked").as_dict(private=True)
    keys = KeySet.parse(document({**pair, "kid": "leaked"}, E1))
    assert keys.refused == ("keys[0] is a private key that the issuer has published: it must be replaced",)
    assert str(pair["d"]) not in repr(keys)


def test_one_kid_may_stand_for_keys_of_two_kinds() -> None:
    """Corpus jwks-015: the algorithm tells them apart, and no other is tried."""
    keys = KeySet.parse(document({**K1, "alg": "RS256"}, {**E1, "kid": "k1"}))
    assert set(keys.keys) == {("k1", "RS256"), ("k1", "ES256")}


def test_two_keys_of_one_kind_under_one_kid_are_both_left_out() -> None:
    other = SigningKey("k1", "RS256", rsa("b"), {"alg": "RS256"}).public
    keys = KeySet.parse(document({**K1, "alg": "RS256"}, other, E1))
    assert set(keys.keys) == {("e1", "ES256")}
    assert keys.refused == ("two keys share one kid for RS256",)


def test_without_a_kid_the_only_key_is_found_and_one_of_several_is_not() -> None:
    assert KeySet.parse(document(K1)).find(None, "RS256") is not None
    assert KeySet.parse(document(without(K1, "kid"))).find(None, "RS256") is not None
    assert KeySet.parse(document(K1)).find(None, "ES256") is None
    assert KeySet.parse(document(K1, E1)).find(None, "RS256") is None


def test_a_kid_is_never_matched_to_a_key_without_one() -> None:
    assert KeySet.parse(document(without(K1, "kid"))).find("k1", "RS256") is None


def test_a_newer_set_is_worth_a_look_only_for_a_kid_that_is_not_known() -> None:
    keys = KeySet.parse(document(K1, E1))
    assert [keys.knows(kid) for kid in ("k1", "e1", None, "k2")] == [True, True, True, False]


def test_sets_are_equal_when_their_keys_are_in_whatever_order_and_wording() -> None:
    one = KeySet.parse(document(K1, E1))
    assert one == KeySet.parse(json.dumps({"x": 1, "keys": [E1, {**K1, "x5t": "a"}, "bad"]}).encode())
    assert one != KeySet.parse(document(K1))
    assert one != KeySet.parse(document(SigningKey("k1", "RS256", rsa("b")).public, E1))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        b'{"keys": null}',
        b'{"keys": [], "keys": []}',
        b"\xef\xbb\xbf" + document(K1),
        document(K1) + b"x",
        document(*[K1] * 65),
        document({"kty": "oct", "k": "AA"}),
        document(K1) + b" " * 300_000,
    ],
    ids=lambda data: str(data[:20]),
)
def test_a_document_without_a_usable_key_is_no_key_set(data: bytes) -> None:
    """So a broken answer cannot replace a good set."""
    with pytest.raises(Unavailable) as caught:
        KeySet.parse(data)
    assert caught.value.reason is Reason.KEYS_UNAVAILABLE


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=5)
    | st.sampled_from(["AQAB", "RSA", "EC", "P-256"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
MEMBERS = st.sampled_from([*K1, *E1, *ED, "key_ops", "d", "x5c"])


@given(st.sampled_from([K1, E1, KPS, ED]), st.dictionaries(MEMBERS, JSON, max_size=3))
def test_no_key_of_any_shape_breaks_the_set(key: dict[str, Any], changes: dict[str, Any]) -> None:
    keys = KeySet.parse(document({**key, **changes}, {**E1, "kid": "the good one"}))
    assert ("the good one", "ES256") in keys.keys


@given(st.binary(max_size=64), st.sampled_from(["k1", "e1", "ps1", "ed1"]))
def test_no_signature_of_any_length_breaks_a_key(signature: bytes, kid: str) -> None:
    keys = KeySet.parse(document(K1, E1, KPS, ED))
    for (known, _), key in keys.keys.items():
        assert known != kid or not key.verifies(b"message", signature)


def test_a_key_that_stands_alone_is_read_for_one_algorithm() -> None:
    key = KEYS["E1"]
    found = single_key(key.public, "ES256")
    assert found is not None
    assert found.verifies(b"message", key.sign(b"message"))


@pytest.mark.parametrize("member", [None, "x", {}, {**E1, "d": "x"}, {**E1, "use": "enc"}, {"kty": "oct", "k": "eA"}])
def test_a_key_that_is_not_fit_is_none(member: object) -> None:
    assert single_key(member, "ES256") is None


def test_a_key_is_none_for_an_algorithm_of_another() -> None:
    assert single_key(E1, "RS256") is None
    assert single_key(E1, "") is None


def test_a_key_has_the_thumbprint_of_the_standard() -> None:
    """RFC 8037 A.3."""
    member, _, _ = VECTORS["EdDSA"]
    ed = single_key(member, "EdDSA")
    assert ed is not None
    assert ed.thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
