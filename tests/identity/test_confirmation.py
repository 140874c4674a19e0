from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest

from gateway.identity.confirmation import Confirmation, certificate_thumbprint, check_unbound, read
from gateway.reasons import Malformed, Reason


@pytest.mark.parametrize("cnf", [{"jkt": "x"}, {"x5t#S256": "x"}, {}, None, False])
def test_a_bound_token_is_no_bearer_token(cnf: object) -> None:
    check_unbound({})
    assert read({}, None) is None
    with pytest.raises(Malformed, match="bound to a key"):
        check_unbound({"cnf": cnf})
    with pytest.raises(Malformed, match="bound to a key") as caught:
        read({"cnf": cnf}, None)
    assert caught.value.reason is Reason.CREDENTIAL_INVALID


def test_a_bound_token_names_its_key_or_its_certificate() -> None:
    assert read({"cnf": {"jkt": "thumbprint"}}, "dpop") == Confirmation("dpop", "thumbprint")
    assert read({"cnf": {"x5t#S256": "thumbprint"}}, "mtls") == Confirmation("mtls", "thumbprint")


@pytest.mark.parametrize("sender, member, other", [("dpop", "jkt", "x5t#S256"), ("mtls", "x5t#S256", "jkt")])
def test_a_token_that_is_bound_to_nothing_or_to_something_else_is_refused(sender: str, member: str, other: str) -> None:
    odd = [
        None,
        "x",
        {},
        [member],
        {member: 5},
        {member: None},
        {member: ["x"]},
        {other: "x"},
        {member: "x", other: "y"},
        {member: "x", "jwk": {}},
        {member.upper(): "x"},
    ]
    for told in ({}, *({"cnf": cnf} for cnf in odd)):
        with pytest.raises(Malformed) as caught:
            read(told, sender)
        assert caught.value.reason is Reason.CREDENTIAL_INVALID
        assert f"cnf.{member}" in caught.value.detail


def test_only_the_very_same_thumbprint_fits() -> None:
    bound = Confirmation("mtls", certificate_thumbprint(b"one"))
    assert bound.fits(certificate_thumbprint(b"one"))
    for shown in (certificate_thumbprint(b"other"), f"{bound.thumbprint}=", bound.thumbprint.lower(), "", None):
        assert not bound.fits(shown)
    assert not Confirmation("mtls", "").fits(None)
    assert not Confirmation("mtls", "\ud800é").fits("?")


def test_a_certificate_is_known_by_the_sha_256_of_its_octets() -> None:
    """RFC 8705 §3.1: base64url without padding."""
    expected = urlsafe_b64encode(sha256(b"der").digest()).decode()
    assert certificate_thumbprint(b"der") == expected.rstrip("=")
    assert len(certificate_thumbprint(b"der")) == 43
