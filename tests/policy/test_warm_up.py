"""A warm-up is what a caller of the policy would send, for one token; what the policy refuses is not asked either."""

from __future__ import annotations

from dataclasses import replace

import orjson

from gateway.policy.model import Model, ParameterRules, Plane, ThinkingRule
from gateway.policy.warm_up import TOGETHER, WarmUp, warm_ups
from gateway.policy.warm_up import asked as first_question
from tests.policy.planes import EMBEDDINGS, INTERNAL, PARTNER
from tests.policy.planes import plane as any_plane


def only(plane: Plane, *models: Model) -> Plane:
    return replace(plane, models={model.alias: model for model in models})


LOCAL = Model("local", "main", "org/local", most_tokens=4096)
EMBED = Model("embed", "embedder", "bge")


def asked(warm_up: WarmUp) -> dict[str, object]:
    body = orjson.loads(warm_up.alone)
    assert isinstance(body, dict)
    return body


def test_a_chat_is_asked_as_a_caller_without_wishes_asks_it_for_one_token() -> None:
    (warm_up,) = warm_ups([only(any_plane(PARTNER), LOCAL)])
    assert (warm_up.engine, warm_up.served_as) == ("main", "org/local")
    assert (warm_up.method, warm_up.path) == ("POST", "/v1/chat/completions")
    assert asked(warm_up) == {
        "model": "org/local",
        "messages": [{"role": "user", "content": "Hello."}],
        "max_completion_tokens": 1,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_what_the_policy_sets_is_in_it() -> None:
    enabled = replace(INTERNAL, thinking=ThinkingRule(default_enabled=True))
    (warm_up,) = warm_ups([only(any_plane(enabled), replace(LOCAL, thinking_switch="thinking"))])
    body = asked(warm_up)
    assert (body["temperature"], body["parallel_tool_calls"]) == (0.2, False)
    assert body["chat_template_kwargs"] == {"thinking": True}


def test_a_pooling_model_is_asked_in_its_own_shape() -> None:
    (warm_up,) = warm_ups([only(any_plane(embeddings=EMBEDDINGS), EMBED)])
    assert (warm_up.path, asked(warm_up)) == ("/v1/embeddings", {"model": "bge", "input": "Hello."})


def test_the_batch_is_of_requests_that_share_no_beginning() -> None:
    (warm_up,) = warm_ups([only(any_plane(), LOCAL)])
    assert len({warm_up.alone, *warm_up.together}) == 1 + TOGETHER


def test_a_model_is_asked_once_however_many_names_and_planes_it_has() -> None:
    plane = only(any_plane(), LOCAL, replace(LOCAL, alias="again"), EMBED)
    assert [one.served_as for one in warm_ups([plane, plane])] == ["org/local", "bge"]


def test_a_model_that_no_endpoint_fits_is_not_asked() -> None:
    plane = only(any_plane(), LOCAL)
    chatless = replace(plane, endpoints={path: of for path, of in plane.endpoints.items() if b"chat" not in path})
    assert warm_ups([chatless]) == []


def test_what_the_policy_would_refuse_is_not_asked() -> None:
    closed = ParameterRules(frozenset({"model"}))
    assert warm_ups([only(any_plane(closed), LOCAL)]) == []


def test_a_dialect_without_a_question_has_no_fields() -> None:
    assert first_question("openai-chat") == {"messages": [{"role": "user", "content": "Hello."}]}
    assert first_question("openai-models") == {}
