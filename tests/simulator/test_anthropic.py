from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulator.conftest import Asking, hi

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
TOOLS: dict[str, Any] = {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "any"}}


def parsed(events: list[str]) -> list[dict[str, Any]]:
    """Take events apart; each bears its type as its name."""
    found = []
    for event in events:
        name, data = event.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        found.append(value)
    return found


@pytest.mark.parametrize(
    "switch, tokens",
    [
        ({}, 14),
        ({"reasoning_effort": "none"}, 14),
        ({"thinking": {"type": "disabled"}}, 20),
        ({"thinking": {"type": "adaptive"}}, 14),
        ({"output_config": {"effort": "high"}}, 14),
        ({"chat_template_kwargs": {"enable_thinking": False}}, 20),
        ({"output_config": {"effort": "high"}, "chat_template_kwargs": {"enable_thinking": False}}, 20),
        ({"thinking": {"type": "disabled"}, "chat_template_kwargs": {"enable_thinking": True}}, 14),
    ],
)
async def test_thinking_shows_in_the_prompt_and_in_its_count(
    asking: Asking, switch: dict[str, Any], tokens: int
) -> None:
    _, answer = await asking.post(MESSAGES, hi(max_tokens=2, **switch))
    assert answer["usage"] == {"input_tokens": tokens, "output_tokens": 2}
    _, counted = await asking.post(COUNT, hi(**switch))
    assert counted == {"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}}


async def test_over_a_servers_default_an_effort_thinks_and_a_mode_does_not(asking: Asking) -> None:
    asking.engine.state.default_enable_thinking = False
    assert (await asking.post(COUNT, hi(thinking={"type": "adaptive"})))[1]["input_tokens"] == 20
    assert (await asking.post(COUNT, hi(output_config={"effort": "low"})))[1]["input_tokens"] == 14


async def test_a_whole_answer_is_a_message(asking: Asking) -> None:
    _, answer = await asking.post(MESSAGES, hi(max_tokens=2))
    assert (answer["type"], answer["role"], answer["model"]) == ("message", "assistant", "local")
    assert answer["content"] == [{"type": "text", "text": " The quick"}]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("max_tokens", None)
    assert (await asking.post(MESSAGES, hi(max_tokens=99)))[1]["stop_reason"] == "end_turn"


async def test_a_stream_has_named_events_and_its_count_in_two_parts(asking: Asking) -> None:
    events = parsed(await asking.events(MESSAGES, hi(max_tokens=2, stream=True)))
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0]["message"]["usage"] == {"input_tokens": 14, "output_tokens": 0}
    assert events[-2]["usage"] == {"input_tokens": 14, "output_tokens": 2}
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"


async def test_reasoning_is_a_signed_block_before_the_text(asking: Asking) -> None:
    asking.engine.state.reasoning_parser = True
    events = parsed(await asking.events(MESSAGES, hi(max_tokens=4, stream=True)))
    kinds = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert kinds == ["thinking", "text"]
    deltas = [(event["index"], event["delta"]["type"]) for event in events if event["type"] == "content_block_delta"]
    assert deltas == [
        (0, "thinking_delta"),
        (0, "thinking_delta"),
        (0, "signature_delta"),
        (1, "text_delta"),
        (1, "text_delta"),
    ]
    _, whole = await asking.post(MESSAGES, hi(max_tokens=4))
    assert [block["type"] for block in whole["content"]] == ["thinking", "text"]
    assert whole["content"][1]["text"] == " brown fox"


async def test_a_forced_tool_is_called(asking: Asking) -> None:
    _, answer = await asking.post(MESSAGES, hi(max_tokens=2, **TOOLS))
    (call,) = answer["content"]
    assert (call["type"], call["name"], call["input"], answer["stop_reason"]) == ("tool_use", "f", {}, "tool_use")
    events = parsed(await asking.events(MESSAGES, hi(max_tokens=2, stream=True, **TOOLS)))
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert deltas == [{"type": "input_json_delta", "partial_json": "{}"}]


async def test_an_answer_that_is_aborted_before_its_first_token_is_empty(asking: Asking) -> None:
    asking.engine.state.tokens = 0
    assert (await asking.post(MESSAGES, hi(max_tokens=4)))[1]["content"] == [{"type": "text", "text": ""}]
    events = parsed(await asking.events(MESSAGES, hi(max_tokens=4, stream=True)))
    assert [event["type"] for event in events] == ["message_delta", "message_stop"]


async def test_an_error_of_the_run_has_anthropics_shape_and_one_of_the_body_openais(asking: Asking) -> None:
    status, answer = await asking.post(MESSAGES, hi(model="zzz", max_tokens=2))
    assert (status, answer["type"], answer["error"]["type"]) == (404, "error", "NotFoundError")
    budget = {"type": "enabled", "budget_tokens": 1024}
    status, answer = await asking.post(MESSAGES, hi(max_tokens=2048, thinking=budget))
    assert (status, answer["error"]["type"]) == (400, "BadRequestError")
    status, answer = await asking.post(COUNT, hi(model="zzz"))
    assert (status, answer["error"]["type"]) == (404, "NotFoundError")
    status, answer = await asking.post(MESSAGES, hi())
    assert (status, answer["error"]["type"], answer["error"]["param"]) == (400, "Bad Request", "body.max_tokens")
