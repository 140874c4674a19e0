from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.identity.introspection import judge
from gateway.identity.issuer import IntrospectionIssuer
from gateway.identity.principal import CredentialKind, Principal
from gateway.reasons import Malformed, Reason, Unavailable

NOW = 1_796_000_000
ISSUER = IntrospectionIssuer("asked", "https://login.example", "vllm-gateway/partner", ("groups",))
GOOD = {
    "active": True,
    "iss": ISSUER.issuer,
    "aud": ISSUER.audience,
    "sub": "user-1",
    "client_id": "cli-1",
    "scope": "chat models",
    "exp": NOW + 300,
    "iat": NOW,
    "nbf": NOW,
    "token_type": "Bearer",
    "groups": ["ml"],
    "jti": "j-1",
}


def answer(**changes: object) -> bytes:
    return json.dumps({name: value for name, value in {**GOOD, **changes}.items() if value is not None}).encode()


def detail_of(document: bytes) -> str:
    with pytest.raises(Malformed) as caught:
        judge(document, ISSUER, NOW)
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    return caught.value.detail


def test_an_active_token_speaks_for_its_client() -> None:
    expected = Principal(
        caller="asked",
        kind=CredentialKind.INTROSPECTION,
        id="cli-1",
        subject="user-1",
        groups=frozenset({"ml"}),
        scopes=frozenset({"chat", "models"}),
        expires_at=NOW + 300,
    )
    assert judge(answer(), ISSUER, NOW) == (expected, "j-1")


def test_what_is_optional_may_be_absent() -> None:
    """RFC 7662 §2.2; who answers was asked over TLS, so ``iss`` is implied."""
    absent: dict[str, Any] = dict.fromkeys(("iss", "sub", "scope", "exp", "iat", "nbf", "token_type", "groups", "jti"))
    principal, token_id = judge(answer(**absent), ISSUER, NOW)
    assert principal == Principal("asked", CredentialKind.INTROSPECTION, "cli-1")
    assert token_id is None


@pytest.mark.parametrize("active", [False, "true", 1, "false", 0, [True], {}])
def test_only_true_is_active(active: object) -> None:
    assert detail_of(answer(active=active)) == "the issuer says that the token is not active"


def test_an_inactive_token_is_refused_whatever_else_is_said() -> None:
    assert "not active" in detail_of(b'{"active": false}')


@pytest.mark.parametrize(
    "document",
    [
        b"<html>",
        b"[]",
        b"",
        b"null",
        b'"x"',
        b"{",
        b"{}",
        b'{"error": "x"}',
        b'{"active": false, "active": true}',
        b'\xef\xbb\xbf{"active": true}',
        b'{"active": true} x',
        b'{"active": true, "exp": NaN}',
        b'{"active": null_}',
    ],
)
def test_an_answer_that_is_none_says_nothing_about_the_token(document: bytes) -> None:
    """Corpus introspection-010, -011, -012: a provider's fault is never a pass and never a 401."""
    with pytest.raises(Unavailable) as caught:
        judge(document, ISSUER, NOW)
    assert (caught.value.reason, caught.value.status) == (Reason.KEYS_UNAVAILABLE, 502)


@pytest.mark.parametrize(
    "claim, value",
    [
        ("iss", "https://login.example/"),
        ("iss", 5),
        ("aud", "vllm-gateway/internal"),
        ("aud", None),
        ("aud", ["vllm-gateway/partner", 5]),
        ("aud", []),
        ("exp", NOW),
        ("exp", NOW - 1),
        ("exp", "tomorrow"),
        ("nbf", NOW + 31),
        ("iat", NOW + 31),
        ("client_id", None),
        ("client_id", ""),
        ("client_id", 5),
        ("sub", "a\r\nSet-Cookie: x"),
        ("sub", ""),
        ("scope", 5),
        ("token_type", "DPoP"),
        ("token_type", "refresh_token"),
        ("token_type", 5),
        ("typ", "Refresh"),
        ("token_use", "id"),
        ("nonce", "n"),
        ("cnf", {"jkt": "x"}),
    ],
)
def test_what_an_active_token_claims_is_checked_again(claim: str, value: object) -> None:
    changes: dict[str, object] = {claim: value}
    assert detail_of(answer(**changes))


@pytest.mark.parametrize(
    "claim, value",
    [("aud", ["other", "vllm-gateway/partner"]), ("nbf", NOW + 30), ("token_type", "bearer"), ("exp", NOW + 0.5)],
)
def test_what_is_within_bounds_passes(claim: str, value: object) -> None:
    changes: dict[str, object] = {claim: value}
    assert judge(answer(**changes), ISSUER, NOW)[0].id == "cli-1"


def test_nothing_of_an_answer_is_repeated() -> None:
    for changes in ({"iss": "evil"}, {"aud": "evil"}, {"sub": "evil\n"}, {"token_type": "evil"}):
        assert "evil" not in detail_of(answer(**changes))
