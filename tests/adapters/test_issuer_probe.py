from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.adapters.introspection import IntrospectionSource
from gateway.adapters.issuer_probe import NO_TOKEN, IssuerProbe
from gateway.adapters.jwks import IssuerSource
from gateway.inquiry import Failure
from gateway.reasons import Unavailable
from tests.simulators.issuer import Issuer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer("/realms/a") as running:
        yield running


@pytest.mark.parametrize("named", [True, False])
async def test_keys_are_fetched_as_the_gateway_fetches_them(issuer: Issuer, *, named: bool) -> None:
    source = IssuerSource(issuer.jwks_url) if named else IssuerSource()
    keys = await IssuerProbe(issuer.url, source).key_set()
    assert keys.find("k1", "RS256") is not None
    assert ("/realms/a/.well-known/openid-configuration" in issuer.fetches) is not named


async def test_an_issuer_without_keys_is_told_with_the_reason(issuer: Issuer) -> None:
    issuer.fault = "error"
    with pytest.raises(Unavailable, match="status 500"):
        await IssuerProbe(issuer.url, IssuerSource(issuer.jwks_url)).key_set()


@pytest.mark.parametrize("named", [True, False])
async def test_a_token_that_does_not_exist_is_asked_about_with_our_credential(issuer: Issuer, *, named: bool) -> None:
    source = IntrospectionSource("gateway", "secret", issuer.introspection_url if named else None)
    probe = IssuerProbe(issuer.url, IssuerSource(), source)
    assert await probe.introspect() == b'{"active": false}'
    ((form, authorization),) = issuer.asked
    assert form == f"token={NO_TOKEN}"
    assert authorization == source.authorization
    assert "secret" not in repr(probe)


async def test_without_a_credential_nobody_is_asked(issuer: Issuer) -> None:
    with pytest.raises(Unavailable):
        await IssuerProbe(issuer.url, IssuerSource()).introspect()
    assert issuer.asked == []


@pytest.mark.parametrize("named", [True, False])
async def test_its_answers_bear_the_time(issuer: Issuer, *, named: bool) -> None:
    source = IssuerSource(issuer.jwks_url) if named else IssuerSource()
    reply = await IssuerProbe(issuer.url, source).look()
    assert reply.status == 200


async def test_an_issuer_whose_name_is_no_address_tells_no_time() -> None:
    reply = await IssuerProbe("urn:issuer", IssuerSource()).look()
    assert reply.failure is Failure.NO_NAME
