"""The stanza of each provider takes that provider's access token, and nothing else that it signs with its keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gateway.identity import access_token
from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess
from gateway.policy.compile import compile_plane
from gateway.reasons import Malformed
from tests.house.tree import text
from tests.simulators.signing import compact, signing_input
from tests.small_house import POLICY

if TYPE_CHECKING:
    from gateway.identity.issuer import CallerTrust

NOW = 1_796_000_000
TIMES = {"iat": NOW, "nbf": NOW, "exp": NOW + 3600}
STANZAS = re.findall(r"```yaml\n(.*?)```", text("docs/identity-providers.md"), re.DOTALL)


def _trusted() -> dict[str, CallerTrust]:
    """Compile every stanza of the document, in one policy."""
    indented = "".join(f"    {line}\n" for stanza in STANZAS for line in stanza.splitlines())
    marked = "      api_key: {}\n"
    assert marked in POLICY
    return dict(compile_plane(POLICY.replace(marked, marked + indented), "policy.yaml").callers)


TRUSTED = _trusted()
ENTRA, OKTA, AUTH0, KEYCLOAK, COGNITO, GOOGLE = "entra", "okta", "auth0", "keycloak", "cognito", "google"

# Header type and claims of an access token that a client got for itself, and the id that it must lead to.
ACCESS: dict[str, tuple[str | None, dict[str, Any], str]] = {
    KEYCLOAK: (
        "at+jwt",
        {"typ": "Bearer", "azp": "app", "sub": "f1", "jti": "j", "scope": "email", "groups": ["/ml"], "acr": "1"},
        "app",
    ),
    ENTRA: (
        "JWT",
        {
            "azp": "app",
            "azpacr": "1",
            "oid": "o",
            "sub": "o",
            "roles": ["llm.chat"],
            "tid": "t",
            "uti": "u",
            "ver": "2.0",
        },
        "app",
    ),
    AUTH0: (
        "at+jwt",
        {"sub": "app@clients", "client_id": "app", "jti": "j", "scope": "llm.chat", "gty": "client-credentials"},
        "app",
    ),
    OKTA: (None, {"ver": 1, "jti": "AT.x", "cid": "0oa1", "scp": ["llm.chat"], "sub": "0oa1"}, "0oa1"),
    COGNITO: (
        None,
        {"sub": "app", "token_use": "access", "scope": "llm/chat", "client_id": "app", "version": 2, "jti": "j"},
        "app",
    ),
    GOOGLE: (
        "JWT",
        {"azp": "1172", "sub": "1172", "email": "bot@p.iam.gserviceaccount.com", "email_verified": True},
        "1172",
    ),
}
# The same provider's ID tokens; their audience is another, unless the test says that somebody mixed the two up.
IDENTITY: dict[str, tuple[str | None, dict[str, Any]]] = {
    KEYCLOAK: ("JWT", {"typ": "ID", "azp": "app", "sub": "person", "at_hash": "h", "sid": "s"}),
    ENTRA: ("JWT", {"sub": "person", "oid": "o", "preferred_username": "p", "tid": "t", "uti": "u", "ver": "2.0"}),
    AUTH0: ("JWT", {"sub": "auth0|1", "nickname": "p", "sid": "s"}),
    OKTA: (None, {"ver": 1, "jti": "ID.x", "sub": "00u1", "amr": ["pwd"], "idp": "00o1", "at_hash": "h"}),
    COGNITO: (None, {"sub": "person", "token_use": "id", "cognito:username": "p", "at_hash": "h", "jti": "j"}),
    GOOGLE: ("JWT", {"azp": "1.apps", "sub": "1098", "at_hash": "h", "email": "p@example.com"}),
}


def _issuer(name: str) -> AccessTokenIssuer:
    trust = TRUSTED[name]
    assert isinstance(trust, AccessTokenIssuer)
    return trust


def _token(name: str, typ: str | None, claims: dict[str, Any], **changes: object) -> str:
    issuer = _issuer(name)
    header = {"alg": "RS256", "kid": "k", **({"typ": typ} if typ else {})}
    whole = {"iss": issuer.issuer, "aud": issuer.audience, **TIMES, **claims, **changes}
    return compact(signing_input(header, whole), b"x")


@pytest.mark.parametrize("name", ACCESS)
def test_an_access_token_of_each_provider_is_read_as_its_client(name: str) -> None:
    typ, claims, client = ACCESS[name]
    issuer = _issuer(name)
    presented = access_token.read(_token(name, typ, claims), {issuer.issuer: issuer}, NOW)
    assert presented.id == client


@pytest.mark.parametrize("name", IDENTITY)
def test_an_id_token_of_each_provider_is_refused_even_when_its_audience_is_ours(name: str) -> None:
    issuer = _issuer(name)
    typ, claims = IDENTITY[name]
    for changes in ({"aud": "the application"}, {}):
        with pytest.raises(Malformed):
            access_token.read(_token(name, typ, claims, **changes), {issuer.issuer: issuer}, NOW)


def test_a_token_without_an_audience_is_refused() -> None:
    """As Cognito makes it for a client that did not ask for one."""
    typ, claims, _ = ACCESS[COGNITO]
    issuer = _issuer(COGNITO)
    with pytest.raises(Malformed, match="aud does not name this plane"):
        access_token.read(_token(COGNITO, typ, claims, aud=None), {issuer.issuer: issuer}, NOW)


def test_every_stanza_of_the_document_is_tried() -> None:
    named = {name for stanza in STANZAS for name in yaml.safe_load(stanza)}
    assert named == {*ACCESS, "tunnel"} == {*IDENTITY, "tunnel"}
    assert isinstance(TRUSTED["tunnel"], CloudflareAccess)
