from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.identity.issuer import AccessTokenIssuer
from gateway.review.token_check import check_token
from tests.policy.planes import client, plane
from tests.simulators.signing import compact, signing_input

NOW = 1_796_000_000
CORP = AccessTokenIssuer(
    "corp", "https://login.example", "us", frozenset({"RS256"}), "JWT", 30, "azp", 3600, ("groups",), "scp"
)
GOOD = {
    "iss": "https://login.example",
    "aud": "us",
    "sub": "s",
    "azp": "acme",
    "iat": NOW,
    "exp": NOW + 60,
    "scp": "b a",
    "groups": ["g"],
}
PLANE = replace(plane(clients=[client("acme"), client("team", id=None, group="research")]), callers={"corp": CORP})


def found(**changes: Any) -> tuple[bool, str]:  # noqa: ANN401  (any JSON value)
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    check = check_token(compact(signing_input({"alg": "RS256", "typ": "JWT"}, claims), b"x"), PLANE, NOW)
    return check.fits, check.sentence


def test_a_token_that_fits_is_told_with_its_client_scopes_and_groups() -> None:
    assert found() == (True, "On the plane partner it is client acme (corp: acme); scopes: a b; groups: g.")
    assert found(azp="x", groups=["research"]) == (
        True,
        "On the plane partner it is client team (corp: x); scopes: a b; groups: research.",
    )


def test_the_check_that_fails_is_named() -> None:
    assert found(aud="other") == (False, "The plane partner would refuse it: aud does not name this plane.")
    assert found(groups="g")[1].endswith("the groups are not a list of texts.")


def test_a_token_of_no_client_or_of_two_is_told() -> None:
    assert found(azp="x", groups=None, scp=None) == (
        False,
        "The plane partner would refuse it: {corp: x} fits no client; scopes: none; groups: none.",
    )
    assert "fits acme and team" in found(groups=["research"])[1]
