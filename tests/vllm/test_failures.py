"""What a partner is told when vLLM says no: whose fault it is, in one shape, and nothing about the inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
import pytest

from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from openai.types.chat import ChatCompletionMessageParam

    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


def test_an_engine_that_refuses_the_gateways_key_is_not_the_callers_fault(
    serve: Callable[[str, str, str], Serving], engine: RealEngine
) -> None:
    mark = engine.mark()
    gateway = serve("wrong-key", f"unix:{engine.socket_path}", "not-the-engine-key")
    with (
        openai.OpenAI(base_url=gateway.url, api_key=KEY, max_retries=0) as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.chat.completions.create(model="small", messages=HI)
    assert caught.value.status_code == 502
    assert caught.value.code == "engine-refused-gateway"
    assert ("GET", "/v1/models", 401) in engine.served_since(mark)


def test_a_model_that_the_client_does_not_have_never_reaches_the_engine(sdk: openai.OpenAI, engine: RealEngine) -> None:
    mark = engine.mark()
    for name in ("local", "never-loaded", "gpt-4o", ""):
        with pytest.raises(openai.NotFoundError) as caught:
            sdk.chat.completions.create(model=name, messages=HI)
        assert caught.value.code == "model-not-permitted"
    assert ("POST", "/v1/chat/completions") not in {request[:2] for request in engine.served_since(mark)}


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_the_engine_does_not_have_is_told_without_its_other_names(
    sdk: openai.OpenAI, *, stream: bool
) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.chat.completions.create(model="ghost", messages=HI, stream=stream)
    assert "local" not in caught.value.response.text
    assert "never-loaded" not in caught.value.response.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_long_comes_back_as_the_engine_says_it(sdk: openai.OpenAI, *, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.chat.completions.create(
            model="small", messages=[{"role": "user", "content": "fish " * 600}], max_tokens=8, stream=stream
        )
    assert "512" in caught.value.message
    assert caught.value.type
    assert "proxy-status" not in caught.value.response.headers  # the engine's word, not the gateway's
