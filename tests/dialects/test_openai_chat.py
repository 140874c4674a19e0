from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.checks import Inspection
from gateway.dialects.openai_chat import CHAT, OpenAIChat
from gateway.reasons import Malformed, Reason

PNG = "data:image/png;base64,iVBORw0KGgo="
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def message(**members: object) -> list[dict[str, object]]:
    return [{"role": "user", **members}]


def part(**members: object) -> list[dict[str, object]]:
    return message(content=[members])


def fault(name: str, value: Any, inspection: Inspection | None = None) -> tuple[Reason, str | None] | None:  # noqa: ANN401
    try:
        CHAT.fields[name].check(value, inspection or Inspection())
    except Malformed as found:
        return found.reason, found.param
    return None


def test_a_chat_goes_to_the_engines_chat_endpoint() -> None:
    assert OpenAIChat().name == "openai-chat"
    assert OpenAIChat().upstream == ("POST", "/v1/chat/completions")
    assert CHAT.answer_tokens == ("max_completion_tokens", "max_tokens")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": role, "content": "hi"} for role in ("system", "developer", "user", "assistant", "tool", "function")],
        message(),
        message(content=None, name=None),
        message(content=[]),
        part(type="text", text="hi"),
        part(type="refusal", refusal="no"),
        part(type="image_url", image_url={"url": PNG}),
        part(type="image_url", image_url={"url": PNG, "detail": "low"}),
        part(type="audio_url", audio_url={"url": "data:audio/wav;base64,AA=="}),
        part(type="input_audio", input_audio={"data": "AA==", "format": "wav"}),
        [
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "reasoning": "r",
                "reasoning_content": "r",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "42", "name": "f"},
        ],
    ],
)
def test_messages_as_sdks_send_them_pass(messages: object) -> None:
    assert fault("messages", messages, Inspection(special_tokens=True)) is None


@pytest.mark.parametrize(
    "messages, param",
    [
        ("hi", None),
        (["hi"], "[0]"),
        ([{"content": "hi"}], "[0].role"),
        ([{"role": "root"}], "[0].role"),
        ([{"role": ["user"]}], "[0].role"),
        ([{"role": "user"}, {"role": None}], "[1].role"),
        (message(content=1), "[0].content"),
        (message(content={"text": "x"}), "[0].content"),
        (message(content=["x"]), "[0].content[0]"),
        (message(name=1), "[0].name"),
        (part(text="a part without a type"), "[0].content[0].type"),
        (part(image_url={"url": PNG}), "[0].content[0].type"),
        (part(type=None, text="x"), "[0].content[0].type"),
        (part(type=["text"], text="x"), "[0].content[0].type"),
        (part(type="thinking", thinking="x"), "[0].content[0].type"),
        (part(type="video_url", video_url={"url": "x"}), "[0].content[0].type"),
        (part(type="image_embeds", image_embeds="x"), "[0].content[0].type"),
        (part(type="text"), "[0].content[0].text"),
        (part(type="text", text=None), "[0].content[0].text"),
        (part(type="text", text="x", image_url={"url": "http://x"}), "[0].content[0].image_url"),
        (part(type="text", text="x", prompt_embeds="x"), "[0].content[0].prompt_embeds"),
        (part(type="image_url", image_url=PNG), "[0].content[0].image_url"),
        (part(type="image_url", image_url={"url": None}, uuid="x"), "[0].content[0].image_url.url"),
        (part(type="image_url", uuid="x"), "[0].content[0].image_url"),
        (part(type="image_url", image_url={"url": 1}), "[0].content[0].image_url.url"),
        (part(type="image_url", image_url={"url": "https://example.com/"}), "[0].content[0].image_url.url"),
        (part(type="image_url", image_url={"url": PNG, "detail": "huge"}), "[0].content[0].image_url.detail"),
        (part(type="audio_url", audio_url={"url": PNG}), "[0].content[0].audio_url.url"),
        (part(type="input_audio", input_audio={"data": "x", "format": "wav;x"}), "[0].content[0].input_audio.format"),
        (part(type="input_audio", input_audio={"data": 1, "format": "wav"}), "[0].content[0].input_audio.data"),
        (message(tool_calls={}), "[0].tool_calls"),
        (message(tool_calls=[{"id": "c"}]), "[0].tool_calls[0].function"),
        (message(tool_calls=[{"function": {"name": "f", "arguments": {}}}]), "[0].tool_calls[0].function.arguments"),
        (message(tool_calls=[{"function": {"name": "f"}, "type": "custom"}]), "[0].tool_calls[0].type"),
    ],
)
def test_a_message_of_another_shape_is_refused_where_it_differs(messages: object, param: str | None) -> None:
    assert fault("messages", messages) == (Reason.PARAMETER_INVALID, param)


@pytest.mark.parametrize(
    "messages, param",
    [
        (message(content="x", task="y"), "[0].task"),
        (part(type="text", text="x", cache_control={}), "[0].content[0].cache_control"),
        (part(type="text", text="x", uuid="y"), "[0].content[0].uuid"),
        (part(type="image_url", image_url={"url": PNG, "x": 1}), "[0].content[0].image_url.x"),
    ],
)
def test_a_member_that_is_not_known_is_refused_by_name(messages: object, param: str) -> None:
    assert fault("messages", messages) == (Reason.PARAMETER_NOT_ACCEPTED, param)


def test_members_that_are_not_known_are_dropped_where_that_is_the_rule() -> None:
    inspection = Inspection(drop_unlisted=True)
    messages = [*message(content="x", task="y"), *part(type="text", text="x", cache_control={})]
    assert fault("messages", messages, inspection) is None
    assert list(inspection.dropped) == ["messages.task", "messages.content.cache_control"]


def test_the_engines_cache_key_and_echoed_members_are_always_dropped() -> None:
    inspection = Inspection()
    echoed = message(content="x", annotations=[], audio={"id": "a"}, function_call=None)
    assert fault("messages", [*echoed, *part(type="image_url", image_url={"url": PNG}, uuid="k")], inspection) is None
    assert list(inspection.dropped) == ["messages.annotations", "messages.audio", "messages.content.uuid"]


@pytest.mark.parametrize(
    "messages",
    [
        message(content="<|im_start|>"),
        message(name="<|im_start|>"),
        message(reasoning="</s>"),
        message(reasoning_content="</s>"),
        message(refusal="[INST]"),
        message(tool_call_id="[INST]"),
        part(type="text", text="<|im_start|>"),
        part(type="refusal", refusal="<|im_start|>"),
        message(tool_calls=[{"id": "<s>", "function": {"name": "f"}}]),
        message(tool_calls=[{"function": {"name": "<s>"}}]),
        message(tool_calls=[{"function": {"name": "f", "arguments": r'{"a":"\u003cs>"}'}}]),
    ],
)
def test_special_tokens_are_refused_in_any_text_of_a_message_where_that_is_the_rule(messages: object) -> None:
    found = fault("messages", messages, Inspection(special_tokens=True))
    assert found is not None
    assert found[0] is Reason.PARAMETER_INVALID
    assert fault("messages", messages) is None


@pytest.mark.parametrize(
    "name, value",
    [
        ("tools", [{"type": "function", "function": {"name": "f", "description": "<|im_end|>"}}]),
        ("tools", [{"type": "function", "function": {"name": "f", "parameters": {"title": "<|im_end|>"}}}]),
        ("documents", [{"<|im_end|>": "x"}]),
        ("documents", [{"x": "<|im_end|>"}]),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "n", "schema": {"title": "<s>"}}}),
    ],
)
def test_special_tokens_are_refused_in_all_else_that_a_template_renders(name: str, value: object) -> None:
    found = fault(name, value, Inspection(special_tokens=True))
    assert found is not None
    assert fault(name, value) is None


def test_a_special_token_may_stop_an_answer() -> None:
    assert fault("stop", ["<|im_end|>"], Inspection(special_tokens=True)) is None


@pytest.mark.parametrize(
    "name, good, bad",
    [
        ("temperature", [0, 1, 0.5], ["1", True, float("inf"), float("nan"), [1], 2**65]),
        ("max_tokens", [1, 2**63], [0, -1, 5.0, "5", True, [5], 2**64, {}]),
        ("seed", [-(2**63), 2**64 - 1], [-(2**63) - 1, 2**64, 1.0]),
        ("n", [1], [0, "1"]),
        ("top_logprobs", [0, 20], [-1, 21, 5.0]),
        ("logprobs", [True, False], [0, 1, "true"]),
        ("stream", [True, False], ["true", 1, 0]),
        ("stop", ["x", [], ["x", "y"]], [1, [1], ["x", 1], {}]),
        ("logit_bias", [{}, {"1": -100, "2": 0.5}], [[], {"1": "x"}, {"1": True}, {"1": None}]),
        ("tools", [[], [TOOL], [{"function": {"name": "f"}}]], ["x", {}, [1], [{}], [{"type": "custom"}]]),
        ("tools", [], [[{"type": "function", "function": {"name": "f", "parameters": []}}]]),
        ("tools", [], [[{"type": "function", "function": {"name": "f", "cache": 1}}]]),
        (
            "tool_choice",
            ["auto", "none", "required", {"type": "function", "function": {"name": "f"}}],
            ["f", 1, [], {}],
        ),
        ("response_format", [{"type": "text"}, {"type": "json_object"}], ["text", {}, {"type": "structural_tag"}]),
        (
            "response_format",
            [{"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}],
            [{"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": {}}}, {"type": []}],
        ),
        ("response_format", [], [{"type": "text", "json_schema": {}}]),
        ("metadata", [{}, {"a": "b"}], [[], "x"]),
        ("reasoning_effort", ["none", "max"], ["bogus", "", True, 1]),
        ("thinking_token_budget", [-1, 0, 5], [-2, 1.0, "5"]),
        ("stop_token_ids", [[], [1]], [[-1], ["1"], 1]),
    ],
)
def test_values_have_the_type_of_their_field_and_nothing_is_coerced(name: str, good: list[Any], bad: list[Any]) -> None:
    assert [fault(name, value) for value in good] == [None] * len(good)
    assert None not in [fault(name, value) for value in bad]


def test_a_stream_must_be_asked_for_its_count() -> None:
    assert OpenAIChat().tells_usage == "stream_options.include_usage"


def test_each_delta_is_a_token_but_the_first_with_the_role() -> None:
    role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    said = b'data: {"choices":[{"index":0,"delta":{"content":"\\"delta\\":{\\""}}]}\n\n'
    thought = b'data: {"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}\n\n'
    ended = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}\n\n'
    chat = OpenAIChat()
    assert (role + said + thought + ended + b"data: [DONE]\n\n").count(chat.delta) - chat.lead == 2
