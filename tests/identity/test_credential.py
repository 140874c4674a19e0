from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity import api_key
from gateway.identity.credential import Credential, CredentialReader
from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.identity.principal import CredentialKind
from gateway.reasons import Malformed, Reason
from tests.simulators.signing import compact, signing_input

KEY = api_key.new_key(bytes(range(24)))
OTHER_KEY = api_key.new_key(bytes(24))
TOKEN = compact(signing_input({"alg": "RS256"}, {"iss": "us"}), b"signature")

CORP = AccessTokenIssuer("corp", "https://a", "us", frozenset({"RS256"}), "at+jwt", 30, "azp", 3600)
BOTH = frozenset({"authorization", "x-api-key"})
MISSING, AMBIGUOUS, INVALID = Reason.CREDENTIAL_MISSING, Reason.CREDENTIAL_AMBIGUOUS, Reason.CREDENTIAL_INVALID


@dataclass
class Fields:
    authorization: bytes | None = None
    x_api_key: bytes | None = None
    access_assertion: bytes | None = None
    dpop: bytes | None = None
    credential_repeated: bool = False


def known(*texts: str, caller: str = "keys") -> dict[str, str]:
    return {api_key.sha256_of(text): caller for text in texts}


PLAIN = CredentialReader({"corp": CORP, "keys": ApiKeys("keys")}, known(KEY, "ak_live_abc", "ak_live_abcd"))
WITH_KEY_FIELD = CredentialReader({"corp": CORP, "keys": ApiKeys("keys", BOTH)}, known(KEY, "ak_live_abc"))
WITH_INTROSPECTION = CredentialReader(
    {"keys": ApiKeys("keys"), "asked": IntrospectionIssuer("asked", "https://a", "us")}, known(KEY, "ak_live_abc")
)
BEHIND_ACCESS = CredentialReader({"tunnel": CloudflareAccess("tunnel", "t", "aud"), "corp": CORP}, {})
WITH_EDGE = CredentialReader({"corp": CORP}, {}, edge=True)
WITH_PROOFS = CredentialReader({"corp": replace(CORP, sender="dpop")}, {})
WITHOUT_KEYS = CredentialReader({"corp": CORP}, {})


def bearer(text: str) -> bytes:
    return f"Bearer {text}".encode()


def refusal(reader: CredentialReader, fields: Fields) -> Malformed:
    with pytest.raises(Malformed) as caught:
        reader.read(fields)
    return caught.value


def test_a_signed_token_is_known_by_its_form() -> None:
    expected = Credential(CredentialKind.ACCESS_TOKEN, TOKEN, "authorization")
    assert PLAIN.read(Fields(bearer(TOKEN))) == expected


def test_a_key_is_known_by_its_hash_and_names_its_caller() -> None:
    expected = Credential(
        CredentialKind.API_KEY, "ak_live_abc", "authorization", "keys", api_key.sha256_of("ak_live_abc")
    )
    assert PLAIN.read(Fields(bearer("ak_live_abc"))) == expected


def test_a_text_with_the_prefix_of_our_keys_is_a_key_even_when_it_is_unknown() -> None:
    credential = WITH_INTROSPECTION.read(Fields(bearer(OTHER_KEY)))
    assert (credential.kind, credential.caller) == (CredentialKind.API_KEY, None)


@pytest.mark.parametrize("text", ["ak_live_ab", "AK_LIVE_ABC", "ak_live_abc=", "ak_live_abcde", "vgw_", "opaque-abc"])
def test_no_other_text_is_the_key(text: str) -> None:
    """Corpus introspection-020 and -021: the whole text is compared, neither trimmed nor folded."""
    credential = PLAIN.read(Fields(bearer(text)))
    assert (credential.kind, credential.caller) == (CredentialKind.API_KEY, None)


def test_what_is_neither_is_asked_about_where_the_plane_has_introspection() -> None:
    digest = api_key.sha256_of("opaque-abc")
    expected = Credential(CredentialKind.INTROSPECTION, "opaque-abc", "authorization", "asked", digest)
    assert WITH_INTROSPECTION.read(Fields(bearer("opaque-abc"))) == expected
    assert WITH_INTROSPECTION.read(Fields(bearer("ak_live_abc"))).kind is CredentialKind.API_KEY


@pytest.mark.parametrize("text", [TOKEN, f"{TOKEN[:-2]}xx", f"{TOKEN}=="])
def test_a_signed_token_is_never_asked_about(text: str) -> None:
    """Corpus introspection-016: what fails as one kind is not tried as another."""
    assert WITH_INTROSPECTION.read(Fields(bearer(text))).kind is CredentialKind.ACCESS_TOKEN


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_name_of_the_scheme_knows_no_case(scheme: str) -> None:
    """RFC 9110 §11.1."""
    assert PLAIN.read(Fields(f"{scheme} {TOKEN}".encode())).text == TOKEN


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer",
        b"bearer",
        b"Basic dXNlcjpwYXNz",
        b"DPoP " + TOKEN.encode(),
        b"BearerX abc",
        b"Token abc",
        b"abc",
        b"=?",
    ],
)
def test_a_field_without_a_bearer_token_is_no_credential(value: bytes) -> None:
    """RFC 6750 §3.1: the caller is told what to send; corpus header-012, jwt-094."""
    assert refusal(PLAIN, Fields(value)).reason is MISSING


@pytest.mark.parametrize(
    "value",
    [
        b"Bearer\t" + TOKEN.encode(),
        b"Bearer  abc",
        b"Bearer abc, Bearer " + TOKEN.encode(),
        b"Bearer a b",
        b"Bearer %61k_live_abc",
        b"Bearer ak_live_abc\\n",
        b"Bearer a&client_id=evil",
        b"Bearer =",
        b"Bearer \xe9",
        b"Bearer abc\xc2\xa0",
        b"Bearer, abc",
        b"Bearer=abc",
        b'Bearer {"payload":"e30","signatures":[]}',
    ],
)
def test_what_follows_the_scheme_is_one_space_and_one_b64token(value: bytes) -> None:
    """RFC 6750 §2.1; corpus header-010, header-015, jwt-043, introspection-015, -021."""
    assert refusal(PLAIN, Fields(value)).reason is INVALID


def test_a_request_without_any_field_has_no_credential() -> None:
    missing = refusal(PLAIN, Fields())
    assert (missing.reason, missing.detail) == (MISSING, "")


def test_a_credential_field_that_came_twice_is_ambiguous() -> None:
    """Corpus header-009: all three fields are then empty."""
    assert refusal(PLAIN, Fields(credential_repeated=True)).reason is AMBIGUOUS


def test_a_key_may_come_in_its_own_field_where_the_policy_lists_it() -> None:
    credential = WITH_KEY_FIELD.read(Fields(x_api_key=KEY.encode()))
    assert (credential.kind, credential.carrier, credential.caller) == (CredentialKind.API_KEY, "x-api-key", "keys")


def test_what_comes_in_the_key_field_is_a_key_and_nothing_else() -> None:
    credential = WITH_KEY_FIELD.read(Fields(x_api_key=TOKEN.encode()))
    assert (credential.kind, credential.caller) == (CredentialKind.API_KEY, None)


def test_an_empty_field_carries_no_credential() -> None:
    assert refusal(WITH_KEY_FIELD, Fields(x_api_key=b"")).reason is MISSING
    assert refusal(BEHIND_ACCESS, Fields(access_assertion=b"")).reason is MISSING


def test_two_fields_are_ambiguous_and_are_named() -> None:
    two = refusal(WITH_KEY_FIELD, Fields(bearer(TOKEN), x_api_key=KEY.encode()))
    assert two.reason is AMBIGUOUS
    assert two.detail == "authorization and x-api-key each carry a credential"


@pytest.mark.parametrize("reader", [PLAIN, WITHOUT_KEYS])
def test_a_key_field_that_the_policy_does_not_list_carries_nothing(reader: CredentialReader) -> None:
    """It is no more than any unknown field; alone, an SDK is told where its key belongs."""
    assert reader.read(Fields(bearer(TOKEN), x_api_key=KEY.encode())).text == TOKEN
    alone = refusal(reader, Fields(x_api_key=KEY.encode()))
    assert (alone.reason, alone.detail) == (MISSING, "this plane reads no x-api-key field")


def test_a_known_key_keeps_to_the_fields_of_its_own_caller() -> None:
    reader = CredentialReader(
        {"one": ApiKeys("one"), "two": ApiKeys("two", frozenset({"x-api-key"}))},
        {**known(KEY, caller="one"), **known(OTHER_KEY, caller="two")},
    )
    assert reader.read(Fields(bearer(KEY))).caller == "one"
    assert reader.read(Fields(x_api_key=OTHER_KEY.encode())).caller == "two"
    assert refusal(reader, Fields(x_api_key=KEY.encode())).reason is INVALID
    assert refusal(reader, Fields(bearer(OTHER_KEY))).reason is INVALID


@pytest.mark.parametrize("authorization", [None, bearer(TOKEN)])
def test_an_assertion_is_ambiguous_where_the_plane_does_not_speak_of_access(authorization: bytes | None) -> None:
    """Corpus header-011: the operator reads that Access stands in front of a plane that does not know of it."""
    refused = refusal(PLAIN, Fields(authorization, access_assertion=TOKEN.encode()))
    assert refused.reason is AMBIGUOUS
    assert "trust.edge" in refused.detail


def test_an_assertion_is_the_credential_where_access_is_a_caller() -> None:
    expected = Credential(CredentialKind.CLOUDFLARE_ACCESS, TOKEN, "cf-access-jwt-assertion")
    assert BEHIND_ACCESS.read(Fields(access_assertion=TOKEN.encode())) == expected


def test_an_assertion_beside_another_credential_is_ambiguous_where_access_is_a_caller() -> None:
    both = refusal(BEHIND_ACCESS, Fields(bearer(TOKEN), access_assertion=TOKEN.encode()))
    assert both.reason is AMBIGUOUS


def test_a_plane_behind_access_takes_its_other_callers_without_an_assertion() -> None:
    assert BEHIND_ACCESS.read(Fields(bearer(TOKEN))).kind is CredentialKind.ACCESS_TOKEN


def test_an_assertion_is_a_lock_besides_the_credential_where_the_plane_has_an_edge() -> None:
    both = WITH_EDGE.read(Fields(bearer(TOKEN), access_assertion=b"x.y.z"))
    assert (both.text, both.assertion) == (TOKEN, "x.y.z")
    assert refusal(WITH_EDGE, Fields(access_assertion=TOKEN.encode())).reason is MISSING


@pytest.mark.parametrize("assertion", [None, b""])
def test_without_the_lock_of_the_edge_a_credential_is_not_enough(assertion: bytes | None) -> None:
    refused = refusal(WITH_EDGE, Fields(bearer(TOKEN), access_assertion=assertion))
    assert refused.reason is MISSING
    assert "did not come through Access" in refused.detail


def test_an_assertion_that_is_not_ascii_is_invalid() -> None:
    assert refusal(WITH_EDGE, Fields(bearer(TOKEN), access_assertion=b"\xff")).reason is INVALID


@pytest.mark.parametrize("scheme", ["DPoP", "dpop"])
def test_a_token_of_the_dpop_scheme_comes_with_its_proof_where_the_policy_asks_for_one(scheme: str) -> None:
    credential = WITH_PROOFS.read(Fields(f"{scheme} {TOKEN}".encode(), dpop=b"a.b.c"))
    assert (credential.kind, credential.text, credential.proof) == (CredentialKind.ACCESS_TOKEN, TOKEN, "a.b.c")
    assert WITH_PROOFS.read(Fields(bearer(TOKEN), dpop=b"a.b.c")).proof is None


@pytest.mark.parametrize("fields", [Fields(b"DPoP x", dpop=b"a"), Fields(b"DPoP " + TOKEN.encode())])
def test_the_dpop_scheme_is_nothing_without_a_signed_token_and_a_proof(fields: Fields) -> None:
    assert refusal(WITH_PROOFS, fields).reason is INVALID


def test_the_dpop_scheme_is_no_credential_where_the_policy_does_not_ask_for_it() -> None:
    """Corpus jwt-094."""
    assert refusal(PLAIN, Fields(b"DPoP " + TOKEN.encode(), dpop=b"a.b.c")).reason is MISSING


def test_a_credential_shows_its_kind_in_a_log_and_not_its_text() -> None:
    shown = repr(PLAIN.read(Fields(bearer(KEY))))
    assert "api_key" in shown
    assert KEY not in shown
    assert api_key.sha256_of(KEY) not in shown


VALUES = st.none() | st.binary(max_size=40) | st.sampled_from([bearer(TOKEN), bearer(KEY), KEY.encode(), b"Bearer"])
READERS = st.sampled_from(
    [PLAIN, WITH_KEY_FIELD, WITH_INTROSPECTION, BEHIND_ACCESS, WITH_EDGE, WITHOUT_KEYS, WITH_PROOFS]
)


@given(READERS, st.builds(Fields, VALUES, VALUES, VALUES, VALUES, st.booleans()))
def test_any_fields_give_one_credential_or_one_of_three_reasons(reader: CredentialReader, fields: Fields) -> None:
    assert outcome(reader, fields) in {None, MISSING, AMBIGUOUS, INVALID}


def outcome(reader: CredentialReader, fields: Fields) -> Reason | None:
    try:
        assert reader.read(fields).text
    except Malformed as refused:
        return refused.reason
    return None
