from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CallerTrust, CloudflareAccess, IntrospectionIssuer
from gateway.review.diagnosis import Layer
from gateway.review.doctor import examine
from gateway.review.surroundings import ListenerAt, Surroundings
from tests.review.patients import Answers, Keys, Told, issuer, reply, surroundings

CORP = AccessTokenIssuer("corp", "https://login.example", "aud", frozenset({"RS256"}), "at+jwt", 30, "client_id", 3600)
ASKED = IntrospectionIssuer("asked", "https://login.example", "aud")
EDGE = CloudflareAccess("edge", "example", "aud")


def trusting(keys: Keys, asked: Keys | None = None) -> Surroundings:
    site = surroundings()
    (one,) = site.planes
    callers: dict[str, CallerTrust] = {"corp": CORP, "keys": ApiKeys("keys")}
    issuers = {"corp": issuer(keys)}
    if asked is not None:
        callers["asked"], issuers["asked"] = ASKED, issuer(asked)
    return replace(site, planes=[replace(one, callers=callers)], issuers=issuers)


async def examined(site: Surroundings) -> Told:
    told = Told()
    await examine(site, told)
    return told


async def test_the_layers_come_in_their_order() -> None:
    told = await examined(trusting(Keys()))
    order = list(Layer)
    layers = [order.index(one.layer) for one in told.findings]
    assert layers == sorted(layers)
    assert {order[index] for index in layers} == set(Layer)
    assert not [line for line in told.short if line.startswith(("broken", "warning"))]


async def test_an_issuer_without_keys_is_broken_and_everything_else_is_looked_at() -> None:
    told = await examined(trusting(Keys(failure="the issuer did not answer within 5 s")))
    assert "broken identity: corp at https://login.example: the issuer did not answer within 5 s" in told.lines
    assert "ok model" in told.short


async def test_a_clock_that_is_wrong_is_told_beside_the_keys() -> None:
    told = await examined(trusting(Keys(date="Fri, 15 Jan 2027 08:05:00 GMT")))
    assert [line for line in told.short if "identity" in line] == ["ok identity", "broken identity"]


@pytest.mark.parametrize(
    "asked, verdict", [(Keys(), "ok"), (Keys(answer=b"{}"), "broken"), (Keys(failure="status 401"), "broken")]
)
async def test_an_issuer_that_is_asked_about_tokens_is_asked(asked: Keys, verdict: str) -> None:
    told = await examined(trusting(Keys(), asked))
    assert f"{verdict} identity" in [line for line in told.short if "identity" in line][1:]


async def test_the_lock_of_the_edge_needs_its_keys_too() -> None:
    site = surroundings()
    (one,) = site.planes
    told = await examined(replace(site, planes=[replace(one, edge=EDGE)], issuers={"edge": issuer(Keys())}))
    assert any(line.startswith("ok identity: edge at https://example.cloudflareaccess.com") for line in told.lines)


async def test_what_is_broken_before_is_not_laid_at_the_gateways_door() -> None:
    part = {"policy": "", "callers": {"corp": {"ready": False, "detail": "no keys of the issuer yet"}}}
    ops = Answers({"GET /readyz": reply({"ready": False, "planes": {"partner": part}}, 503)})
    at = ListenerAt("127.0.0.1:9090", "GATEWAY_LISTENERS__OPS", ops)
    known = await examined(replace(trusting(Keys(failure="down")), ops=at))
    assert "broken gateway" not in known.short
    unknown = await examined(replace(trusting(Keys()), ops=at))
    assert "broken gateway" in unknown.short


@pytest.mark.parametrize("why, line", [("", "ok ledger"), ("ConnectionError", "broken ledger")])
async def test_a_ledger_is_asked_where_there_is_one(why: str, line: str) -> None:
    async def ask() -> str:
        return why

    told = await examined(replace(surroundings(), ledger=ask))
    assert line in told.short
