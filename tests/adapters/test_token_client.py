from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from gateway.adapters.server_certificate import TlsFiles, server_side
from gateway.adapters.token_client import Application, NoToken, fetch
from tests.simulators.certificates import Authority
from tests.simulators.issuer import Issuer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = Application("app", "secret")


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer("/realms/a") as running:
        yield running


def refusal(application: Application = APP, **where: Any) -> NoToken:  # noqa: ANN401  (issuer or url)
    with pytest.raises(NoToken) as caught:
        fetch(application, **where)
    assert str(caught.value).endswith(".")
    assert "secret" not in str(caught.value)
    return caught.value


def test_a_token_is_fetched_from_the_endpoint_that_the_metadata_name(issuer: Issuer) -> None:
    answer = fetch(APP, issuer=issuer.url)
    assert answer["access_token"].count(".") == 2
    assert answer["token_type"] == "Bearer"
    assert issuer.granted == [("grant_type=client_credentials", "Basic YXBwOnNlY3JldA==")]


def test_a_token_is_asked_for_with_all_that_was_wished(issuer: Issuer) -> None:
    application = Application("app", "secret", "llm.chat llm.embed", "https://llm.example", "gateway")
    fetch(application, url=f"{issuer.origin}/token")
    ((form, _),) = issuer.granted
    assert parse_qs(form, strict_parsing=True) == {
        "grant_type": ["client_credentials"],
        "scope": ["llm.chat llm.embed"],
        "resource": ["https://llm.example"],
        "audience": ["gateway"],
    }


def test_the_secret_can_go_in_the_form(issuer: Issuer) -> None:
    fetch(Application("app", "secret", method="client_secret_post"), url=f"{issuer.origin}/token")
    ((form, authorization),) = issuer.granted
    assert parse_qs(form)["client_secret"] == ["secret"]
    assert authorization == ""


@pytest.mark.parametrize(
    "status, document, sentence, refused",
    [
        (400, b'{"error": "invalid_scope"}', "The issuer gave no token: invalid_scope.", True),
        (
            401,
            b'{"error": "invalid_client", "error_description": "who"}',
            "The issuer gave no token: invalid_client (who).",
            True,
        ),
        (500, b"{}", "The issuer answered with status 500.", True),
        (404, b"<html>", "The issuer answered with status 404.", True),
        (200, b"<html>", "The issuer's answer is not one JSON object.", False),
    ],
)
def test_an_issuer_that_gives_no_token_is_told_of(
    issuer: Issuer, status: int, document: bytes, sentence: str, *, refused: bool
) -> None:
    issuer.granting = (status, document)
    error = refusal(url=f"{issuer.origin}/token")
    assert (str(error), error.refused) == (sentence, refused)


def test_an_issuer_that_is_not_there_is_told_of() -> None:
    with Issuer() as gone:
        url = gone.origin
    assert str(refusal(url=f"{url}/token")) == "The issuer cannot be reached: ConnectError."
    assert str(refusal(issuer=url)).startswith("The token endpoint was not found: the issuer cannot be reached")


@pytest.mark.parametrize("url", ["http://login.example/token", "ftp://x/", "token"])
def test_a_secret_is_sent_over_tls_alone(url: str) -> None:
    assert "must be an https URL" in str(refusal(url=url))


def test_a_secret_does_not_show_itself_in_a_log() -> None:
    assert "secret" not in repr(APP).replace("client_secret_basic", "")


# With a certificate (RFC 8705 §2)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """Make an authority that this process trusts."""
    made = Authority(tmp_path, "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
    return made


@pytest.fixture
def mutual(authority: Authority) -> Iterator[Issuer]:
    """Run an issuer that answers nobody without a certificate."""
    pair = authority.server()
    with Issuer(tls=server_side(TlsFiles("X", pair.cert, pair.key, authority.ca))) as running:
        yield running


def test_a_certificate_is_a_credential(authority: Authority, mutual: Issuer) -> None:
    shown = authority.client()
    application = Application("app", None, certificate=(shown.cert, shown.key))
    assert fetch(application, url=f"{mutual.origin}/token")["access_token"].count(".") == 2
    ((form, authorization),) = mutual.granted
    assert parse_qs(form) == {"grant_type": ["client_credentials"], "client_id": ["app"]}
    assert authorization == ""


def test_a_certificate_can_come_beside_the_secret(authority: Authority, mutual: Issuer) -> None:
    shown = authority.client()
    fetch(replace(APP, certificate=(shown.cert, shown.key)), url=f"{mutual.origin}/token")
    assert mutual.granted == [("grant_type=client_credentials", "Basic YXBwOnNlY3JldA==")]


def test_who_shows_a_certificate_asks_where_the_metadata_say_for_that(
    authority: Authority, mutual: Issuer, issuer: Issuer
) -> None:
    """RFC 8705 §5."""
    shown = authority.client()
    issuer.extra_metadata = {"mtls_endpoint_aliases": {"token_endpoint": f"{mutual.origin}/token"}}
    fetch(Application("app", None, certificate=(shown.cert, shown.key)), issuer=issuer.url)
    assert (len(mutual.granted), len(issuer.granted)) == (1, 0)
    fetch(APP, issuer=issuer.url)
    assert (len(mutual.granted), len(issuer.granted)) == (1, 1)


def test_a_certificate_that_cannot_be_used_is_told_of(tmp_path: Path) -> None:
    none = tmp_path / "none"
    sentence = "The client certificate or its key cannot be used: No such file or directory."
    assert str(refusal(Application("app", None, certificate=(none, none)), url="https://login.example/")) == sentence
    none.write_text("nothing", "utf-8")
    found = refusal(Application("app", None, certificate=(none, none)), url="https://login.example/")
    assert str(found).startswith("The client certificate or its key cannot be used: ")
