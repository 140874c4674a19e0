from __future__ import annotations

import anyio
import orjson
import pytest

from gateway.simulator.state import until
from tests.simulator.conftest import Asking, hi

CHAT = "/v1/chat/completions"


def parsed(events: list[str]) -> list[dict[str, object]]:
    return [orjson.loads(event.removeprefix("data: ")) for event in events if event != "data: [DONE]"]


async def test_a_whole_chat_has_vllms_shape(asking: Asking) -> None:
    status, answer = await asking.post(CHAT, hi(max_tokens=2, n=2))
    assert status == 200
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["choices"][0]["message"]["content"] == " The quick"
    assert answer["choices"][0]["finish_reason"] == "length"
    usage = {"prompt_tokens": 14, "total_tokens": 18, "completion_tokens": 4, "prompt_tokens_details": None}
    assert answer["usage"] == usage
    assert answer["object"] == "chat.completion"


async def test_a_stream_has_vllms_order(asking: Asking) -> None:
    events = await asking.events(CHAT, hi(max_tokens=2, stream=True, stream_options={"include_usage": True}))
    assert events[-1] == "data: [DONE]"
    role, first, last, usage = parsed(events)
    assert role["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    assert first["choices"] == [{"index": 0, "delta": {"content": " The"}, "logprobs": None, "finish_reason": None}]
    ending = {"logprobs": None, "finish_reason": "length", "stop_reason": None}
    assert last["choices"] == [{"index": 0, "delta": {"content": " quick"}, **ending}]
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": 14,
        "total_tokens": 16,
        "completion_tokens": 2,
        "prompt_tokens_details": None,
    }
    assert len({event["id"] for event in (role, first, last, usage)}) == 1


async def test_usage_comes_only_when_asked_for_and_choices_have_events_of_their_own(asking: Asking) -> None:
    events = await asking.events(CHAT, hi(max_tokens=1, n=2, stream=True))
    assert len(events) == 5
    assert "usage" not in "".join(events)


async def test_the_head_of_a_stream_comes_before_its_first_token(asking: Asking) -> None:
    asking.engine.state.latency_s = 60
    headers = {"authorization": "Bearer engine-key"}
    with anyio.fail_after(5):
        async with asking.client.stream("POST", CHAT, json=hi(stream=True), headers=headers) as answer:
            assert answer.status_code == 200


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_its_request(asking: Asking, *, stream: bool) -> None:
    asking.engine.state.latency_s = 60
    with anyio.move_on_after(0.2):
        await asking.post(CHAT, hi(stream=stream))
    with anyio.fail_after(2):
        await asking.engine.state.drained()
        await until(lambda: asking.engine.requests[0].left)
    assert asking.engine.state.finished["abort"] == 0


@pytest.mark.parametrize("path, body", [(CHAT, hi()), ("/v1/completions", {"prompt": "hi"})])
async def test_an_aborted_stream_says_so_and_ends_cleanly(asking: Asking, path: str, body: dict[str, object]) -> None:
    asking.engine.state.latency_s = 60

    async def abort() -> None:
        await until(lambda: asking.engine.state.running)
        await asking.client.post("/abort_requests", json={})

    async with anyio.create_task_group() as group:
        group.start_soon(abort)
        events = await asking.events(path, {**body, "stream": True})
    assert '"finish_reason":"abort"' in events[-2]
    assert events[-1] == "data: [DONE]"


async def test_thought_is_parsed_out_and_counted_where_the_server_does(asking: Asking) -> None:
    asking.engine.state.reasoning_parser = True
    _, answer = await asking.post(CHAT, hi(max_tokens=4))
    assert answer["choices"][0]["message"]["reasoning"] == " The quick"
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    events = await asking.events(CHAT, hi(max_tokens=4, stream=True))
    deltas = [event["choices"][0]["delta"] for event in parsed(events)]  # type: ignore[index]  # JSON
    assert [list(delta) for delta in deltas[1:]] == [["reasoning"], ["reasoning"], ["content"], ["content"]]
    _, off = await asking.post(CHAT, hi(max_tokens=4, chat_template_kwargs={"enable_thinking": False}))
    assert off["choices"][0]["message"]["reasoning"] is None


async def test_plain_completions_stream_as_well(asking: Asking) -> None:
    body = {"prompt": "hi", "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}
    events = await asking.events("/v1/completions", body)
    first, last, usage = parsed(events)
    assert first["choices"] == [{"index": 0, "text": " The", "logprobs": None, "finish_reason": None}]
    assert usage["choices"] == []
    assert last["object"] == "text_completion"


async def test_the_callers_request_id_becomes_the_answers(asking: Asking) -> None:
    headers = {"authorization": "Bearer engine-key", "x-request-id": "abc-123"}
    response = await asking.client.post(CHAT, json=hi(), headers=headers)
    assert response.json()["id"] == "chatcmpl-abc-123"


async def test_each_prompt_of_a_list_has_its_own_completion(asking: Asking) -> None:
    _, answer = await asking.post("/v1/completions", {"model": "local", "prompt": ["a", "b c"], "n": 2})
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 5
    _, answer = await asking.post("/v1/completions", {"model": "local", "prompt": [1, 2, 3]})
    assert len(answer["choices"]) == 1
    assert (await asking.post("/v1/completions", {"model": "local", "prompt": ""}))[0] == 400


async def test_a_schema_constrains_a_chat(asking: Asking) -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"properties": {"a": {"const": 1}}}}}
    _, answer = await asking.post(CHAT, hi(response_format=shape))
    assert answer["choices"][0]["message"]["content"] == '{"a":1}'
    assert answer["choices"][0]["finish_reason"] == "stop"


async def test_a_parser_that_does_not_see_the_switch_takes_the_whole_answer_for_thought(asking: Asking) -> None:
    asking.engine.state.blind_parser = True
    _, answer = await asking.post(CHAT, hi(max_tokens=3, chat_template_kwargs={"enable_thinking": False}))
    message = answer["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == (None, " The quick brown")
    assert answer["usage"]["prompt_tokens"] == 20
