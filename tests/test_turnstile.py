"""Limits as callers meet them: what is counted, what it costs, what is told, and that every place is free again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.call import Usage
from gateway.identity.principal import CredentialKind, Principal
from gateway.limits.ledger import Holder, Lease
from gateway.limits.limit import Limit
from gateway.policy.model import Endpoint, ParameterRules
from gateway.ports import Delivery, Ending, EngineAnswer, UpstreamRequest
from gateway.reasons import Malformed, Reason, Unavailable
from tests.policy.planes import EMBEDDINGS, MODELS, PARTNER, client, plane, principal
from tests.test_enforcement import DELIVERED, HI, Door, House, ask, code, models, told

ACME = Holder("partner", "acme")
NARROW = Limit("narrow", 2, 1)
COUNTED = Limit("counted", 100, 5, tokens_per_minute=5000, tokens_per_day=9000)
SECOND = 1_000_000


def house(limit: Limit = NARROW, **changes: Any) -> House:  # noqa: ANN401  (whatever a house takes)
    """Give a house whose one client has this limit."""
    return House(plane(clients=[client("acme", limit=limit), client("other")]), **changes)


async def serve(rooms: House, door: Door | None = None) -> Door:
    """Serve one more request."""
    door = door or ask()
    await rooms.enforcement.serve(door)
    return door


def fields_of(request: UpstreamRequest) -> dict[str, str]:
    """Give what the head of an answer says besides the engine's own fields."""
    return dict(line.split(": ", 1) for line in b"".join(request.lines).decode().splitlines())


async def test_a_full_minute_is_told_with_a_wait_that_is_true() -> None:
    rooms = house()
    await serve(rooms)
    rooms.time_us = 10 * SECOND
    await serve(rooms)
    door = await serve(rooms)
    status, headers, body = told(door)
    assert (status, headers["retry-after"], body["error"]["code"]) == (429, "50", "over-rate")
    assert body["error"]["type"] == "rate_limit_error"
    assert body["error"]["message"] == (
        "Too many requests in this minute (the limit is 2 in any minute; try again in 50 s)."
    )
    assert headers["x-ratelimit-limit-requests"] == "2"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["x-ratelimit-reset-requests"] == "1m0s"
    assert headers["ratelimit"] == '"requests";r=0;t=60'
    rooms.time_us = 60 * SECOND - 1
    assert code(await serve(rooms)) == "over-rate"
    rooms.time_us = 60 * SECOND
    assert (await serve(rooms)).answered
    assert len(rooms.dispatch.requests) == 3


async def test_requests_of_every_kind_count_and_say_what_is_left() -> None:
    rooms = house(Limit("few", 5, 5))
    _, headers, _ = told(await serve(rooms, models()))
    assert headers["x-ratelimit-remaining-requests"] == "4"
    _, headers, _ = told(await serve(rooms, ask(b"{")))
    assert headers["x-ratelimit-remaining-requests"] == "3"
    _, headers, _ = told(await serve(rooms, ask(Malformed(Reason.BODY_TOO_LARGE))))
    assert headers["x-ratelimit-remaining-requests"] == "2"
    _, headers, _ = told(await serve(rooms, ask({**HI, "model": "other"})))
    assert headers["x-ratelimit-remaining-requests"] == "1"
    assert rooms.ledger.open[ACME[:2]] == 0


async def test_a_request_that_its_client_may_not_make_counts_as_well() -> None:
    rooms = House(plane(clients=[client("acme", limit=NARROW, may=frozenset({"models"})), client("other")]))
    for _ in range(3):
        assert code(await serve(rooms)) == "endpoint-not-granted"
    assert code(await serve(rooms, models())) == "over-rate"


async def test_what_is_nobodys_counts_for_nobody() -> None:
    rooms = house()
    for door in (ask(credential=None), ask(credential="unknown"), ask(target=b"/metrics")):
        await serve(rooms, door)
    assert len(rooms.ledger) == 0


def holding(rooms: House) -> asyncio.Event:
    """Hold back every answer until the event that is given."""
    held = asyncio.Event()
    forward = rooms.dispatch.forward

    class Slow:
        def chooses(self, engine: str) -> bool:
            """Have one replica."""
            return False

        async def forward(self, request: Any, inbound: Any) -> Delivery:  # noqa: ANN401
            await held.wait()
            return await forward(request, inbound)

    rooms.enforcement._ports = replace(rooms.enforcement._ports, dispatcher=Slow())
    return held


async def test_a_place_is_taken_until_the_answer_has_ended() -> None:
    rooms = house(Limit("one", 100, 1))
    held = holding(rooms)
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(rooms))
        await asyncio.sleep(0)
        door = await serve(rooms)
        status, headers, body = told(door)
        assert (status, headers["retry-after"], body["error"]["code"]) == (429, "1", "over-concurrency")
        assert body["error"]["message"].endswith("(the limit is 1; try again when one of them has ended).")
        held.set()
    assert (await serve(rooms)).head_out


BROKEN = Delivery(Ending.FAILED, Reason.ENGINE_ERROR, "connection closed")
ENDINGS: dict[str, Any] = {
    "delivered": DELIVERED,
    "refused by the engine": Delivery(Ending.ANSWERED, answer=EngineAnswer(400, b"{}")),
    "died": BROKEN,
    "left": Delivery(Ending.CLIENT_LEFT),
    "never reached": Unavailable(Reason.ENGINE_UNAVAILABLE),
    "a bug": RuntimeError("bug"),
    "gone": ConnectionError(),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_place_is_free_again_however_a_request_ends(ending: str) -> None:
    rooms = house(Limit("one", 100, 1), ending=ENDINGS[ending])
    for _ in range(10):
        await serve(rooms)
    assert rooms.ledger.open[ACME[:2]] == 0
    assert not [record for record in rooms.journal.records if record.reason is Reason.OVER_CONCURRENCY]


async def test_a_place_is_free_again_when_the_gateway_stops() -> None:
    rooms = house(COUNTED, ending=asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await serve(rooms)
    assert rooms.ledger.open[ACME[:2]] == 0


async def test_limits_are_each_persons_own_where_the_policy_says_so_and_by_nothing_that_a_caller_can_choose() -> None:
    people = {
        name: Principal("corp", CredentialKind.ACCESS_TOKEN, "acme", subject, frozenset({"staff"}))
        for name, subject in {"ann": "ann", "bob": "bob", "odd": None}.items()
    }
    staff = client("acme", limit=NARROW, id=None, group="staff", each_subject=True)
    rooms = House(plane(clients=[staff, client("other")]), principals=people)
    for name in people:
        for _ in range(2):
            assert (await serve(rooms, ask({**HI, "user": "bob"}, credential=name, x_end_user="bob"))).head_out
    for name in people:
        other = ask({**HI, "user": "x"}, credential=name, x_forwarded_for="192.0.2.9", openai_organization="x")
        assert code(await serve(rooms, other)) == "over-rate"


async def test_tokens_are_reserved_behind_the_judge_and_settled_by_the_engines_count() -> None:
    rooms = house(COUNTED)
    door = await serve(rooms, ask({**HI, "max_tokens": 900, "n": 1}))
    assert door.head_out
    lines = fields_of(rooms.dispatch.requests[0])
    prompt = -(-len(rooms.dispatch.requests[0].body) // 4)
    assert lines["x-ratelimit-limit-tokens"] == "5000"
    assert lines["x-ratelimit-remaining-tokens"] == str(5000 - 900 - prompt)
    assert lines["ratelimit"].startswith('"requests";r=99;t=60, "tokens";r=')
    assert rooms.record.usage == Usage(5, 7)
    await serve(rooms)
    left = fields_of(rooms.dispatch.requests[1])["ratelimit"]
    prompt = -(-len(rooms.dispatch.requests[1].body) // 4)
    assert f'"tokens";r={5000 - 12 - 4096 - prompt};t=60' in left


async def test_over_tokens_is_told_in_words_and_numbers_and_costs_no_tokens() -> None:
    rooms = house(COUNTED)
    rooms.dispatch.usage = Usage(4000, 1000)
    await serve(rooms)
    door = await serve(rooms, ask({**HI, "max_tokens": 10}))
    status, headers, body = told(door)
    assert (status, headers["retry-after"], body["error"]["code"]) == (429, "60", "over-tokens")
    assert body["error"]["message"] == (
        "The token allowance is used up for now "
        "(the limit is 5000 in any minute and 9000 in a UTC day; try again in 60 s)."
    )
    assert headers["x-ratelimit-remaining-tokens"] == "0"
    assert len(rooms.dispatch.requests) == 1
    rooms.time_us = 60 * SECOND
    assert (await serve(rooms, ask({**HI, "max_tokens": 10}))).head_out


async def test_a_limit_of_a_day_alone_is_named_alone() -> None:
    rooms = house(Limit("daily", 100, 5, tokens_per_day=10))
    rooms.time_us = 86_400 * SECOND * 3 // 2
    await serve(rooms)
    _, headers, body = told(await serve(rooms))
    assert body["error"]["message"].endswith("(the limit is 10 in a UTC day; try again in 43200 s).")
    assert headers["retry-after"] == "43200"


async def test_answers_that_are_several_cost_several_times() -> None:
    rooms = House(
        plane(replace(PARTNER, caps={}), clients=[client("acme", limit=COUNTED), client("other")]),
    )
    await serve(rooms, ask({**HI, "max_tokens": 100, "n": 3}))
    lines = fields_of(rooms.dispatch.requests[0])
    assert lines["x-ratelimit-remaining-tokens"] == str(5000 - 300 - -(-len(rooms.dispatch.requests[0].body) // 4))


async def test_an_image_is_reserved_as_such_and_text_that_looks_like_one_as_text() -> None:
    rooms = house(Limit("wide", 100, 5, tokens_per_minute=1_000_000))
    url = "data:image/png;base64," + "A" * 400
    image = {"type": "image_url", "image_url": {"url": url}}
    reserved = []
    for content in ([image], url, [{"type": "text", "text": url}]):
        await serve(rooms, ask({**HI, "max_tokens": 10, "messages": [{"role": "user", "content": content}]}))
        request = rooms.dispatch.requests[-1]
        left = int(fields_of(request)["x-ratelimit-remaining-tokens"])
        rooms.time_us += 60 * SECOND
        reserved.append((1_000_000 - left - 10, len(request.body)))
    assert [tokens for tokens, _ in reserved] == [
        -(-(reserved[0][1] - len(url)) // 4) + 1000,
        *(-(-size // 4) for _, size in reserved[1:]),
    ]


async def test_embeddings_count_for_the_same_budget_and_a_list_of_models_does_not() -> None:
    acme = client("acme", limit=COUNTED, may=frozenset({"chat", "models", "embed"}))
    embed = Endpoint("embed", "POST", b"/v1/embed", "openai-embeddings", body_limit=1000, parameters=EMBEDDINGS)
    rooms = House(plane(clients=[acme, client("other")], endpoints=[embed]))
    rooms.dispatch.usage = Usage(5000)
    assert (await serve(rooms, ask({"model": "embed", "input": "hi"}, target=b"/v1/embed"))).head_out
    assert code(await serve(rooms)) == "over-tokens"
    assert told(await serve(rooms, models()))[0] == 200


async def test_what_an_engine_counts_where_no_tokens_are_charged_is_recorded_and_costs_none() -> None:
    acme = client("acme", limit=COUNTED, may=frozenset({"chat", "count"}))
    count = Endpoint("count", "POST", b"/count", "tokenize", body_limit=1000, parameters=COUNTING)
    rooms = House(plane(clients=[acme, client("other")], endpoints=[count]))
    rooms.dispatch.usage = Usage(5000)
    assert (await serve(rooms, ask({"model": "local", "prompt": "hi"}, target=b"/count"))).head_out
    assert rooms.record.usage == Usage(5000)
    assert (await serve(rooms)).head_out


COUNTING = ParameterRules(frozenset({"model", "prompt"}))
STREAM = {**HI, "stream": True, "max_tokens": 900}
LEFT = Delivery(Ending.CLIENT_LEFT)
PROMPT = -1
"""Stands for the estimate of the prompt, which depends on the body."""


@pytest.mark.parametrize(
    "ending,counted,produced,body,charged",
    [
        (DELIVERED, Usage(5, 7, 3), 9, STREAM, Usage(5, 7, 3)),
        (DELIVERED, None, 9, STREAM, Usage(PROMPT, 9, estimated=True)),
        (DELIVERED, None, 0, HI, Usage(PROMPT, 4096, estimated=True)),
        (DELIVERED._replace(detail="cut"), Usage(5, 1), 9, STREAM, Usage(5, 9, estimated=True)),
        (DELIVERED, None, 0, STREAM, Usage(PROMPT, 900, estimated=True)),
        (DELIVERED, Usage(), 9, STREAM, Usage(PROMPT, 9, estimated=True)),
        (DELIVERED, Usage(None, None), 0, HI, Usage(PROMPT, 4096, estimated=True)),
        (DELIVERED, Usage(None, 7), 0, HI, Usage(PROMPT, 7, estimated=True)),
        (DELIVERED._replace(detail="the engine's own error"), None, 0, STREAM, None),
        (LEFT, None, 50, STREAM, Usage(PROMPT, 50, estimated=True)),
        (LEFT, None, 0, STREAM, Usage(PROMPT, 0, estimated=True)),
        (LEFT, None, 0, HI, Usage(PROMPT, 4096, estimated=True)),
        (LEFT, Usage(8, 60), 50, STREAM, Usage(8, 60, estimated=True)),
        (LEFT, Usage(8), 50, STREAM, Usage(8, 50, estimated=True)),
        (LEFT._replace(sent=False), None, 0, HI, None),
        (BROKEN, None, 0, STREAM, None),
        (BROKEN, None, 4, STREAM, Usage(PROMPT, 4, estimated=True)),
        (Delivery(Ending.FAILED, Reason.ENGINE_TIMEOUT, "total"), None, 0, HI, Usage(PROMPT, 4096, estimated=True)),
        (Delivery(Ending.FAILED, Reason.ENGINE_TIMEOUT, "idle"), None, 3, STREAM, Usage(PROMPT, 3, estimated=True)),
        (ENDINGS["refused by the engine"], None, 0, HI, None),
        (Unavailable(Reason.ENGINE_UNAVAILABLE), None, 0, HI, None),
        (asyncio.CancelledError(), None, 6, STREAM, Usage(PROMPT, 6, estimated=True)),
    ],
)
async def test_a_call_costs_what_was_counted_or_seen_and_a_broken_answer_is_never_free(
    ending: Any,  # noqa: ANN401
    counted: Usage | None,
    produced: int,
    body: dict[str, Any],
    charged: Usage | None,
) -> None:
    rooms = house(COUNTED, ending=ending)
    rooms.dispatch.usage, rooms.dispatch.produced = counted, produced
    try:
        await serve(rooms, ask(body))
    except asyncio.CancelledError:
        assert isinstance(ending, asyncio.CancelledError)
    estimate = -(-len(rooms.dispatch.requests[0].body) // 4)
    expected = charged and replace(charged, prompt=estimate if charged.prompt == PROMPT else charged.prompt)
    assert rooms.record.usage == expected
    tokens = 0 if expected is None else (expected.prompt or 0) + (expected.completion or 0)
    lease = rooms.ledger.enter(ACME, COUNTED)
    assert isinstance(lease, Lease)
    assert rooms.ledger.reserve(lease, 0) is None
    assert lease.minute == (5000, 5000 - tokens, 60 * SECOND)


async def test_a_stream_is_asked_for_its_count_and_the_caller_does_not_see_it() -> None:
    rooms = house(COUNTED)
    for wish, hidden in ((None, True), ({"include_usage": False}, True), ({"include_usage": True}, False)):
        await serve(rooms, ask({**STREAM, **({"stream_options": wish} if wish else {})}))
        request = rooms.dispatch.requests[-1]
        assert json.loads(request.body)["stream_options"] == {"include_usage": True}
        assert request.hides_usage is hidden
        assert not any("stream_options.include_usage" in change for change in rooms.journal.records[-1].changes)
    await serve(rooms)
    assert "stream_options" not in json.loads(rooms.dispatch.requests[-1].body)
    assert not rooms.dispatch.requests[-1].hides_usage


async def test_a_ledger_that_cannot_be_asked_lets_nobody_in() -> None:
    rooms = house(over=Reason.LEDGER_UNAVAILABLE)
    door = await serve(rooms)
    status, _, body = told(door)
    assert (status, body["error"]["code"]) == (503, "ledger-unavailable")
    assert "no answer" not in body["error"]["message"]
    assert rooms.record.detail == "no answer"


async def test_another_principal_does_not_share_the_numbers() -> None:
    rooms = House(
        plane(clients=[client("acme", limit=NARROW), client("other", limit=NARROW)]),
        principals={"acme": principal(), "other": principal("other")},
    )
    for name in ("acme", "other"):
        for _ in range(2):
            assert (await serve(rooms, ask(credential=name))).head_out
        assert code(await serve(rooms, ask(credential=name))) == "over-rate"


def shared(limit: Limit) -> House:
    """Give a house of two clients who share what there is of the model."""
    models = {**MODELS, "local": replace(MODELS["local"], limit=limit)}
    rules = replace(plane(clients=[client("acme", limit=COUNTED), client("other", limit=COUNTED)]), models=models)
    return House(rules, principals={"acme": principal(), "other": principal("other")})


@pytest.mark.parametrize(
    "limit,code,sentence",
    [
        (Limit("big", 1, 9), "over-rate", "is 1 in any minute; try again in 60 s"),
        (Limit("big", 9, 9, 600), "over-tokens", "is 600 in any minute; try again in 60 s"),
        (Limit("big", 9, 9, 9999, 600), "over-tokens", "is 9999 in any minute and 600 in a UTC day; try again in"),
    ],
)
async def test_what_a_model_has_is_for_all_clients_and_nobody_is_told_what_others_used(
    limit: Limit, code: str, sentence: str
) -> None:
    rooms = shared(limit)
    rooms.dispatch.usage = Usage(500, 80)
    call = {**HI, "max_tokens": 50}
    assert (await serve(rooms, ask(call))).head_out
    status, headers, body = told(await serve(rooms, ask(call, credential="other")))
    assert (status, body["error"]["code"]) == (429, code)
    assert f"(the limit of the model `local` for all its callers {sentence}" in body["error"]["message"]
    assert headers["x-ratelimit-remaining-requests"] == "99"
    assert "x-ratelimit-remaining-tokens" not in headers
    assert rooms.ledger.open == {("partner", "acme"): 0, ("partner", "other"): 0}
    assert len(rooms.dispatch.requests) == 1
    rooms.time_us = 86_400 * SECOND
    assert (await serve(rooms, ask(call, credential="other"))).head_out


async def test_a_place_of_a_model_is_taken_until_the_answer_has_ended() -> None:
    rooms = shared(Limit("big", 9, 1))
    held = holding(rooms)
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(rooms))
        await asyncio.sleep(0)
        _, _, body = told(await serve(rooms, ask(credential="other")))
        assert body["error"]["message"].endswith(
            "(the limit of the model `local` for all its callers is 1; try again when one of them has ended)."
        )
        held.set()
    assert (await serve(rooms, ask(credential="other"))).head_out
