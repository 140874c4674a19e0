from __future__ import annotations

from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.identity.principal import CredentialKind


def test_each_kind_of_trust_says_which_kind_of_credential_it_is_about() -> None:
    corp = AccessTokenIssuer("corp", "https://a", "us", frozenset({"RS256"}), "at+jwt", 30, "azp", 3600)
    kinds = {
        corp.kind,
        IntrospectionIssuer("asked", "https://a", "us").kind,
        CloudflareAccess("tunnel", "team", "tag").kind,
        ApiKeys("keys").kind,
    }
    assert kinds == set(CredentialKind)


def test_an_access_token_has_no_groups_and_its_scopes_in_scope_unless_the_policy_says_more() -> None:
    corp = AccessTokenIssuer("corp", "https://a", "us", frozenset({"RS256"}), "at+jwt", 30, "azp", 3600)
    assert (corp.groups_claim, corp.scopes_claim) == (None, "scope")


def test_a_team_of_cloudflare_access_issues_under_its_own_host() -> None:
    assert CloudflareAccess("tunnel", "example", "tag").issuer == "https://example.cloudflareaccess.com"
    assert CloudflareAccess("tunnel", "example.fed", "tag").issuer == "https://example.fed.cloudflareaccess.com"


def test_keys_come_in_authorization_alone_unless_the_policy_says_more() -> None:
    assert ApiKeys("keys").carriers == {"authorization"}


def test_the_keys_of_a_team_are_at_its_own_place() -> None:
    expected = "https://example.fed.cloudflareaccess.com/cdn-cgi/access/certs"
    assert CloudflareAccess("tunnel", "example.fed", "tag").keys_url == expected
