from __future__ import annotations

from typing import Any

import pytest

from gateway.simulator.anthropic_prompt import CountRequest, MessagesRequest, read
from gateway.simulator.errors import Refused

HI: dict[str, Any] = {"model": "local", "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"name": "f", "input_schema": {}}


@pytest.mark.parametrize(
    "body, effort, budget",
    [
        ({}, None, None),
        ({"thinking": {"type": "disabled"}}, "none", None),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, "none", None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high", None),
        ({"thinking": {"type": "adaptive"}}, None, None),
        ({"thinking": {"type": "enabled", "budget_tokens": "2048"}}, None, 2048),
    ],
)
def test_thinking_becomes_an_effort_or_a_budget_and_never_a_switch(
    body: dict[str, Any], effort: str | None, budget: int | None
) -> None:
    chat = read(MessagesRequest, {**HI, **body}).chat()
    assert (chat["reasoning_effort"], chat["thinking_token_budget"]) == (effort, budget)
    assert chat["chat_template_kwargs"] is None


def test_a_count_has_no_budget() -> None:
    body = {**HI, "thinking": {"type": "enabled", "budget_tokens": 9999}}
    assert "thinking_token_budget" not in read(CountRequest, body).chat()


def test_system_and_blocks_become_messages_of_text_without_the_line_of_claude_code() -> None:
    system = [{"type": "text", "text": "x-anthropic-billing-header: cc"}, {"type": "text", "text": "be brief"}]
    content = [{"type": "text", "text": "a"}, {"type": "image", "source": {}}, {"type": "text", "text": "b"}]
    chat = read(MessagesRequest, {**HI, "system": system, "messages": [{"role": "user", "content": content}]}).chat()
    assert chat["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "a b"}]


@pytest.mark.parametrize(
    "body, forced",
    [
        ({"tools": [TOOL]}, None),
        ({"tools": [TOOL], "tool_choice": {"type": "auto"}}, None),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, "f"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "g"),
        ({"tool_choice": {"type": "any"}}, None),
    ],
)
def test_a_tool_is_forced_by_the_choice(body: dict[str, Any], forced: str | None) -> None:
    assert read(MessagesRequest, {**HI, **body}).forced == forced


@pytest.mark.parametrize(
    "body",
    [
        {"model": ""},
        {"max_tokens": 0},
        {"max_tokens": None},
        {"messages": "hi"},
        {"messages": [{"role": "tool", "content": "hi"}]},
        {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
        {"thinking": {"type": "on"}},
        {"thinking": {"type": "enabled"}},
        {"thinking": {"type": "enabled", "budget_tokens": 1023}},
        {"thinking": {"type": "enabled", "budget_tokens": 4096}},
        {"output_config": {"effort": "none"}},
        {"tool_choice": {"type": "tool"}},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"stop_sequences": ["a"] * 5},
        {"chat_template_kwargs": "x"},
    ],
)
def test_what_the_real_one_does_not_read_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        read(MessagesRequest, {**HI, **body})
    assert caught.value.status == 400


def test_fields_that_are_not_known_are_ignored() -> None:
    assert read(MessagesRequest, {**HI, "priority": -1, "container": "c"}).chat()["model"] == "local"
