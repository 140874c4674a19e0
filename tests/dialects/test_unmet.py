from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.unmet import of_chat, stream_options, tool_choice

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
