from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.jwks import IssuerSource, JwksFetcher
from gateway.identity.key_set import KeySet
from gateway.reasons import Reason, Unavailable
from tests.simulators.issuer import Issuer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

PATIENT = IssuerSource(timeout_s=30)
QUICK = IssuerSource(timeout_s=0.4)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer("/realms/partners") as running:
        yield running


@pytest.fixture
async def fetcher() -> AsyncIterator[JwksFetcher]:
    fetcher = JwksFetcher()
    yield fetcher
    await fetcher.close()


async def failure(fetcher: JwksFetcher, issuer: str, source: IssuerSource = PATIENT) -> str:
    with pytest.raises(Unavailable) as caught:
        await fetcher.fetch(issuer, source)
    assert caught.value.reason is Reason.KEYS_UNAVAILABLE
    return caught.value.detail


async def test_keys_are_found_through_the_openid_metadata(issuer: Issuer, fetcher: JwksFetcher) -> None:
    assert await fetcher.fetch(issuer.url, PATIENT) == issuer.document()
    assert dict(issuer.fetches) == {"/realms/partners/.well-known/openid-configuration": 1, "/keys": 1}


async def test_keys_are_found_through_the_oauth_metadata_where_there_are_no_others(
    issuer: Issuer, fetcher: JwksFetcher
) -> None:
    issuer.metadata = {"oauth-authorization-server"}
    assert await fetcher.fetch(issuer.url, PATIENT) == issuer.document()
    assert issuer.fetches["/.well-known/oauth-authorization-server/realms/partners"] == 1


async def test_a_configured_address_needs_no_metadata(issuer: Issuer, fetcher: JwksFetcher) -> None:
    issuer.metadata = set()
    source = IssuerSource(jwks_url=issuer.jwks_url)
    assert await fetcher.fetch("https://unreachable.invalid", source) == issuer.document()
    assert dict(issuer.fetches) == {"/keys": 1}


async def test_an_issuer_without_metadata_is_unavailable(issuer: Issuer, fetcher: JwksFetcher) -> None:
    issuer.metadata = set()
    assert "status 404" in await failure(fetcher, issuer.url)


async def test_metadata_that_name_another_issuer_are_not_believed(issuer: Issuer, fetcher: JwksFetcher) -> None:
    """RFC 8414 §3.3; a slash at the end makes another issuer."""
    issuer.fault = "other-issuer"
    assert "another issuer" in await failure(fetcher, issuer.url)
    issuer.fault = None
    assert "another issuer" in await failure(fetcher, f"{issuer.url}/")


@pytest.mark.parametrize(
    "jwks_uri",
    ["http://keys.example.com/", "ftp://127.0.0.1/", "file:///etc/passwd", "https://a@b/", "https://", "x", 5, None],
)
async def test_metadata_cannot_point_to_an_unsafe_address(
    issuer: Issuer, fetcher: JwksFetcher, jwks_uri: object
) -> None:
    issuer.extra_metadata = {"jwks_uri": jwks_uri}
    assert "no jwks_uri" in await failure(fetcher, issuer.url)


@pytest.mark.parametrize("fault", ["garbage", "bomb"])
async def test_metadata_that_are_no_json_object_are_unusable(issuer: Issuer, fetcher: JwksFetcher, fault: str) -> None:
    issuer.fault = fault
    assert "strict JSON" in await failure(fetcher, issuer.url)


@pytest.mark.parametrize("fault", ["down", "error", "redirect", "huge", "endless", "silent", "drip"])
@pytest.mark.parametrize("discover", [True, False])
async def test_no_fault_of_an_issuer_gives_keys_or_takes_longer_than_the_deadline(
    issuer: Issuer, fetcher: JwksFetcher, fault: str, *, discover: bool
) -> None:
    """Corpus jwks-011, -012: no reading past the cap, and one deadline for a document that drips."""
    issuer.fault, issuer.redirect_to = fault, f"{issuer.origin}/canary"
    source = QUICK if discover else IssuerSource(jwks_url=issuer.jwks_url, timeout_s=0.4)
    begun = time.monotonic()
    assert await failure(fetcher, issuer.url, source)
    assert time.monotonic() - begun < 10, "the fault itself lasts 30 s"
    assert issuer.fetches["/canary"] == 0
    assert sum(issuer.fetches.values()) == 1 or fault not in {"silent", "drip"}, (
        "one deadline, not one for each document"
    )
    issuer.fault = None


async def test_a_host_where_nothing_listens_is_unavailable(fetcher: JwksFetcher) -> None:
    with Issuer() as gone:
        url = gone.url
    assert "cannot be reached (ConnectError)" in await failure(fetcher, url)


async def test_a_compressed_answer_is_not_unpacked(issuer: Issuer, fetcher: JwksFetcher) -> None:
    """Corpus jwks-011: twenty kilobytes stay twenty kilobytes, and are no key set."""
    issuer.fault = "bomb"
    data = await fetcher.fetch(issuer.url, IssuerSource(jwks_url=issuer.jwks_url))
    assert len(data) < 100_000
    with pytest.raises(Unavailable):
        KeySet.parse(data)


async def test_neither_proxies_nor_netrc_of_the_environment_are_used(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Corpus jwks-021."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n", "utf-8")
    with Issuer() as canary:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, canary.origin)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("NETRC", str(netrc))
        fetcher = JwksFetcher()
        assert await fetcher.fetch(issuer.url, PATIENT) == issuer.document()
        await fetcher.close()
        assert not canary.fetches
    assert "authorization" not in issuer.last_fields
    assert issuer.last_fields["user-agent"].startswith("vllm-gateway/")


@pytest.mark.parametrize(
    "url",
    [
        "http://keys.example.com/",
        "https://user:pass@keys.example.com/",
        "https://k.example/#x",
        "keys",
        "",
        "https://[x",
    ],
)
def test_an_unsafe_address_in_the_settings_is_an_error_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="JWKS URL is https"):
        IssuerSource(jwks_url=url)


@pytest.mark.parametrize(
    "url", ["https://keys.example.com/x?y=z", "http://127.0.0.1:9/", "http://[::1]/", "http://localhost/"]
)
def test_https_and_loopback_are_safe(url: str) -> None:
    assert IssuerSource(jwks_url=url).jwks_url == url
