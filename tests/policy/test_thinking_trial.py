"""A trial asks what a caller would ask who says nothing about thinking, and the same with the switch on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.policy.model import Endpoint, ParameterRules, Plane, ThinkingRule
from gateway.policy.thinking_trial import TOKENS, ThinkingTrial, thinking_trials
from tests.policy.planes import MODELS, PARTNER, plane

MESSAGES = Endpoint(
    "messages",
    "POST",
    b"/v1/messages",
    "anthropic-messages",
    parameters=ParameterRules(frozenset({"model", "messages", "max_tokens"})),
)
RESPONSES = Endpoint(
    "responses",
    "POST",
    b"/v1/responses",
    "openai-responses",
    parameters=ParameterRules(frozenset({"model", "input", "max_output_tokens"})),
)


def only(one: Plane, *aliases: str) -> Plane:
    return replace(one, models={alias: MODELS[alias] for alias in aliases})


def sent(body: bytes | None) -> dict[str, Any]:
    value = orjson.loads(body or b"null")
    assert isinstance(value, dict)
    return value


def only_one(one: Plane) -> ThinkingTrial:
    (trial,) = thinking_trials([one])
    return trial


def test_a_chat_is_asked_twice_and_differs_in_the_switch_alone() -> None:
    trial = only_one(only(plane(), "local"))
    assert (trial.alias, trial.engine, trial.served_as, trial.switch) == ("local", "main", "local", "enable_thinking")
    assert (trial.dialect, trial.method, trial.path) == ("openai-chat", "POST", "/v1/chat/completions")
    off, on = sent(trial.off), sent(trial.on)
    assert off["max_completion_tokens"] == TOKENS
    assert (off.pop("chat_template_kwargs"), on.pop("chat_template_kwargs")) == (
        {"enable_thinking": False},
        {"enable_thinking": True},
    )
    assert off == on


@pytest.mark.parametrize(
    "alias, off, on",
    [
        (
            "twice",
            {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
            {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}},
        ),
        ("reasoner", {"chat_template_kwargs": {"thinking": False}}, {"chat_template_kwargs": {"thinking": True}}),
        ("effort", {"reasoning_effort": "none"}, {}),
    ],
)
def test_each_switch_is_turned_by_its_own_name(alias: str, off: dict[str, Any], on: dict[str, Any]) -> None:
    trial = only_one(only(plane(), alias))
    plain = {"model", "messages", "max_completion_tokens"}
    assert {name: value for name, value in sent(trial.off).items() if name not in plain} == off
    assert {name: value for name, value in sent(trial.on).items() if name not in plain} == on


def test_a_model_without_a_switch_has_nothing_to_turn() -> None:
    assert only_one(only(plane(), "plain")).on is None


@pytest.mark.parametrize(
    "endpoint, alias, switch",
    [
        (MESSAGES, "local", {"chat_template_kwargs": {"enable_thinking": False}}),
        (MESSAGES, "effort", {"thinking": {"type": "disabled"}}),
        (RESPONSES, "local", {"chat_template_kwargs": {"enable_thinking": False}}),
        (RESPONSES, "effort", {"reasoning": {"effort": "none"}}),
    ],
)
def test_thinking_08_each_api_that_makes_text_is_tried(endpoint: Endpoint, alias: str, switch: dict[str, Any]) -> None:
    _, trial = thinking_trials([only(plane(endpoints=[endpoint]), alias)])
    assert (trial.dialect, trial.path) == (endpoint.dialect, endpoint.path.decode())
    assert switch.items() <= sent(trial.off).items()
    assert not switch.items() <= sent(trial.on).items()
    assert TOKENS in sent(trial.off).values()


def test_a_model_is_tried_once_by_each_api_and_no_model_that_makes_no_text() -> None:
    one = only(plane(), "local", "embed")
    assert len(thinking_trials([one, one])) == 1


def test_an_endpoint_where_thinking_is_on_or_that_has_no_rules_is_not_tried() -> None:
    enabled = replace(PARTNER, thinking=ThinkingRule(default_enabled=True))
    assert thinking_trials([only(plane(enabled), "local")]) == []
    assert thinking_trials([only(plane(None), "local")]) == []


def test_what_the_policy_would_refuse_is_not_tried_either() -> None:
    assert thinking_trials([only(plane(ParameterRules(frozenset({"model"}))), "local")]) == []
