from __future__ import annotations

import dataclasses

import pytest

from gateway.identity.principal import CredentialKind, Principal


def test_the_kinds_are_those_that_a_policy_names_under_its_callers() -> None:
    assert {kind.value for kind in CredentialKind} == {"access_token", "introspection", "cloudflare_access", "api_key"}


def test_a_principal_without_more_has_no_groups_no_scopes_and_no_end() -> None:
    principal = Principal("keys", CredentialKind.API_KEY, "ab")
    assert (principal.subject, principal.groups, principal.scopes, principal.expires_at) == (
        None,
        frozenset(),
        frozenset(),
        None,
    )


def test_a_principal_cannot_be_changed_after_the_proof() -> None:
    principal = Principal("corp", CredentialKind.ACCESS_TOKEN, "cli-1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        principal.id = "cli-2"  # type: ignore[misc]  # that it cannot is the point
