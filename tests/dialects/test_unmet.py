from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.unmet import of_chat, of_messages, stream_options, tool_choice

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    "body, found",
    [
        ({}, []),
        ({"tools": [TOOL], "tool_choice": "required"}, []),
        ({"stream": True, "stream_options": {"include_usage": True}}, []),
        ({"tools": []}, [("tools", "")]),
        ({"tools": [], "tool_choice": "auto"}, [("tool_choice", ""), ("tools", "")]),
        ({"tool_choice": "none", "tools": None}, [("tool_choice", "")]),
        ({"tool_choice": "required"}, [("tool_choice", "needs tools")]),
        ({"tool_choice": {"type": "function"}, "tools": []}, [("tool_choice", "needs tools"), ("tools", "")]),
        ({"stream_options": {"include_usage": True}}, [("stream_options", "needs stream: true")]),
        ({"stream": False, "stream_options": {}}, []),
    ],
)
def test_fields_that_mean_nothing_alone_are_named(body: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert of_chat(body) == found


def test_other_apis_look_for_what_they_have() -> None:
    body = {"tools": [], "tool_choice": "required", "stream_options": {"include_usage": True}}
    assert tool_choice(body) == [("tool_choice", "needs tools")]
    assert tool_choice({**body, "tools": [TOOL]}) == []
    assert stream_options(body) == [("stream_options", "needs stream: true")]
    assert stream_options({**body, "stream": True}) == []


@pytest.mark.parametrize(
    "body, found",
    [
        ({}, []),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, []),
        ({"tools": []}, [("tools", "")]),
        ({"tool_choice": {"type": "auto"}, "tools": None}, [("tool_choice", "")]),
        ({"tool_choice": {"type": "none"}, "tools": []}, [("tool_choice", ""), ("tools", "")]),
        ({"tool_choice": {"type": "any"}}, [("tool_choice", "needs tools")]),
        ({"tool_choice": {"type": "tool", "name": "f"}}, [("tool_choice", "needs tools")]),
        ({"thinking": None}, []),
        ({"thinking": {}}, []),
        ({"thinking": {"type": None}}, []),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, []),
        ({"thinking": {"type": "disabled"}}, []),
        ({"thinking": {"budget_tokens": 2048}}, [("thinking.type", "is missing")]),
        ({"thinking": {"display": "omitted"}}, []),
        ({"thinking": {"type": "enabled"}}, [("thinking.budget_tokens", "is missing")]),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, []),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 2049}, []),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 2048},
            [("thinking.budget_tokens", "must be less than max_tokens")],
        ),
        (
            {"thinking": {"type": "adaptive", "budget_tokens": 2048}},
            [("thinking.budget_tokens", "goes with thinking.type enabled alone")],
        ),
        (
            {"thinking": {"type": "disabled", "budget_tokens": 2048}},
            [("thinking.budget_tokens", "goes with thinking.type enabled alone")],
        ),
    ],
)
def test_messages_look_for_tools_and_for_a_budget_that_fits(body: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert of_messages(body) == found
