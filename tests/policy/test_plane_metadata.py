from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from gateway.identity.issuer import AccessTokenIssuer
from gateway.policy.decision import Deny
from gateway.policy.plane_metadata import metadata_of, refused_question
from gateway.reasons import Reason
from gateway.wire.target import Target
from tests.policy.planes import plane

CORP = AccessTokenIssuer("corp", "https://login.example", "us", frozenset({"RS256"}), "at+jwt", 30, "azp", 60)


def test_a_plane_is_described_where_its_policy_says_so() -> None:
    assert metadata_of(plane()) is None
    described = metadata_of(replace(plane(), resource="https://llm.example.com/v1", callers={"corp": CORP}))
    assert described is not None
    assert described.path == b"/.well-known/oauth-protected-resource/v1"
    told = orjson.loads(described.body)
    assert (told["resource"], told["authorization_servers"]) == ("https://llm.example.com/v1", [CORP.issuer])
    needed = {scope for methods in plane().endpoints.values() for one in methods.values() for scope in one.needs}
    assert told.get("scopes_supported", []) == sorted(needed)


@pytest.mark.parametrize(
    "method, target, refused",
    [
        ("GET", b"/a", None),
        ("HEAD", b"/a", Deny(Reason.METHOD_NOT_ALLOWED, "GET")),
        ("POST", b"/a?b", Deny(Reason.METHOD_NOT_ALLOWED, "GET")),
        ("GET", b"/a?", Deny(Reason.QUERY_NOT_ACCEPTED)),
    ],
)
def test_only_a_plain_question_is_answered(method: str, target: bytes, refused: Deny | None) -> None:
    assert refused_question(method, Target.parse(target)) == refused
