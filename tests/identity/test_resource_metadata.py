from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.identity.resource_metadata import ResourceMetadata

if TYPE_CHECKING:
    from gateway.identity.issuer import CallerTrust

CORP = AccessTokenIssuer("corp", "https://login.example", "aud", frozenset({"RS256"}), "at+jwt", 30, "azp", 60)
ASKED = IntrospectionIssuer("asked", "https://opaque.example", "aud")


def test_the_document_names_issuers_and_scopes() -> None:
    callers: list[CallerTrust] = [CORP, ASKED, ApiKeys("keys"), CloudflareAccess("tunnel", "team", "tag")]
    found = ResourceMetadata.of("https://llm.example.com", callers, ["llm.embed", "llm.chat", "llm.chat"], "partner")
    assert json.loads(found.body) == {
        "resource": "https://llm.example.com",
        "authorization_servers": ["https://login.example", "https://opaque.example"],
        "scopes_supported": ["llm.chat", "llm.embed"],
        "bearer_methods_supported": ["header"],
        "resource_name": "partner",
    }


def test_a_member_without_values_is_left_out() -> None:
    found = ResourceMetadata.of("https://llm.example.com", [ApiKeys("keys")], [], "partner")
    assert json.loads(found.body).keys() == {"resource", "bearer_methods_supported", "resource_name"}


@pytest.mark.parametrize("sender, told", [(None, None), ("dpop", None), ("mtls", True)])
def test_a_plane_that_takes_tokens_for_certificates_says_so(sender: str | None, told: bool | None) -> None:  # noqa: FBT001  (a column of the table)
    """RFC 9728 §2."""
    found = ResourceMetadata.of("https://llm.example.com", [replace(CORP, sender=sender)], [], "partner")
    assert json.loads(found.body).get("tls_client_certificate_bound_access_tokens") is told


@pytest.mark.parametrize(
    "resource, path",
    [
        ("https://llm.example.com", "/.well-known/oauth-protected-resource"),
        ("https://llm.example.com/", "/.well-known/oauth-protected-resource"),
        ("https://llm.example.com:8443/v1", "/.well-known/oauth-protected-resource/v1"),
        ("https://llm.example.com/a/b", "/.well-known/oauth-protected-resource/a/b"),
    ],
)
def test_the_place_is_between_host_and_path(resource: str, path: str) -> None:
    found = ResourceMetadata.of(resource, [], [], "partner")
    assert found.path == path.encode()
    assert found.url == f"https://{resource.split('/')[2]}{path}"
    assert json.loads(found.body)["resource"] == resource
