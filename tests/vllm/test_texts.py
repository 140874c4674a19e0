"""OpenAI's SDK asks a real vLLM for responses and completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from openai import OpenAI

    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

THINKING, NOT_THINKING = 14, 20
LONG: dict[str, Any] = {"model": "small", "input": "hi", "max_output_tokens": 4, "extra_body": {"ignore_eos": True}}
NAMES = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]
TOOL: Any = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True}


class Choice(BaseModel):
    """An answer that a random model can give when a grammar leaves no other."""

    model_config = ConfigDict(extra="forbid")

    word: Literal["x"]


def prompt_tokens(sdk: OpenAI, **fields: Any) -> int:  # noqa: ANN401  (JSON values)
    usage = sdk.responses.create(**{**LONG, **fields}).usage
    assert usage
    return int(usage.input_tokens)


def test_a_plain_response_comes_whole(sdk: OpenAI) -> None:
    answer = sdk.responses.create(**LONG, store=True)
    assert answer.output_text
    assert answer.status == "incomplete"
    assert answer.usage
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (NOT_THINKING, 4)


def test_a_streamed_response_has_the_events_that_the_simulator_imitates(gateway: Serving, sdk: OpenAI) -> None:
    with sdk.responses.with_streaming_response.create(**LONG, stream=True) as raw:
        request_id = raw.headers["x-request-id"]
        events: list[Any] = list(raw.parse())
    assert list(dict.fromkeys(event.type for event in events)) == NAMES
    record = gateway.record(request_id)
    assert record["outcome"] == "ok"
    assert record["usage"]["prompt"] == NOT_THINKING
    assert record["usage"]["completion"] == 4


@pytest.mark.parametrize(
    "wish, expected",
    [
        ({}, NOT_THINKING),
        ({"reasoning": {}}, NOT_THINKING),
        ({"reasoning": {"summary": "auto"}}, NOT_THINKING),
        ({"reasoning": {"effort": "none"}}, NOT_THINKING),
        ({"reasoning": {"effort": "low"}}, THINKING),
        ({"extra_body": {"ignore_eos": True, "chat_template_kwargs": {"enable_thinking": True}}}, THINKING),
    ],
)
def test_it_thinks_about_a_response_only_when_that_is_wished(sdk: OpenAI, wish: dict[str, Any], expected: int) -> None:
    assert prompt_tokens(sdk, **wish) == expected


@pytest.mark.parametrize("status", ["completed", "in_progress", "incomplete"])
def test_an_item_in_progress_is_not_continued(sdk: OpenAI, status: str) -> None:
    item: dict[str, Any] = {"type": "message", "role": "assistant", "id": "msg_1", "status": status}
    item["content"] = [{"type": "output_text", "text": "hi", "annotations": []}]
    plain = {"role": "assistant", "content": "hi"}
    assert prompt_tokens(sdk, input=[item]) == prompt_tokens(sdk, input=[plain])


def test_an_answer_is_sent_back_as_the_sdk_gives_it_with_calls_and_reasoning(sdk: OpenAI) -> None:
    first = sdk.responses.create(**LONG)
    reasoning: Any = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]}
    call: Any = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    output: Any = {"type": "function_call_output", "call_id": "c", "output": "42"}
    question: Any = {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    turns = [question, reasoning, *first.output, call, output, question]
    answer = sdk.responses.create(**{**LONG, "input": turns}, tools=[TOOL], include=["reasoning.encrypted_content"])
    assert answer.usage
    assert answer.usage.input_tokens > NOT_THINKING


def test_a_structured_answer_is_parsed(sdk: OpenAI) -> None:
    answer = sdk.responses.parse(model="small", input="hi", max_output_tokens=600, text_format=Choice)
    assert answer.output_parsed == Choice(word="x")


def test_what_needs_a_kept_answer_never_reaches_the_engine(sdk: OpenAI, engine: RealEngine) -> None:
    mark = engine.mark()
    for fields in ({"previous_response_id": "resp_1"}, {"background": True}):
        with pytest.raises(openai.BadRequestError):
            sdk.responses.create(**{**LONG, **fields})
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve("resp_1")
    assert not [seen for seen in engine.served_since(mark) if "responses" in seen[1]]


def test_a_plain_completion_has_sixteen_tokens(sdk: OpenAI) -> None:
    answer = sdk.completions.create(model="small", prompt="hi", extra_body={"ignore_eos": True})
    assert answer.choices[0].text
    assert answer.usage
    assert answer.usage.completion_tokens == 16


def test_a_streamed_completion_ends_with_its_count(sdk: OpenAI) -> None:
    chunks = list(
        sdk.completions.create(
            model="small",
            prompt=["hi", "ho"],
            max_tokens=4,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
    )
    assert {choice.index for chunk in chunks for choice in chunk.choices} == {0, 1}
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens == 8
