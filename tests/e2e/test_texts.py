"""OpenAI's SDK asks for responses and completions, unchanged but for its base URL and key."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import openai
import pytest
from openai import pydantic_function_tool
from pydantic import BaseModel

from tests.e2e.asking import unsalted
from tests.e2e.partners import KEY, Partners, shipped
from tests.e2e.response_scripts import SCRIPTS, STYLES, framed
from tests.e2e.site import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import FunctionToolParam, ResponseInputParam

    from tests.e2e.raw_http import Answer

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
RESPONSES, COMPLETIONS = "/v1/responses", "/v1/completions"
OFF = {"enable_thinking": False}
WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "description": "Tell the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}


class Person(BaseModel):
    """What a model is asked to fill in."""

    name: str
    age: int


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partners]:
    """Run the shipped partner policy and one for raw texts."""
    with shipped(tmp_path_factory.mktemp("texts"), SCRIPTS, plays="RAW") as one:
        yield one


def connected(site: Partners, *, texts: bool = False) -> openai.OpenAI:
    """Make OpenAI's client, for the partner plane unless said otherwise; it tries nothing again."""
    host, port = site.texts if texts else site.address
    key = KEYS["KEY-INSIDE"] if texts else KEY
    return openai.OpenAI(base_url=f"http://{host}:{port}/v1", api_key=key, max_retries=0)


def post(site: Partners, path: str, body: dict[str, Any]) -> Answer:
    """Ask the plane for raw texts by hand."""
    return site.post(path, body, texts=True, authorization=f"Bearer {KEYS['KEY-INSIDE']}")


def script(site: Partners, name: str) -> Answer:
    """Ask the engine that plays scripts for a stream of a response."""
    return post(site, RESPONSES, {"model": "raw", "input": f"script:{name}", "stream": True})


def test_a_plain_response_is_neither_stored_nor_thought_about(site: Partners) -> None:
    with connected(site) as client:
        answer = client.responses.create(model="local", input="hi")
    assert answer.output_text.startswith(" The quick")
    assert unsalted(site.last()) == {
        "model": "local",
        "input": "hi",
        "store": False,
        "max_output_tokens": 4096,
        "chat_template_kwargs": OFF,
    }


def test_the_count_of_a_response_is_recorded(site: Partners) -> None:
    with connected(site) as client:
        raw = client.responses.with_raw_response.create(model="local", input="hi", store=True)
    usage = raw.parse().usage
    assert usage is not None
    record = site.record(raw.headers["x-request-id"])
    assert record["usage"] == {"prompt": usage.input_tokens, "completion": usage.output_tokens, "reasoning": 0}
    assert "replace store" in record["changes"]
    assert raw.headers["x-gateway-changes"] == "replace store"


def test_a_streamed_response_comes_event_by_event_to_its_end(site: Partners) -> None:
    with (
        connected(site) as client,
        client.responses.with_streaming_response.create(model="local", input="hi", stream=True) as raw,
    ):
        request_id = raw.headers["x-request-id"]
        events = list(raw.parse())
    assert [event.type for event in events[:3]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
    ]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta").startswith(" The")
    assert events[-1].type == "response.completed"
    record = site.record(request_id)
    assert (record["outcome"], record["usage"]["completion"]) == ("ok", 16)


def test_the_stream_helper_of_the_sdk_gives_the_final_response(site: Partners) -> None:
    with (
        connected(site) as client,
        client.responses.stream(model="local", input="hi", instructions="be brief") as stream,
    ):
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert final.output_text.startswith(" The quick")
    assert site.last()["instructions"] == "be brief"


def test_a_structured_answer_is_parsed(site: Partners) -> None:
    with connected(site) as client:
        answer = client.responses.parse(model="local", input="who?", text_format=Person)
    assert answer.output_parsed == Person(name="a", age=0)
    shape = site.last()["text"]["format"]
    assert (shape["type"], shape["name"], shape["strict"]) == ("json_schema", "Person", True)


def test_tools_are_functions_and_their_calls_are_sent_back(site: Partners) -> None:
    with connected(site) as client:
        client.responses.create(model="local", input="hi", tools=[WEATHER], tool_choice="auto")
        assert site.last()["tools"] == [WEATHER]
        turns: ResponseInputParam = [
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "c", "name": "weather", "arguments": '{"city": "Bonn"}'},
            {"type": "function_call_output", "call_id": "c", "output": "rain"},
        ]
        client.responses.create(model="local", input=turns, tools=[WEATHER])
    assert site.last()["input"] == turns


def test_an_answer_is_sent_back_as_the_sdk_gives_it(site: Partners) -> None:
    with connected(site) as client:
        first = client.responses.create(model="local", input="hi")
        turns: Any = [{"role": "user", "content": "hi"}, *first.output, {"role": "user", "content": "go on"}]
        client.responses.create(model="local", input=turns, include=["reasoning.encrypted_content"], store=False)
    item = site.last()["input"][1]
    assert item["role"] == "assistant"
    assert set(item) == {"type", "role", "content"}
    assert set(item["content"][0]) == {"type", "text"}


def test_thinking_is_asked_for_by_effort(site: Partners) -> None:
    with connected(site) as client:
        client.responses.create(model="local", input="hi", reasoning={"effort": "high", "summary": "auto"})
    assert site.last()["reasoning"] == {"effort": "high"}
    assert "chat_template_kwargs" not in site.last()


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"background": True}, "background"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "mcp", "server_label": "x", "server_url": "https://x"}]}, "tools[0].type"),
        ({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, "tools[0].type"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"include": ["file_search_call.results"]}, "include[0]"),
        ({"extra_body": {"kv_transfer_params": {}}}, "kv_transfer_params"),
    ],
)
def test_what_is_refused_is_named_and_never_reaches_the_engine(
    site: Partners, fields: dict[str, Any], param: str
) -> None:
    before = len(site.reached())
    with connected(site) as client, pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**{"model": "local", "input": "hi", **fields})
    assert caught.value.param == param
    assert len(site.reached()) == before


def test_a_kept_response_can_be_neither_read_nor_cancelled(site: Partners) -> None:
    before = len(site.reached())
    with connected(site) as client:
        for ask in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                ask("resp_1")
    assert len(site.reached()) == before


def test_thinking_06_dropping_unlisted_fields_never_drops_what_would_need_a_kept_answer(site: Partners) -> None:
    answer = post(site, RESPONSES, {"model": "m", "input": "hi", "top_k": 5, "reasoning_effort": "none"})
    assert answer.status == 200
    assert {"top_k", "reasoning_effort"}.isdisjoint(site.last())
    assert site.last()["chat_template_kwargs"] == OFF
    answer = post(site, RESPONSES, {"model": "m", "input": "hi", "previous_response_id": "r"})
    assert (answer.status, answer.code) == (400, "parameter-not-accepted")


@pytest.mark.parametrize("style", STYLES)
def test_stream_12_the_bytes_of_a_stream_pass_as_they_are_however_it_is_framed(site: Partners, style: str) -> None:
    answer = script(site, style)
    assert answer.body == b"".join(framed(style))
    record = site.record(answer.value("x-request-id"))
    assert record["usage"] == {"prompt": 5, "completion": 7, "reasoning": 2}
    assert record["outcome"] == "ok"


def test_a_stream_that_breaks_ends_with_an_error_that_the_sdk_raises(site: Partners) -> None:
    seen: list[str] = []
    with connected(site, texts=True) as client:
        stream = client.responses.create(model="raw", input="script:cut", stream=True)
        with pytest.raises(openai.APIError) as caught:
            seen.extend(event.type for event in stream)
    assert seen == ["response.created", "response.output_text.delta"]
    assert caught.value.code == "engine-error"


def test_clients_10_a_last_event_of_a_megabyte_passes_whole_and_its_count_is_found(site: Partners) -> None:
    answer = script(site, "long")
    assert answer.body.endswith(b'"type":"response.completed"}\n\n')
    assert len(answer.body) > 1_500_000
    record = site.record(answer.value("x-request-id"))
    assert (record["usage"]["completion"], record["outcome"]) == (7, "ok")


def test_clients_06_nothing_is_added_to_a_stream_of_a_response(site: Partners) -> None:
    with connected(site) as client:
        for _ in client.responses.create(model="local", input="hi", stream=True):
            pass
    sent = unsalted(site.last())
    assert set(sent) == {"model", "input", "stream", "store", "max_output_tokens", "chat_template_kwargs"}


def test_routing_01_an_answer_names_the_model_as_the_engine_does(site: Partners) -> None:
    with connected(site) as client:
        assert client.responses.create(model="reasoner", input="hi").model == "deepseek"
        events = list(client.responses.create(model="reasoner", input="hi", stream=True))
    assert events[-1].type == "response.completed"
    assert events[-1].response.model == "deepseek"
    assert site.last()["chat_template_kwargs"] == {"thinking": False}


# Chat and embeddings on the shipped policy


def test_a_structured_chat_is_parsed(site: Partners) -> None:
    with connected(site) as client:
        answer = client.chat.completions.parse(model="local", messages=HI, response_format=Person)
    assert answer.choices[0].message.parsed == Person(name="a", age=0)
    assert site.last()["response_format"]["json_schema"]["name"] == "Person"


def test_the_stream_helper_of_chat_gives_the_final_answer(site: Partners) -> None:
    with (
        connected(site) as client,
        client.chat.completions.stream(
            model="local", messages=HI, tools=[pydantic_function_tool(Person)], stream_options={"include_usage": True}
        ) as stream,
    ):
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert (final.choices[0].message.content or "").startswith(" The quick")
    assert final.usage is not None
    assert site.last()["tools"][0]["function"]["name"] == "Person"


def test_a_client_without_the_endpoint_is_told_so(site: Partners) -> None:
    with connected(site) as client, pytest.raises(openai.PermissionDeniedError) as caught:
        client.embeddings.create(model="embed", input="hi")
    assert caught.value.code == "endpoint-not-granted"


# Completions


def test_thinking_10_a_plain_completion_has_sixteen_tokens_and_no_switch(site: Partners) -> None:
    with connected(site, texts=True) as client:
        answer = client.completions.create(model="m", prompt="hi")
    assert answer.choices[0].text.startswith(" The quick")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16
    assert unsalted(site.last()) == {"model": "local", "prompt": "hi", "max_tokens": 16}


def test_a_streamed_completion_ends_with_its_count(site: Partners) -> None:
    with connected(site, texts=True) as client:
        chunks = list(
            client.completions.create(
                model="m", prompt="hi", max_tokens=3, stream=True, stream_options={"include_usage": True}
            )
        )
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == " The quick brown"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3


def test_body_06_several_prompts_have_several_answers_up_to_the_cap(site: Partners) -> None:
    with connected(site, texts=True) as client:
        answer = client.completions.create(model="m", prompt=["a", "b"], n=3, max_tokens=1)
        assert site.last()["n"] == 2
        assert len(answer.choices) == 4
        with pytest.raises(openai.BadRequestError) as caught:
            client.completions.create(model="m", prompt=["a"] * 5)
    assert (caught.value.param, caught.value.code) == ("prompt", "parameter-over-cap")


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"echo": True}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 6}, "logprobs"),
        ({"prompt": [1, 2]}, "prompt[0]"),
        ({"prompt": ""}, "prompt"),
        ({"extra_body": {"prompt_embeds": "x"}}, "prompt_embeds"),
        ({"extra_body": {"chat_template_kwargs": OFF}}, "chat_template_kwargs"),
    ],
)
def test_what_a_completion_may_not_hold_is_named(site: Partners, fields: dict[str, Any], param: str) -> None:
    before = len(site.reached())
    with connected(site, texts=True) as client, pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{"model": "m", "prompt": "hi", **fields})
    assert caught.value.param == param
    assert len(site.reached()) == before


def test_body_04_the_longest_answer_is_bounded_under_each_apis_name(site: Partners) -> None:
    for path, text, name in ((RESPONSES, "input", "max_output_tokens"), (COMPLETIONS, "prompt", "max_tokens")):
        assert post(site, path, {"model": "m", text: "hi", name: 10**6}).status == 200
        assert site.last()[name] == 64


def test_a_caller_who_leaves_stops_the_engine(site: Partners) -> None:
    site.engine.state.latency_s = 0.2
    try:
        with connected(site) as client, client.responses.create(model="local", input="hi", stream=True) as stream:
            next(iter(stream))
        deadline = time.monotonic() + 5
        while site.engine.state.running:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        site.engine.state.latency_s = 0.0
