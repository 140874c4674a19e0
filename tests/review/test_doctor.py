from __future__ import annotations

import asyncio
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CallerTrust, CloudflareAccess, IntrospectionIssuer
from gateway.inquiry import Failure, Reply
from gateway.review.diagnosis import Layer
from gateway.review.doctor import examine
from gateway.review.surroundings import ListenerAt, Surroundings, Visitor
from tests.review.patients import METRICS, Answers, Keys, Told, engine, issuer, reply, surroundings

NAMES = ("data", "id", "usage", "prompt_tokens", "choices", "message", "content", "output", "error", "planes", "ready")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.sampled_from(["local", "reasoning"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from([*NAMES, "partner", "version", "type", "engines", "problems"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
BODIES = st.binary(max_size=8) | VALUES.map(orjson.dumps) | st.just(METRICS)
FIELDS = st.dictionaries(
    st.sampled_from(["proxy-status", "x-request-id", "cf-ray", "server", "location", "date"]),
    st.sampled_from(['vllm-gateway; error=x; details="credential-missing"', "vllm-gateway", "cloudflare", "\n\x00"]),
)
REPLIES = st.sampled_from(Failure).map(lambda failure: Reply(failure=failure)) | st.builds(
    Reply, st.sampled_from([200, 302, 401, 403, 404, 405, 421, 429, 500, 502, 503, 530]), FIELDS, BODIES
)
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


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_whatever_comes_back_the_doctor_tells_of_it_to_the_end(data: st.DataObject) -> None:
    """A doctor who stumbles over an answer cannot tell of it."""

    class Anything:
        async def __call__(self, method: str, target: str, *, within_s: float, body: bytes = b"") -> Reply:
            return data.draw(REPLIES, label=f"{method} {target}")

    ask = Anything()
    site = trusting(Keys(date=data.draw(st.text(max_size=20))), Keys(answer=data.draw(BODIES)))
    (one,) = site.planes
    site = replace(
        site,
        planes=[replace(one, media_hosts=frozenset({"a.example"}))],
        engines={name: engine(ask) for name in site.engines},
        listeners={"public": ListenerAt("127.0.0.1:8080", "GATEWAY_LISTENERS__PUBLIC", ask)},
        ops=ListenerAt("127.0.0.1:9090", "GATEWAY_LISTENERS__OPS", ask),
        public_url="https://llm.example.com",
        public=ask,
        visitor=Visitor("partner", ask),
    )
    told = Told()
    asyncio.run(examine(site, told))
    assert {one.layer for one in told.findings} == set(Layer)
    assert all("\n" not in line for one in told.findings for line in one.lines())


@pytest.mark.parametrize("why, line", [("", "ok ledger"), ("ConnectionError", "broken ledger")])
async def test_a_ledger_is_asked_where_there_is_one(why: str, line: str) -> None:
    async def ask() -> str:
        return why

    told = await examined(replace(surroundings(), ledger=ask))
    assert line in told.short
