from __future__ import annotations

import pytest

from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, Broken, assert_refused, compiled

TAG = "a" * 64
OTHER = "f" * 64
INTROSPECTION = "introspection: {issuer: https://login.example.com, audience: opaque}"
ACCESS = f"cloudflare_access: {{team: example, audience: {TAG}}}"
EDGE = f"  edge: {{cloudflare_access: {{team: example, audience: {TAG}}}}}\n"

REFUSED = [
    Broken(
        "    keys:\n", f"    opaque: {{{INTROSPECTION}, api_key: {{}}}}\n    keys:\n", "    opaque:", "exactly one of"
    ),
    Broken("    keys:\n      api_key", "    edge:\n      api_key", "    edge:", "no caller may be called edge"),
    Broken("clock_skew: 30s", "clock_skew: 301s", "clock_skew", "at most 5m"),
    Broken("  callers:\n", f"{EDGE}  callers:\n", "    tunnel:", "the lock or the caller, not both"),
    Broken(
        "    keys:\n",
        f"    one: {{{INTROSPECTION}}}\n    two: {{{INTROSPECTION}}}\n    keys:\n",
        "    two:",
        "one introspection caller at most: `one`",
    ),
    Broken(
        "    keys:\n",
        f"    one: {{{ACCESS}}}\n    two: {{{ACCESS}}}\n    keys:\n",
        "    two:",
        "the Access application of `one` again",
    ),
    Broken(
        "    keys:\n",
        "    twin:\n      access_token: {issuer: https://login.example.com/realms/partners, audience: x, "
        "algorithms: [RS256], token_type: JWT, clock_skew: 0s, client_claim: sub, longest_lifetime: 1h}\n    keys:\n",
        "    twin:",
        "the issuer of `corp` again",
    ),
    Broken("issuer: https://login", "issuer: http://login", "issuer: http://login", "http is for a loopback host only"),
]


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.words)
def test_callers_that_could_not_be_told_apart_are_refused(broken: Broken) -> None:
    assert_refused(broken)


def test_an_access_token_caller_is_resolved_with_durations_in_seconds() -> None:
    assert compiled(PARTNER).plane.callers["corp"] == AccessTokenIssuer(
        caller="corp",
        issuer="https://login.example.com/realms/partners",
        audience="vllm-gateway/partner",
        algorithms=frozenset({"RS256", "ES256"}),
        token_type="at+jwt",
        clock_skew_s=30,
        client_claim="azp",
        longest_lifetime_s=86400,
        groups_claim=("groups",),
        scopes_claim="scope",
    )


def test_absent_claims_are_absent_and_named_ones_are_taken() -> None:
    platform = compiled(CONTROL, ("client_claim: azp", "client_claim: azp\n        scopes_claim: scp")).plane.callers[
        "platform"
    ]
    assert isinstance(platform, AccessTokenIssuer)
    assert (platform.groups_claim, platform.scopes_claim) == (None, "scp")


@pytest.mark.parametrize("sender", ["dpop", "mtls"])
def test_a_proof_of_possession_is_asked_for_where_the_file_says_so(sender: str) -> None:
    more = ("client_claim: azp", f"client_claim: azp\n        sender: {sender}")
    bound = compiled(PARTNER, more).plane.callers["corp"]
    free = compiled(PARTNER).plane.callers["corp"]
    assert isinstance(bound, AccessTokenIssuer)
    assert isinstance(free, AccessTokenIssuer)
    assert (bound.sender, free.sender) == (sender, None)


def test_other_kinds_of_callers_are_resolved() -> None:
    policy = compiled(PARTNER, ("    keys:\n", f"    opaque: {{{INTROSPECTION}}}\n    keys:\n"))
    callers = policy.plane.callers
    assert callers["opaque"] == IntrospectionIssuer("opaque", "https://login.example.com", "opaque")
    assert callers["keys"] == ApiKeys("keys", frozenset({"authorization"}))
    assert isinstance(callers["tunnel"], CloudflareAccess)
    assert callers["tunnel"].groups_claim == ("custom", "groups")


def test_the_carriers_of_keys_are_those_of_the_file() -> None:
    callers = compiled(PARTNER, ("api_key: {}", "api_key: {carriers: [x-api-key]}")).plane.callers
    assert callers["keys"] == ApiKeys("keys", frozenset({"x-api-key"}))


def test_several_callers_of_keys_are_told_apart_by_their_keys() -> None:
    policy = compiled(PARTNER, ("    keys:\n", "    more: {api_key: {}}\n    keys:\n"))
    assert isinstance(policy.plane.callers["more"], ApiKeys)


def test_two_applications_of_one_team_are_two_callers() -> None:
    second = f"cloudflare_access: {{team: example, audience: {OTHER}}}"
    policy = compiled(PARTNER, ("    keys:\n", f"    one: {{{ACCESS}}}\n    two: {{{second}}}\n    keys:\n"))
    assert {"one", "two"} <= policy.plane.callers.keys()


def test_the_edge_lock_is_a_lock_and_no_caller() -> None:
    plane = compiled(INTERNAL, ("  callers:\n", f"{EDGE}  callers:\n")).plane
    assert plane.edge == CloudflareAccess("edge", "example", TAG)
    assert "edge" not in plane.callers
    assert compiled(INTERNAL).plane.edge is None
