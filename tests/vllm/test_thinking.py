"""Whether the model thinks, by the engine's own count of prompt tokens: 14, or 20 with an empty think block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

    from tests.vllm.real_engine import RealEngine

THINKING, NOT_THINKING = 14, 20
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    "wish, prompt_tokens",
    [
        ({}, NOT_THINKING),
        ({"chat_template_kwargs": None}, NOT_THINKING),
        ({"chat_template_kwargs": {}}, NOT_THINKING),
        ({"chat_template_kwargs": {"enable_thinking": None}}, NOT_THINKING),
        ({"chat_template_kwargs": {"enable_thinking": False}}, NOT_THINKING),
        ({"reasoning_effort": "none"}, NOT_THINKING),
        ({"chat_template_kwargs": {"enable_thinking": True}}, THINKING),
        ({"reasoning_effort": "low"}, THINKING),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_it_thinks_when_that_is_wished_in_so_many_words_alone(
    sdk: openai.OpenAI, wish: dict[str, Any], prompt_tokens: int, *, stream: bool
) -> None:
    if stream:
        chunks = sdk.chat.completions.create(
            model="small",
            messages=HI,
            max_tokens=2,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=wish,
        )
        usage = list(chunks)[-1].usage
    else:
        usage = sdk.chat.completions.create(model="small", messages=HI, max_tokens=2, extra_body=wish).usage
    assert usage
    assert usage.prompt_tokens == prompt_tokens


@pytest.mark.parametrize("switch", ["false", "true", 0, 1, "auto", [], {}])
def test_a_switch_that_is_neither_true_nor_false_is_refused_and_never_reaches_the_engine(
    sdk: openai.OpenAI, engine: RealEngine, switch: object
) -> None:
    mark = engine.mark()
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.chat.completions.create(
            model="small", messages=HI, extra_body={"chat_template_kwargs": {"enable_thinking": switch}}
        )
    assert caught.value.code == "parameter-invalid"
    assert caught.value.param == "chat_template_kwargs.enable_thinking"
    assert ("POST", "/v1/chat/completions") not in {request[:2] for request in engine.served_since(mark)}
