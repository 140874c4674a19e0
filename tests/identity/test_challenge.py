from __future__ import annotations

import re

import pytest

from gateway.identity.challenge import challenge
from gateway.reasons import ANSWERS, Reason

# RFC 6750 §3: characters of error, error_description and scope
ALLOWED = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]*")


def test_a_request_without_a_credential_gets_a_challenge_without_an_error() -> None:
    """RFC 6750 §3.1."""
    assert challenge(Reason.CREDENTIAL_MISSING, "partner") == 'Bearer realm="partner"'


def test_every_bad_credential_gets_the_same_challenge() -> None:
    expected = 'Bearer realm="partner", error="invalid_token", error_description="The credential is not valid."'
    assert challenge(Reason.CREDENTIAL_INVALID, "partner") == expected


def test_two_credentials_are_an_invalid_request() -> None:
    value = challenge(Reason.CREDENTIAL_AMBIGUOUS, "partner")
    assert value is not None
    assert 'error="invalid_request"' in value


def test_a_missing_scope_is_named_with_all_that_the_endpoint_needs() -> None:
    value = challenge(Reason.SCOPE_MISSING, "partner", {"llm.embed", "llm.chat"})
    assert value is not None
    assert value.endswith('scope="llm.chat llm.embed"')
    assert 'error="insufficient_scope"' in value


def test_the_needs_of_an_endpoint_are_named_for_no_other_reason() -> None:
    assert "scope" not in (challenge(Reason.CREDENTIAL_INVALID, "partner", {"llm.chat"}) or "")


def test_a_plane_with_metadata_says_where_they_are() -> None:
    url = "https://llm.example.com/.well-known/oauth-protected-resource"
    assert challenge(Reason.CREDENTIAL_MISSING, "p", (), url) == f'Bearer realm="p", resource_metadata="{url}"'


def test_a_plane_that_takes_proofs_offers_both_schemes() -> None:
    """RFC 9449 §7.1: a server that supports both says so."""
    offered = challenge(Reason.CREDENTIAL_MISSING, "p", proofs="ES256 RS256")
    assert offered == 'Bearer realm="p", DPoP realm="p", algs="ES256 RS256"'


def test_a_proof_that_lacks_a_nonce_is_the_matter_of_its_own_scheme() -> None:
    """RFC 9449 §9."""
    asked = challenge(Reason.CREDENTIAL_INVALID, "p", proofs="ES256", code="use_dpop_nonce")
    assert asked == (
        'DPoP realm="p", error="use_dpop_nonce", error_description="The credential is not valid.", algs="ES256"'
    )


@pytest.mark.parametrize("reason", [reason for reason, answer in ANSWERS.items() if answer.challenge is None])
def test_a_reason_that_is_not_about_credentials_has_no_challenge(reason: Reason) -> None:
    assert challenge(reason, "partner") is None


@pytest.mark.parametrize("reason", [reason for reason, answer in ANSWERS.items() if answer.challenge])
def test_descriptions_hold_only_characters_that_the_field_allows(reason: Reason) -> None:
    assert ALLOWED.fullmatch(ANSWERS[reason].sentence)
