"""OpenAI's SDK, unchanged but for its base URL and key, chats with a real vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
import pytest

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletionMessageParam

    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


def test_a_plain_answer_comes_whole(sdk: OpenAI) -> None:
    answer = sdk.chat.completions.create(model="small", messages=HI, max_tokens=8, extra_body={"ignore_eos": True})
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage
    assert answer.usage.completion_tokens == 8


def test_a_streamed_answer_comes_token_by_token_and_with_its_usage(sdk: OpenAI) -> None:
    chunks = list(
        sdk.chat.completions.create(
            model="small",
            messages=HI,
            max_tokens=8,
            seed=1,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
    )
    whole = sdk.chat.completions.create(
        model="small", messages=HI, max_tokens=8, seed=1, temperature=0, extra_body={"ignore_eos": True}
    )
    deltas = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(deltas) == whole.choices[0].message.content
    assert len([delta for delta in deltas if delta]) > 1
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens == 8


def test_an_access_token_is_as_good_as_a_key(gateway: Serving, access_token: str) -> None:
    with openai.OpenAI(base_url=gateway.url, api_key=access_token, max_retries=0) as client:
        response = client.chat.completions.with_raw_response.create(model="small", messages=HI, max_tokens=4)
    answer = response.parse()
    assert answer.choices[0].message.role == "assistant"
    record = gateway.record(response.headers["x-request-id"])
    assert (record["client"], record["credential"]) == ("app", "access_token")
    assert answer.usage
    assert record["usage"]["prompt"] == answer.usage.prompt_tokens


def test_a_wrong_key_is_an_authentication_error_and_no_request_to_the_engine(
    gateway: Serving, engine: RealEngine
) -> None:
    mark = engine.mark()
    with openai.OpenAI(base_url=gateway.url, api_key="vgw_wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.chat.completions.create(model="small", messages=HI)
        assert caught.value.code == "credential-invalid"
    assert ("POST", "/v1/chat/completions") not in {request[:2] for request in engine.served_since(mark)}


def test_the_list_of_models_has_what_is_permitted_and_served_and_no_path_of_the_engine(sdk: OpenAI) -> None:
    models = sdk.models.list()
    assert [model.id for model in models] == ["small"]
    assert "/" not in models.model_dump_json()
    assert sdk.models.retrieve("small").id == "small"


def test_a_model_that_is_not_served_is_not_there(sdk: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("ghost")
