from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

if TYPE_CHECKING:
    from tests.simulator.conftest import Asking

PATH = "/v1/responses"
HI: dict[str, Any] = {"model": "local", "input": "hi", "max_output_tokens": 2}


def parsed(events: list[str]) -> list[tuple[str, dict[str, Any]]]:
    read = []
    for event in events:
        name, data = event.split("\n")
        read.append((name.removeprefix("event: "), orjson.loads(data.removeprefix("data: "))))
    return read


async def test_a_whole_response_has_vllms_shape(asking: Asking) -> None:
    status, answer = await asking.post(PATH, {**HI, "instructions": "be brief", "user": "u"})
    assert status == 200
    assert (answer["object"], answer["model"], answer["status"]) == ("response", "local", "incomplete")
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["instructions"] == "be brief"
    (message,) = answer["output"]
    assert message["content"] == [{"annotations": [], "text": " The quick", "type": "output_text", "logprobs": []}]
    assert answer["usage"]["output_tokens"] == 2
    assert answer["id"].startswith("resp_")


async def test_a_stream_has_vllms_events_in_vllms_order_and_no_done(asking: Asking) -> None:
    events = parsed(await asking.events(PATH, {**HI, "stream": True}))
    assert [name for name, _ in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [value["sequence_number"] for _, value in events] == list(range(10))
    assert all(name == value["type"] for name, value in events)
    assert events[0][1]["response"]["usage"] is None
    assert events[-1][1]["response"]["usage"]["total_tokens"] == 16
    assert events[-1][1]["response"]["output"][0]["id"] == events[4][1]["item_id"]


async def test_a_thought_is_an_item_of_its_own_where_the_server_parses_it_out(asking: Asking) -> None:
    asking.engine.state.reasoning_parser = True
    events = parsed(await asking.events(PATH, {**HI, "max_output_tokens": 4, "stream": True}))
    kinds = [name.removeprefix("response.") for name, _ in events]
    assert kinds[2:9] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
    ]
    answer = events[-1][1]["response"]
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message"]
    assert answer["output"][0]["content"] == [{"text": " The quick", "type": "reasoning_text"}]
    assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] == 2


async def test_an_item_in_progress_is_continued_past_the_switch_of_thinking(asking: Asking) -> None:
    """The side door that a gateway has to close."""

    async def tokens(**item: str) -> int:
        given = [{"type": "message", "role": "assistant", "content": "hi", **item}]
        off = {"chat_template_kwargs": {"enable_thinking": False}}
        _, answer = await asking.post(PATH, {**HI, "input": given, **off})
        return int(answer["usage"]["input_tokens"])

    assert await tokens() == 20
    assert await tokens(status="completed") == 20
    assert await tokens(status="in_progress") == 6


async def test_items_become_messages(asking: Asking) -> None:
    items = [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
    ]
    status, answer = await asking.post(PATH, {**HI, "input": items})
    assert status == 200
    assert answer["usage"]["input_tokens"] > 30


@pytest.mark.parametrize(
    "fields, status, param",
    [
        ({"prompt": {"id": "p"}}, 400, "prompt"),
        ({"background": True}, 400, "background"),
        ({"background": True, "store": False}, 400, "background"),
        ({"previous_response_id": "r"}, 404, "response_id"),
        ({"tool_choice": "required"}, 400, "tool_choice"),
        ({"input": [{"type": "item_reference", "id": "r"}]}, 400, "input"),
        ({"input": None}, 400, "body.input.str"),
        ({"reasoning": {"effort": "bogus"}}, 400, "body.reasoning.effort"),
        ({"model": "zzz"}, 404, "model"),
    ],
)
async def test_what_vllm_refuses_without_a_store(
    asking: Asking, fields: dict[str, object], status: int, param: str
) -> None:
    answered, error = await asking.post(PATH, {**HI, **fields})
    assert (answered, error["error"]["param"]) == (status, param)


async def test_a_schema_constrains_the_answer(asking: Asking) -> None:
    shape = {"type": "json_schema", "name": "n", "schema": {"properties": {"a": {"type": "string"}}}}
    _, answer = await asking.post(PATH, {"model": "local", "input": "hi", "text": {"format": shape}})
    assert answer["output"][0]["content"][0]["text"] == '{"a":"a"}'
    assert answer["status"] == "completed"
