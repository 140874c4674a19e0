from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.call import Call
from gateway.dialects.registry import DIALECTS
from gateway.policy.decision import Change, Permit
from gateway.policy.usage_wish import usage_wish
from gateway.wire import strict_json

NAME = "stream_options.include_usage"
ASKED = {"stream_options": {"include_usage": True}}


@pytest.mark.parametrize("fields", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}])
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-completions"])
def test_a_stream_is_asked_for_its_count_where_the_caller_does_not_ask(fields: dict[str, Any], dialect: str) -> None:
    (wish,) = usage_wish(DIALECTS[dialect], Call(fields), Permit(stream=True))
    assert (wish.field, wish.value) == (NAME, True)


@pytest.mark.parametrize("asked", [{}, {"include_usage": False}, {"include_usage": None}])
def test_a_count_in_every_event_is_none_that_the_gateway_asks_for_in_a_callers_name(asked: dict[str, Any]) -> None:
    fields = {"stream_options": {**asked, "continuous_usage_stats": True}, "stream": True}
    call = Call(fields)
    wishes = usage_wish(DIALECTS["openai-chat"], call, Permit(stream=True))
    sent = strict_json.loads(DIALECTS["openai-chat"].write(call, wishes))
    assert sent["stream_options"] == {"include_usage": True, "continuous_usage_stats": False}


def test_what_the_policy_takes_away_is_asked_for_all_the_same() -> None:
    permit = Permit((Change("drop", "stream_options"),), stream=True)
    assert usage_wish(DIALECTS["openai-chat"], Call(ASKED), permit)


@pytest.mark.parametrize(
    "dialect,fields,permit",
    [
        ("openai-chat", ASKED, Permit(stream=True)),
        ("openai-chat", {}, Permit((Change("replace", NAME, value=True),), stream=True)),
        ("openai-chat", {}, Permit()),
        ("openai-responses", {}, Permit(stream=True)),
        ("openai-embeddings", {}, Permit()),
    ],
)
def test_nothing_is_asked_for_twice_or_where_it_is_told_or_means_nothing(
    dialect: str, fields: dict[str, Any], permit: Permit
) -> None:
    assert usage_wish(DIALECTS[dialect], Call(fields), permit) == []
