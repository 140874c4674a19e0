"""Anthropic's SDK, unchanged but for its base URL and key, talks to a real vLLM; its count of tokens shows thinking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from anthropic import Anthropic

from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anthropic.types import MessageParam

    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

THINKING, NOT_THINKING = 14, 20
HI: list[MessageParam] = [{"role": "user", "content": "hi"}]


@pytest.fixture
def claude(gateway: Serving) -> Iterator[Anthropic]:
    """Give Anthropic's own client."""
    with Anthropic(base_url=gateway.url.removesuffix("/v1"), api_key=KEY, max_retries=0, timeout=30) as client:
        yield client


def test_a_message_comes_whole_and_in_pieces_and_is_counted(gateway: Serving, claude: Anthropic) -> None:
    asked: dict[str, Any] = {"model": "small", "max_tokens": 8, "messages": HI, "extra_body": {"temperature": 0}}
    whole = claude.messages.create(**asked)
    with claude.messages.stream(**asked) as events:
        message = events.get_final_message()
        request_id = events.response.headers["x-request-id"]
    assert [block.to_dict() for block in message.content] == [block.to_dict() for block in whole.content]
    assert (message.usage.input_tokens, message.usage.output_tokens) == (NOT_THINKING, whole.usage.output_tokens)
    record = gateway.record(request_id)
    assert (record["endpoint"], record["outcome"]) == ("messages", "ok")
    assert (record["usage"]["prompt"], record["usage"]["completion"]) == (NOT_THINKING, whole.usage.output_tokens)


@pytest.mark.parametrize(
    "wish, prompt_tokens",
    [
        ({}, NOT_THINKING),
        ({"thinking": None}, NOT_THINKING),
        ({"thinking": {}}, NOT_THINKING),
        ({"thinking": {"type": "disabled"}}, NOT_THINKING),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, NOT_THINKING),
        ({"chat_template_kwargs": {"enable_thinking": False}}, NOT_THINKING),
        ({"thinking": {"type": "adaptive"}}, THINKING),
        ({"output_config": {"effort": "low"}}, THINKING),
        ({"chat_template_kwargs": {"enable_thinking": True}}, THINKING),
    ],
)
def test_it_thinks_when_that_is_wished_in_so_many_words_alone(
    claude: Anthropic, wish: dict[str, Any], prompt_tokens: int
) -> None:
    message = claude.messages.create(model="small", max_tokens=2, messages=HI, extra_body=wish)
    assert message.usage.input_tokens == prompt_tokens
    counted = claude.messages.count_tokens(model="small", messages=HI, extra_body=wish)
    assert counted.input_tokens == prompt_tokens


def test_blocks_and_results_of_tools_are_read(claude: Anthropic) -> None:
    turns: list[MessageParam] = [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Bergen"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "12 degrees"}]},
    ]
    message = claude.messages.create(model="small", max_tokens=2, messages=turns, system="be brief")
    assert message.usage.output_tokens


def test_errors_of_the_engine_and_of_the_gateway_have_one_shape(claude: Anthropic, engine: RealEngine) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        claude.messages.create(model="small", max_tokens=8, messages=[{"role": "user", "content": "fish " * 600}])
    assert body_of(caught.value)["error"]["code"] == "engine-error"
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="ghost", max_tokens=8, messages=HI)
    assert body_of(missing.value)["error"]["type"] == "not_found_error"
    mark = engine.mark()
    with pytest.raises(anthropic.BadRequestError) as refused:
        claude.messages.create(model="small", max_tokens=8, messages=HI, extra_body={"priority": 1})
    assert body_of(refused.value)["error"]["code"] == "parameter-not-accepted"
    assert "/v1/messages" not in {target for _, target, _ in engine.served_since(mark)}


def body_of(error: anthropic.APIStatusError) -> dict[str, Any]:
    """Take the body out of an error; it names the request."""
    assert isinstance(error.body, dict)
    assert len(error.body["request_id"]) == 32
    return error.body
