from __future__ import annotations

import json

import pytest

from gateway.identity import compact_jws
from gateway.identity.confirmation import Confirmation
from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess
from gateway.identity.key_set import KeySet
from gateway.identity.presented_token import PresentedToken
from gateway.identity.principal import CredentialKind, Principal
from gateway.reasons import Malformed, Reason
from tests.simulators.signing import compact, default_keys, signing_input

KEYS = default_keys()
SET = KeySet.parse(json.dumps({"keys": [KEYS["K1"].public]}).encode())
ISSUER = AccessTokenIssuer(
    "corp", "https://i", "aud", frozenset({"RS256"}), "JWT", 30, "azp", 60, ("groups",), scopes_claim="scp"
)
CLAIMS = {"groups": ["g"], "scp": "a b", "jti": "j-1"}


def presented(
    issuer: AccessTokenIssuer | CloudflareAccess = ISSUER, *, key: str = "K1", kid: str = "k1"
) -> PresentedToken:
    message = signing_input({"alg": "RS256", "kid": kid}, CLAIMS)
    jws = compact_jws.parse(compact(message, KEYS[key].sign(message)))
    return PresentedToken(issuer, "cli-1", "person", 100.0, Confirmation("dpop", "thumbprint"), jws)


def test_the_right_signature_makes_a_principal_of_what_was_presented() -> None:
    assert presented().proved_by(SET) == Principal(
        "corp",
        CredentialKind.ACCESS_TOKEN,
        "cli-1",
        "person",
        frozenset({"g"}),
        frozenset({"a", "b"}),
        100.0,
        Confirmation("dpop", "thumbprint"),
    )


def test_an_access_identity_has_groups_and_no_scopes() -> None:
    access = CloudflareAccess("tunnel", "team", "tag", ("groups",))
    principal = presented(access).proved_by(SET)
    assert principal.kind is CredentialKind.CLOUDFLARE_ACCESS
    assert (principal.groups, principal.scopes) == (frozenset({"g"}), frozenset())


def test_another_key_or_an_unknown_one_makes_none() -> None:
    for token, detail in (
        (presented(key="ATT"), "the signature does not fit"),
        (presented(kid="k2"), "the issuer has no key of this kid for this alg"),
    ):
        with pytest.raises(Malformed) as caught:
            token.proved_by(SET)
        assert (caught.value.reason, caught.value.detail) == (Reason.CREDENTIAL_INVALID, detail)


def test_it_names_its_key_and_its_id_and_nothing_in_a_log() -> None:
    token = presented()
    assert (token.key_id, token.token_id) == ("k1", "j-1")
    assert "eyJ" not in repr(token)
