"""Anthropic's own SDK, with nothing but another URL and credential, against the shipped partner policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from anthropic import Anthropic

from gateway.wire.event_stream import KEEP_ALIVE
from tests.e2e.asking import unsalted
from tests.e2e.partners import KEY, Partners, shipped
from tests.simulators.raw_engine import LAST, End, chunk, problem, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anthropic.types import MessageParam, ToolParam

HI: list[MessageParam] = [{"role": "user", "content": "hi"}]
WEATHER: ToolParam = {
    "name": "weather",
    "description": "Says how warm it is",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
BODY: dict[str, Any] = {"model": "local", "max_tokens": 8, "messages": HI}
MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
SEEN_BY_THE_ENGINE = {
    "accept",
    "accept-encoding",
    "authorization",
    "content-length",
    "content-type",
    "host",
    "user-agent",
    "x-request-id",
}


def event(name: str, data: str) -> bytes:
    return chunk(f"event: {name}\ndata: {data}\n\n".encode())


START = event(
    "message_start",
    '{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"org/real",'
    '"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":14,"output_tokens":0}}}',
)
BLOCK = event(
    "content_block_start", '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
)
DELTA = event(
    "content_block_delta",
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}',
)
STOP = event("content_block_stop", '{"type":"content_block_stop","index":0}')
ENDING = event(
    "message_delta",
    '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}',
)
END = event("message_stop", '{"type":"message_stop"}')
COMMENT = chunk(KEEP_ALIVE)
SCRIPTS = {
    "comments": (stream(), START, COMMENT, BLOCK, DELTA, COMMENT, STOP, ENDING, END, LAST),
    "dies": (stream(), START, BLOCK, DELTA, 0.1, End.RESET),
    "stalls": (stream(), START, End.SILENCE),
    "unknown-model": (problem("404 Not Found", "NotFoundError", "The model `deepseek` does not exist."),),
    "too-long": (problem("400 Bad Request", "BadRequestError", "maximum context length is 8192 tokens"),),
    "overloaded": (problem("503 Service Unavailable", "ServiceUnavailableError"),),
    "broken": (problem("500 Internal Server Error", "InternalServerError", "at /models/secret"),),
}


@pytest.fixture(scope="module")
def partners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partners]:
    with shipped(tmp_path_factory.mktemp("partners"), SCRIPTS) as running:
        yield running


@pytest.fixture
def batch(partners: Partners) -> Iterator[Anthropic]:
    """Give a client with a key, which may think."""
    partners.engine.state.reasoning_parser = False
    with Anthropic(base_url=partners.url, api_key=KEY, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
def acme(partners: Partners) -> Iterator[Anthropic]:
    """Give a client with an access token, which may not."""
    partners.engine.state.reasoning_parser = False
    with Anthropic(base_url=partners.url, auth_token=partners.token(), max_retries=0, timeout=20) as client:
        yield client


def script(name: str) -> list[MessageParam]:
    return [{"role": "user", "content": f"script:{name}"}]


# What goes through


def test_a_message_is_answered_and_what_was_judged_is_all_that_is_sent(partners: Partners, acme: Anthropic) -> None:
    response = acme.messages.with_raw_response.create(
        model="local",
        max_tokens=100_000,
        messages=HI,
        system=[{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        stop_sequences=["END"],
        metadata={"user_id": "u"},
        service_tier="auto",
        extra_headers={"anthropic-beta": "context-management-2025-06-27"},
    )
    message = response.parse()
    assert message.content[0].type == "text"
    assert message.content[0].text.startswith(" The quick")
    assert (message.model, message.stop_reason, message.usage.output_tokens) == ("local", "end_turn", 16)
    seen = partners.reached()[-1]
    assert (seen.method, seen.target) == ("POST", MESSAGES)
    assert {name for name, _ in seen.headers} == SEEN_BY_THE_ENGINE
    assert unsalted(seen.json) == {
        "model": "local",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "hi"}],
        "system": [{"type": "text", "text": "be brief"}],
        "stop_sequences": ["END"],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    changes = set(response.headers["x-gateway-changes"].split(", "))
    assert changes == {"drop system.cache_control", "drop metadata", "drop service_tier", "lower max_tokens"}
    record = partners.record(response.headers["x-request-id"])
    assert (record["endpoint"], record["client"], record["outcome"]) == ("messages", "acme", "ok")
    assert record["usage"] == {"prompt": message.usage.input_tokens, "completion": 16, "reasoning": None}


def test_a_stream_comes_as_events_and_its_count_is_recorded(partners: Partners, acme: Anthropic) -> None:
    with acme.messages.stream(model="local", max_tokens=8, messages=HI) as events:
        text = "".join(events.text_stream)
        message = events.get_final_message()
        request_id = events.response.headers["x-request-id"]
    assert text == message.content[0].text  # type: ignore[union-attr]  # it is the text block
    assert len(text.split()) == 8
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("max_tokens", 20, 8)
    record = partners.record(request_id)
    assert (record["outcome"], record["usage"]) == ("ok", {"prompt": 20, "completion": 8, "reasoning": None})
    assert partners.last()["stream"] is True


def test_a_tool_is_called_and_its_result_goes_back(partners: Partners, batch: Anthropic) -> None:
    first = batch.messages.create(
        model="local", max_tokens=64, messages=HI, tools=[WEATHER], tool_choice={"type": "tool", "name": "weather"}
    )
    (call,) = first.content
    assert (call.type, first.stop_reason) == ("tool_use", "tool_use")
    assert call.type == "tool_use"
    result: MessageParam = {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": [{"type": "text", "text": "12 degrees", "cache_control": {"type": "ephemeral"}}],
            }
        ],
    }
    turns: list[MessageParam] = [*HI, {"role": "assistant", "content": first.content}, result]
    with batch.messages.stream(model="local", max_tokens=8, messages=turns, tools=[WEATHER]) as events:
        assert events.get_final_text()
    sent = partners.last()
    assert sent["messages"][1]["content"] == [{"type": "tool_use", "id": call.id, "name": "weather", "input": {}}]
    assert sent["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "12 degrees"}]
    assert sent["tools"] == [WEATHER]


def test_a_prompt_is_counted_as_it_would_be_sent(partners: Partners, acme: Anthropic) -> None:
    counted = acme.messages.count_tokens(model="local", messages=HI, system="be brief", tools=[WEATHER])
    sent = acme.messages.create(model="local", max_tokens=8, messages=HI, system="be brief", tools=[WEATHER])
    assert counted.input_tokens == sent.usage.input_tokens
    assert [seen.target for seen in partners.reached()[-2:]] == [COUNT, MESSAGES]


def test_clients_02_the_beta_client_is_served_and_its_own_fields_are_not_passed_on(
    partners: Partners, acme: Anthropic
) -> None:
    message = acme.beta.messages.create(
        model="local",
        max_tokens=8,
        messages=[{"role": "user", "content": "hi"}],
        betas=["context-management-2025-06-27"],
        context_management={"edits": []},
    )
    assert message.content
    assert "context_management" not in partners.last()
    assert partners.reached()[-1].target == MESSAGES


@pytest.mark.parametrize("target", [MESSAGES, COUNT])
def test_path_10_the_query_of_claude_code_is_judged_and_no_other_and_none_is_sent(
    partners: Partners, target: str
) -> None:
    body = {name: value for name, value in BODY.items() if target == MESSAGES or name != "max_tokens"}
    answer = partners.post(f"{target}?beta=true", body, x_api_key=KEY, anthropic_version="2023-06-01")
    assert answer.status == 200
    assert partners.reached()[-1].target == target
    for query in ("?beta=1", "?x=1", "?beta=true&beta=true", "?"):
        refused = partners.post(f"{target}{query}", body, x_api_key=KEY)
        assert (refused.status, refused.code, refused.json["type"]) == (400, "query-not-accepted", "error")


# Thinking


def test_thinking_08_without_a_word_about_it_the_answer_is_text_alone(partners: Partners, batch: Anthropic) -> None:
    partners.engine.state.reasoning_parser = True
    with batch.messages.stream(model="local", max_tokens=8, messages=HI) as events:
        message = events.get_final_message()
    assert [block.type for block in message.content] == ["text"]
    assert partners.last()["chat_template_kwargs"] == {"enable_thinking": False}


def test_clients_04_a_permitted_wish_sets_the_switch_and_reasoning_comes_before_the_text(
    partners: Partners, batch: Anthropic
) -> None:
    partners.engine.state.reasoning_parser = True
    with batch.messages.stream(
        model="local", max_tokens=9000, messages=HI, thinking={"type": "enabled", "budget_tokens": 8000}
    ) as events:
        message = events.get_final_message()
        changes = events.response.headers["x-gateway-changes"]
    assert [block.type for block in message.content] == ["thinking", "text"]
    sent = partners.last()
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 4095}
    assert sent["chat_template_kwargs"] == {"enable_thinking": True}
    assert changes == "lower max_tokens, lower thinking.budget_tokens"
    turns: list[MessageParam] = [*HI, {"role": "assistant", "content": message.content}, *HI]
    batch.messages.create(model="local", max_tokens=8, messages=turns)
    assert [sorted(block) for block in partners.last()["messages"][1]["content"]] == [
        ["thinking", "type"],
        ["text", "type"],
    ]


def test_a_wish_that_is_not_permitted_is_switched_off_and_named(partners: Partners, acme: Anthropic) -> None:
    response = acme.messages.with_raw_response.create(
        model="local", max_tokens=64, messages=HI, thinking={"type": "adaptive"}, output_config={"effort": "high"}
    )
    assert (
        response.headers["x-gateway-changes"] == "replace thinking.type, drop output_config.effort, drop output_config"
    )
    sent = partners.last()
    assert sent["thinking"] == {"type": "disabled"}
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert "output_config" not in sent


# What the engine does


def test_routing_01_a_model_keeps_the_engines_name_and_comments_are_no_matter_to_the_sdk(
    partners: Partners, batch: Anthropic
) -> None:
    with batch.messages.stream(model="reasoner", max_tokens=64, messages=script("comments")) as events:
        message = events.get_final_message()
        request_id = events.response.headers["x-request-id"]
    assert message.content[0].text == "Hello"  # type: ignore[union-attr]  # it is the text block
    assert message.model == "org/real", "the engine's own name for the model is passed on as it is"
    assert partners.record(request_id)["usage"] == {"prompt": 14, "completion": 3, "reasoning": None}


@pytest.mark.parametrize(
    "name, kind, code", [("dies", "api_error", "engine-error"), ("stalls", "timeout_error", "engine-timeout")]
)
def test_a_stream_that_fails_raises_from_within(batch: Anthropic, name: str, kind: str, code: str) -> None:
    with (
        pytest.raises(anthropic.APIStatusError) as caught,
        batch.messages.stream(model="reasoner", max_tokens=64, messages=script(name)) as events,
    ):
        events.get_final_message()
    assert fault(caught.value) == {"type": kind, "code": code}


@pytest.mark.parametrize(
    "name, error, kind, code",
    [
        ("unknown-model", anthropic.NotFoundError, "not_found_error", "engine-error"),
        ("too-long", anthropic.BadRequestError, "invalid_request_error", "engine-error"),
        ("overloaded", anthropic.InternalServerError, "overloaded_error", "engine-overloaded"),
        ("broken", anthropic.InternalServerError, "api_error", "engine-error"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_errors_01_an_error_of_the_engine_has_anthropics_shape(
    batch: Anthropic,
    name: str,
    error: type[anthropic.APIStatusError],
    kind: str,
    code: str,
    *,
    streamed: bool,
) -> None:
    with pytest.raises(error) as caught:
        batch.messages.create(model="reasoner", max_tokens=64, messages=script(name), stream=streamed)
    assert fault(caught.value) == {"type": kind, "code": code}
    assert "secret" not in str(caught.value)
    assert ("maximum context length" in str(caught.value)) is (name == "too-long")


# Refusals


def fault(error: anthropic.APIStatusError) -> dict[str, str]:
    """Take the error out of a body of Anthropic's shape, which also names the request."""
    body: Any = error.body
    assert (body["type"], len(body["request_id"])) == ("error", 32)
    assert body["error"].pop("message")
    found: dict[str, str] = body["error"]
    return found


@pytest.mark.parametrize(
    "changes, error, kind, code, named",
    [
        ({"model": "gpt-4o"}, anthropic.NotFoundError, "not_found_error", "model-not-permitted", "model"),
        ({"priority": 1}, anthropic.BadRequestError, "invalid_request_error", "parameter-not-accepted", "priority"),
        ({"max_tokens": "8"}, anthropic.BadRequestError, "invalid_request_error", "parameter-invalid", "max_tokens"),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            anthropic.BadRequestError,
            "invalid_request_error",
            "parameter-invalid",
            "tools[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]},
            anthropic.BadRequestError,
            "invalid_request_error",
            "parameter-invalid",
            "messages[0].content[0].type",
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            anthropic.BadRequestError,
            "invalid_request_error",
            "parameter-invalid",
            "thinking.budget_tokens",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}] * 1025},
            anthropic.BadRequestError,
            "invalid_request_error",
            "parameter-over-cap",
            "messages",
        ),
        (
            {"system": "a" * 4_194_304},
            anthropic.APIStatusError,
            "request_too_large",
            "body-too-large",
            "4194304 bytes",
        ),
    ],
)
def test_a_refusal_names_the_field_and_reaches_no_engine(
    partners: Partners,
    batch: Anthropic,
    changes: dict[str, object],
    error: type[anthropic.APIStatusError],
    kind: str,
    code: str,
    named: str,
) -> None:
    before = len(partners.reached())
    with pytest.raises(error) as caught:
        batch.messages.create(**BODY, extra_body=changes)
    message = caught.value.message
    assert fault(caught.value) == {"type": kind, "code": code}
    assert named in message
    assert len(partners.reached()) == before


def test_a_bad_key_is_an_authentication_error(partners: Partners) -> None:
    with (
        Anthropic(base_url=partners.url, api_key="vgw_wrong", max_retries=0) as client,
        pytest.raises(anthropic.AuthenticationError) as caught,
    ):
        client.messages.create(**BODY)
    assert fault(caught.value) == {"type": "authentication_error", "code": "credential-invalid"}


def test_a_token_of_nobody_is_a_permission_error(partners: Partners) -> None:
    stranger = partners.issuer.token(azp="00000000-0000-0000-0000-000000000000")
    with (
        Anthropic(base_url=partners.url, auth_token=stranger, max_retries=0) as client,
        pytest.raises(anthropic.PermissionDeniedError) as caught,
    ):
        client.messages.count_tokens(model="local", messages=HI)
    assert fault(caught.value) == {"type": "permission_error", "code": "client-unknown"}


def test_two_credentials_are_refused(partners: Partners) -> None:
    answer = partners.post(MESSAGES, BODY, x_api_key=KEY, authorization=f"Bearer {KEY}")
    assert (answer.status, answer.code, answer.json["type"]) == (400, "credential-ambiguous", "error")
