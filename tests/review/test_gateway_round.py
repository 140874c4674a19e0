from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.identity.issuer import CloudflareAccess
from gateway.inquiry import Reply
from gateway.policy.model import Deadlines, Plane
from gateway.review.gateway_findings import FORBIDDEN
from gateway.review.gateway_round import gateway_round, tunnel_round
from gateway.review.surroundings import ListenerAt, Visitor
from tests.policy.planes import EMBEDDINGS, MODELS, plane
from tests.review.patients import REFUSED, Answers, Told, chat, gateway, ours, reply, surroundings

CHAT = "POST /v1/chat/completions"
NOTHING: frozenset[str] = frozenset()
PARTNER = frozenset({"partner"})


def at(answers: Answers, closed: str = "") -> dict[str, ListenerAt]:
    return {"public": ListenerAt("127.0.0.1:8080", "GATEWAY_LISTENERS__PUBLIC", answers, closed)}


async def test_a_gateway_is_asked_as_nobody_and_each_forbidden_path_once() -> None:
    door = gateway()
    told = Told()
    assert await gateway_round(surroundings(listeners=at(door)), NOTHING, told) == PARTNER
    assert told.short == ["ok gateway", "ok gateway", "not tried gateway"]
    assert door.targets == ["GET /v1/models", *(f"{method} {target}" for method, target in FORBIDDEN)]
    assert {body for what, body, _ in door.asked if what.startswith("POST")} == {b"{}"}


async def test_a_gateway_that_is_down_is_asked_once() -> None:
    door = Answers({"*": REFUSED})
    told = Told()
    assert await gateway_round(surroundings(listeners=at(door)), NOTHING, told) == NOTHING
    assert told.short[0] == "broken gateway"
    assert len(door.asked) == 1


async def test_a_listener_that_asks_for_certificates_is_not_tried() -> None:
    door = gateway()
    told = Told()
    site = surroundings(listeners=at(door, "it asks for a client's certificate"))
    assert await gateway_round(site, NOTHING, told) == NOTHING
    assert told.lines[0] == "not tried gateway: partner at 127.0.0.1:8080: it asks for a client's certificate"
    assert door.asked == []


async def test_readiness_is_read_where_there_is_an_ops_listener() -> None:
    part = {"policy": "", "engines": {"main": {"ready": False, "state": "connection refused"}}}
    ops = Answers({"GET /readyz": reply({"ready": False, "planes": {"partner": part}}, 503)})
    site = surroundings(ops=ListenerAt("127.0.0.1:9090", "GATEWAY_LISTENERS__OPS", ops))
    told = Told()
    await gateway_round(site, NOTHING, told)
    assert told.short[2:] == ["broken gateway"]
    told = Told()
    await gateway_round(site, frozenset({"main"}), told)
    assert told.short[2:] == []


def with_models(**answers: Reply) -> Answers:
    listed = reply({"data": [{"id": "local"}, {"id": ["odd"]}, {}]})
    return Answers({"GET /v1/models": listed, CHAT: chat(), "POST /v1/embeddings": reply({}), **answers})


async def visit(visitor: Answers, one: Plane | None = None, **changes: Any) -> Told:  # noqa: ANN401  (fields of the surroundings)
    told = Told()
    planes = {} if one is None else {"planes": [one]}
    site = surroundings(visitor=Visitor("partner", visitor), **planes, **changes)
    await gateway_round(site, NOTHING, told)
    return told


async def test_a_visitor_sees_its_models_and_asks_the_first_for_a_few_tokens() -> None:
    visitor = with_models()
    told = await visit(visitor)
    assert told.short[-2:] == ["ok gateway", "ok gateway"]
    assert visitor.targets == ["GET /v1/models", CHAT]
    body = orjson.loads(visitor.asked[1][1])
    assert (body["model"], body["max_completion_tokens"]) == ("local", 16)


async def test_a_visitor_who_may_see_no_list_asks_nothing() -> None:
    visitor = with_models(**{"GET /v1/models": ours(401, "credential-invalid")})
    told = await visit(visitor)
    assert told.short[-1] == "broken gateway"
    assert visitor.targets == ["GET /v1/models"]


async def test_where_there_is_no_list_the_policys_models_are_asked() -> None:
    without = replace(plane(), endpoints={path: of for path, of in plane().endpoints.items() if b"models" not in path})
    visitor = with_models()
    await visit(visitor, replace(without, models={"embed": MODELS["embed"]}))
    assert visitor.targets == ["POST /v1/embeddings"]
    assert orjson.loads(visitor.asked[0][1]) == {"model": "embed", "input": "Hello."}


async def test_a_visitor_without_models_or_endpoints_asks_nothing() -> None:
    visitor = with_models(**{"GET /v1/models": reply({"data": []})})
    await visit(visitor)
    assert visitor.targets == ["GET /v1/models"]
    mute = replace(plane(embeddings=EMBEDDINGS), endpoints={})
    visitor = with_models()
    await visit(visitor, mute)
    assert visitor.targets == []


async def test_a_visitor_of_a_gateway_that_is_down_is_not_tried() -> None:
    visitor = with_models()
    told = await visit(visitor, listeners=at(Answers({"*": REFUSED})))
    assert told.short[-1] == "not tried gateway"
    assert visitor.asked == []


URL = "https://llm.example.com"


async def tunnel(public: Answers | None, answering: frozenset[str] = PARTNER, **changes: Any) -> Told:  # noqa: ANN401  (as above)
    told = Told()
    await tunnel_round(surroundings(public=public, public_url=URL if public else "", **changes), answering, told)
    return told


async def test_nothing_is_asked_from_outside_unless_it_is_wished() -> None:
    told = await tunnel(None)
    assert told.short == ["not tried tunnel"]
    assert "--public-url" in told.findings[0].do


async def test_the_tunnel_is_not_tried_while_the_gateway_is_down() -> None:
    public = Answers({})
    assert (await tunnel(public, NOTHING)).lines == [f"not tried tunnel: {URL}: behind the broken gateway"]


async def test_from_outside_no_way_may_lead_past_the_gateway() -> None:
    answers = {"GET /v1/models": ours(401, "credential-missing"), "*": ours(404, "no-such-endpoint")}
    public = Answers(answers)
    assert (await tunnel(public)).short == ["ok tunnel"]
    assert public.targets == ["GET /v1/models", "POST /invocations", "GET /metrics"]
    assert (await tunnel(Answers({**answers, "GET /metrics": Reply(200)}))).short == ["ok tunnel", "broken tunnel"]


async def test_stream_18_deadlines_are_looked_at_where_cloudflare_is_seen_or_stated() -> None:
    edge = {"cf-ray": "x", "server": "cloudflare"}
    seen = await tunnel(Answers({"GET /v1/models": Reply(530, edge)}))
    assert seen.short == ["broken tunnel", "warning tunnel"]
    (one,) = surroundings().planes
    inside = await tunnel(Answers({"GET /v1/models": Reply(530, edge)}), planes=[replace(one, public=False)])
    assert inside.short == ["broken tunnel", "warning tunnel"]
    assert (await tunnel(Answers({"GET /v1/models": Reply(404)}))).short == ["broken tunnel"]


@pytest.mark.parametrize("total, warned", [(600, True), (95, False)])
async def test_a_plane_behind_access_needs_no_public_url_for_that(total: float, *, warned: bool) -> None:
    (one,) = surroundings().planes
    locked = replace(one, edge=CloudflareAccess("edge", "example", "aud"))
    told = await tunnel(None, planes=[locked], deadlines=Deadlines(total=total))
    assert told.short == ["not tried tunnel", *(["warning tunnel"] if warned else [])]
