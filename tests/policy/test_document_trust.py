from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.policy.document_trust import TrustKeys

TOKEN = {
    "issuer": "https://login.example.com",
    "audience": "x",
    "algorithms": ["RS256"],
    "token_type": "at+jwt",
    "clock_skew": "30s",
    "client_claim": "azp",
    "longest_lifetime": "1h",
}


def test_every_kind_of_caller_is_read() -> None:
    trust = TrustKeys.model_validate(
        {
            "edge": {"cloudflare_access": {"team": "example", "audience": "a" * 64}},
            "callers": {
                "a": {"access_token": TOKEN},
                "b": {"introspection": {"issuer": "https://login.example.com", "audience": "x", "groups_claim": "g"}},
                "c": {"cloudflare_access": {"team": "example.fed", "audience": "b" * 64}},
                "d": {"api_key": {}},
                "e": {"api_key": {"carriers": ["authorization", "x-api-key"]}},
            },
        }
    )
    assert trust.edge is not None
    assert trust.callers["a"].access_token is not None
    assert trust.callers["a"].access_token.algorithms == ("RS256",)


@pytest.mark.parametrize(
    "caller",
    [
        {},
        {"password": {}},
        {"access_token": {**TOKEN, "algorithms": ["HS256"]}},
        {"access_token": {**TOKEN, "algorithms": ["none"]}},
        {"access_token": {**TOKEN, "token_type": "jwt"}},
        {"access_token": {**TOKEN, "client_claim": "email"}},
        {"access_token": {**TOKEN, "jwks_url": "https://login.example.com/keys"}},
        {"access_token": {key: value for key, value in TOKEN.items() if key != "longest_lifetime"}},
        {"api_key": {"carriers": ["cookie"]}},
        {"api_key": {"carriers": []}},
    ],
)
def test_any_other_caller_is_refused(caller: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TrustKeys.model_validate({"callers": {"a": caller}})


def test_a_plane_without_callers_is_none() -> None:
    with pytest.raises(ValidationError):
        TrustKeys.model_validate({"callers": {}})
