from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.adapters.issuer_http import IssuerHttp, is_safe, metadata_urls, within
from gateway.reasons import Reason, Unavailable
from tests.simulators.issuer import Issuer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer("/realms/partners") as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[IssuerHttp]:
    http = IssuerHttp()
    yield http
    await http.close()


def test_metadata_are_appended_for_openid_and_inserted_before_the_path_for_oauth() -> None:
    """OpenID Connect Discovery §4.1, RFC 8414 §3.1."""
    assert list(metadata_urls("https://login.example.com/realms/a/")) == [
        "https://login.example.com/realms/a/.well-known/openid-configuration",
        "https://login.example.com/.well-known/oauth-authorization-server/realms/a",
    ]
    assert list(metadata_urls("https://login.example.com:8443")) == [
        "https://login.example.com:8443/.well-known/openid-configuration",
        "https://login.example.com:8443/.well-known/oauth-authorization-server",
    ]


async def test_any_address_of_the_metadata_can_be_asked_for(issuer: Issuer, http: IssuerHttp) -> None:
    assert await http.endpoint(issuer.url, "introspection_endpoint") == issuer.introspection_url
    assert await http.endpoint(issuer.url, "jwks_uri") == issuer.jwks_url
    with pytest.raises(Unavailable, match="no such_endpoint with https"):
        await http.endpoint(issuer.url, "such_endpoint")


async def test_a_question_is_a_form_with_a_credential_and_is_not_sent_on(issuer: Issuer, http: IssuerHttp) -> None:
    issuer.opaque["a b"] = {"active": False}
    assert await http.post(issuer.introspection_url, {"token": "a b"}, "Basic eA==") == b'{"active": false}'
    assert issuer.asked == [("token=a+b", "Basic eA==")]
    issuer.fault, issuer.redirect_to = "redirect", f"{issuer.origin}/canary"
    with pytest.raises(Unavailable, match="status 302") as caught:
        await http.post(issuer.introspection_url, {"token": "a"}, "Basic eA==")
    assert caught.value.reason is Reason.KEYS_UNAVAILABLE
    assert issuer.fetches["/canary"] == 0


async def test_one_deadline_is_over_all_documents_that_are_asked_for(issuer: Issuer, http: IssuerHttp) -> None:
    """A silent issuer once took as many deadlines as it has places for its metadata."""
    issuer.fault = "silent"
    with pytest.raises(Unavailable, match=r"did not answer within 0\.3 s") as caught:
        async with within(0.3):
            await http.endpoint(issuer.url, "jwks_uri")
    assert caught.value.reason is Reason.KEYS_UNAVAILABLE
    assert dict(issuer.fetches) == {"/realms/partners/.well-known/openid-configuration": 1}
    issuer.fault = None


@pytest.mark.parametrize("url", ["http:///x", "https://h:0/", "https://[x", "https://h/#f", "ftp://127.0.0.1/"])
def test_what_is_no_plain_https_address_is_not_safe(url: str) -> None:
    assert not is_safe(url, loopback=True)


def test_plain_http_is_for_loopback_alone_and_only_where_it_is_allowed() -> None:
    assert is_safe("http://127.0.0.1:9/", loopback=True)
    assert not is_safe("http://127.0.0.1:9/", loopback=False)
    assert not is_safe("http://10.0.0.1/", loopback=True)
    assert is_safe("https://10.0.0.1/", loopback=False)
