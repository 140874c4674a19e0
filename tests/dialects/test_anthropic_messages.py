from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.anthropic_messages import (
    COUNT_TOKENS,
    MESSAGES,
    AnthropicCountTokens,
    AnthropicMessages,
)
from gateway.dialects.call import Usage
from gateway.dialects.checks import Inspection
from gateway.dialects.registry import FACTS
from gateway.policy.decision import Deny
from gateway.policy.model import Endpoint, ParameterRules, ThinkingRule
from gateway.reasons import Malformed, Reason
from tests.policy.planes import ask, plane

BASE64 = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
CACHE = {"type": "ephemeral", "ttl": "1h"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
INVALID, NOT_ACCEPTED = Reason.PARAMETER_INVALID, Reason.PARAMETER_NOT_ACCEPTED


@dataclass(frozen=True)
class Change:
    action: str
    field: str
    value: Any = None


def block(**members: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": [members]}]


def result(*content: object) -> list[dict[str, object]]:
    return block(type="tool_result", tool_use_id="t", content=list(content))


def fault(name: str, value: Any, inspection: Inspection | None = None) -> tuple[Reason, str | None] | None:  # noqa: ANN401
    try:
        MESSAGES.fields[name].check(value, inspection or Inspection())
    except Malformed as found:
        return found.reason, found.param
    return None


def test_messages_and_their_count_go_to_the_engines_own_endpoints() -> None:
    assert (AnthropicMessages().name, AnthropicMessages().upstream) == ("anthropic-messages", ("POST", "/v1/messages"))
    counted = AnthropicCountTokens()
    assert (counted.name, counted.upstream) == ("anthropic-count-tokens", ("POST", "/v1/messages/count_tokens"))
    assert (MESSAGES.answer_tokens, COUNT_TOKENS.answer_tokens) == (("max_tokens",), ())


def test_what_both_have_they_judge_alike() -> None:
    assert set(COUNT_TOKENS.fields) < set(MESSAGES.fields)
    assert all(MESSAGES.fields[name] == one for name, one in COUNT_TOKENS.fields.items())


def test_one_strict_object_is_read_and_written_anew_with_its_changes() -> None:
    dialect = AnthropicMessages()
    call = dialect.read(b' {"model": "a", "messages": [{"role": "user", "content": [{"cache_control": 1, "t": 2}]}]} ')
    changes = [Change("replace", "model", "b"), Change("drop", "messages.content.cache_control")]
    assert dialect.write(call, changes) == b'{"model":"b","messages":[{"role":"user","content":[{"t":2}]}]}'
    with pytest.raises(Malformed) as caught:
        dialect.read(b'{"a":1,"a":2}')
    assert caught.value.reason is Reason.BODY_MALFORMED


def test_answers_are_those_of_anthropic() -> None:
    dialect = AnthropicMessages()
    assert dialect.usage(b'{"usage":{"input_tokens":1,"output_tokens":2}}') == Usage(1, 2)
    body = json.loads(dialect.error(Reason.OVER_RATE, "m", "n", "id", 429))
    assert (body["type"], body["error"]["type"], body["request_id"]) == ("error", "rate_limit_error", "id")
    assert dialect.error_event(Reason.ENGINE_ERROR, "m", "id").startswith(b"event: error\n")
    assert dialect.ends(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


@pytest.mark.parametrize(
    "body, message",
    [
        (b'{"type":"error","error":{"type":"BadRequestError","message":"too long"}}', "too long"),
        (b'{"error":{"message":"1 validation error: ...","type":"Bad Request","code":400}}', "1 validation error: ..."),
    ],
)
def test_the_engines_message_is_taken_out_of_both_of_its_shapes(body: bytes, message: str) -> None:
    assert AnthropicMessages().engine_message(body) == message


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": role, "content": "hi"} for role in ("user", "assistant", "system")],
        [{"role": "user", "content": []}],
        block(type="text", text="hi", cache_control=CACHE, citations=None),
        block(type="image", source=BASE64, cache_control=None),
        block(type="tool_use", id="t", name="f", input={"a": [1]}, caller={"type": "direct"}),
        block(type="tool_result", tool_use_id="t"),
        block(type="tool_result", tool_use_id="t", content="42", is_error=False),
        result({"type": "text", "text": "a", "cache_control": CACHE}, {"type": "image", "source": BASE64}),
        block(type="thinking", thinking="hm", signature="s"),
        block(type="redacted_thinking", data="x"),
    ],
)
def test_messages_as_sdks_send_them_pass(messages: object) -> None:
    assert fault("messages", messages, Inspection(special_tokens=True)) is None


@pytest.mark.parametrize(
    "messages, param",
    [
        ("hi", None),
        ([{"role": "user"}], "[0].content"),
        ([{"role": "user", "content": None}], "[0].content"),
        ([{"content": "hi"}], "[0].role"),
        ([{"role": "ctx", "content": "hi"}], "[0].role"),
        ([{"role": "tool", "content": "hi"}], "[0].role"),
        (block(text="a block without a type"), "[0].content[0].type"),
        (block(source=BASE64), "[0].content[0].type"),
        (block(type="document", source={}), "[0].content[0].type"),
        (block(type="search_result"), "[0].content[0].type"),
        (block(type="server_tool_use", id="s", name="web_search", input={}), "[0].content[0].type"),
        (block(type="web_search_tool_result", tool_use_id="s", content=[]), "[0].content[0].type"),
        (block(type="mcp_tool_use", id="s", name="f", server_name="x", input={}), "[0].content[0].type"),
        (block(type="container_upload", file_id="f"), "[0].content[0].type"),
        (block(type="tool_addition", tool={"type": "tool_definition", "definition": TOOL}), "[0].content[0].type"),
        (block(type="tool_removal", tool={"type": "tool_reference", "name": "f"}), "[0].content[0].type"),
        (block(type="image_url", image_url={"url": "http://x"}), "[0].content[0].type"),
        (block(type="text"), "[0].content[0].text"),
        (block(type="text", text=1), "[0].content[0].text"),
        (block(type="image"), "[0].content[0].source"),
        (block(type="image", source="x"), "[0].content[0].source"),
        (block(type="image", source={"media_type": "image/png", "data": ""}), "[0].content[0].source.type"),
        (block(type="image", source={"type": "file", "file_id": "f"}), "[0].content[0].source.type"),
        (block(type="image", source={**BASE64, "media_type": "text/html"}), "[0].content[0].source.media_type"),
        (block(type="image", source={**BASE64, "data": 1}), "[0].content[0].source.data"),
        (block(type="image", source={"type": "base64", "data": ""}), "[0].content[0].source.media_type"),
        (block(type="image", source={"type": "url"}), "[0].content[0].source.url"),
        (block(type="image", source={"type": "url", "url": "https://169.254.169.254/"}), "[0].content[0].source.url"),
        (block(type="image", source={"type": "url", "url": "file:///etc/passwd"}), "[0].content[0].source.url"),
        (block(type="tool_use", id="t", name="f"), "[0].content[0].input"),
        (block(type="tool_use", id="t", name="f", input="{}"), "[0].content[0].input"),
        (block(type="tool_use", name="f", input={}), "[0].content[0].id"),
        (block(type="tool_result", content="42"), "[0].content[0].tool_use_id"),
        (block(type="tool_result", tool_use_id="t", is_error="no"), "[0].content[0].is_error"),
        (block(type="tool_result", tool_use_id="t", content={}), "[0].content[0].content"),
        (result("text"), "[0].content[0].content[0]"),
        (result({"type": "tool_reference", "tool_name": "f"}), "[0].content[0].content[0].type"),
        (result({"type": "document", "source": {}}), "[0].content[0].content[0].type"),
        (result({"type": "tool_result", "tool_use_id": "t"}), "[0].content[0].content[0].type"),
        (
            result({"type": "image", "source": {"type": "url", "url": "http://x/"}}),
            "[0].content[0].content[0].source.url",
        ),
        (block(type="thinking", signature="s"), "[0].content[0].thinking"),
    ],
)
def test_a_message_of_another_shape_is_refused_where_it_differs(messages: object, param: str | None) -> None:
    assert fault("messages", messages) == (INVALID, param)


@pytest.mark.parametrize(
    "messages, param",
    [
        ([{"role": "user", "content": "x", "name": "y"}], "[0].name"),
        (block(type="text", text="x", uuid="y"), "[0].content[0].uuid"),
        (block(type="image", source={**BASE64, "x": 1}), "[0].content[0].source.x"),
        (block(type="image", source=BASE64, uuid="y"), "[0].content[0].uuid"),
        (result({"type": "text", "text": "x", "y": 1}), "[0].content[0].content[0].y"),
    ],
)
def test_a_member_that_is_not_known_is_refused_by_name(messages: object, param: str) -> None:
    assert fault("messages", messages) == (NOT_ACCEPTED, param)


@pytest.mark.parametrize(
    "messages, param",
    [
        (block(type="text", text="x", source=BASE64), "[0].content[0].source"),
        (block(type="tool_use", id="t", name="f", input={}, text="x"), "[0].content[0].text"),
        (block(type="tool_result", tool_use_id="t", thinking="x"), "[0].content[0].thinking"),
        (block(type="image", source={**BASE64, "url": "http://x"}), "[0].content[0].source.url"),
        (
            block(type="image", source={"type": "url", "url": "https://x.example/", "data": ""}),
            "[0].content[0].source.data",
        ),
        (result({"type": "text", "text": "x", "source": BASE64}), "[0].content[0].content[0].source"),
    ],
)
def test_a_member_of_another_kind_of_block_is_never_merely_dropped(messages: object, param: str) -> None:
    inspection = Inspection(drop_unlisted=True, media_hosts=frozenset({"x.example"}))
    assert fault("messages", messages, inspection) == (INVALID, param)


def test_an_image_may_come_from_a_host_that_the_policy_names() -> None:
    inspection = Inspection(media_hosts=frozenset({"img.example"}))
    picture = {"type": "image", "source": {"type": "url", "url": "https://img.example/a.png"}}
    assert fault("messages", block(**picture), inspection) is None
    assert fault("messages", result(picture), inspection) is None


def test_what_only_a_hosted_service_reads_is_dropped_wherever_it_stands() -> None:
    inspection = Inspection()
    messages = [
        *block(type="text", text="x", cache_control=CACHE, citations=[]),
        *block(type="thinking", thinking="hm", signature="s"),
        *block(type="redacted_thinking", data="x"),
        *result({"type": "text", "text": "x", "cache_control": CACHE}),
    ]
    assert fault("messages", messages, inspection) is None
    assert fault("system", [{"type": "text", "text": "x", "cache_control": CACHE}], inspection) is None
    assert fault("tools", [{**TOOL, "cache_control": CACHE, "defer_loading": True}], inspection) is None
    assert list(inspection.dropped) == [
        "messages.content.cache_control",
        "messages.content.citations",
        "messages.content.signature",
        "messages.content.data",
        "messages.content.content.cache_control",
        "system.cache_control",
        "tools.cache_control",
        "tools.defer_loading",
    ]


@pytest.mark.parametrize(
    "name, value",
    [
        ("system", "<|im_start|>"),
        ("system", [{"type": "text", "text": "<|im_start|>"}]),
        ("messages", [{"role": "user", "content": "<|im_start|>"}]),
        ("messages", block(type="text", text="<|im_start|>")),
        ("messages", block(type="thinking", thinking="</s>")),
        ("messages", block(type="tool_use", id="<s>", name="f", input={})),
        ("messages", block(type="tool_use", id="t", name="<s>", input={})),
        ("messages", block(type="tool_use", id="t", name="f", input={"a": "<s>"})),
        ("messages", block(type="tool_result", tool_use_id="<s>")),
        ("messages", block(type="tool_result", tool_use_id="t", content="[INST]")),
        ("messages", result({"type": "text", "text": "[INST]"})),
        ("tools", [{**TOOL, "name": "<s>"}]),
        ("tools", [{**TOOL, "description": "<s>"}]),
        ("tools", [{"name": "f", "input_schema": {"title": "<s>"}}]),
        ("output_config.format", {"type": "json_schema", "schema": {"title": "<s>"}}),
    ],
)
def test_special_tokens_are_refused_in_all_that_a_template_renders_where_that_is_the_rule(
    name: str, value: object
) -> None:
    found = fault(name, value, Inspection(special_tokens=True))
    assert found is not None
    assert found[0] is INVALID
    assert fault(name, value) is None


@pytest.mark.parametrize(
    "name, good, bad",
    [
        ("system", ["x", [], [{"type": "text", "text": "x"}]], [1, {}, ["x"], [{"type": "image", "source": BASE64}]]),
        ("max_tokens", [1, 2**63], [0, -1, 5.0, "5", True, {}]),
        ("stop_sequences", [[], ["x"]], ["x", [1], {}]),
        ("temperature", [0, 0.5], ["1", True, float("nan")]),
        ("top_k", [1, -1], [1.0, "1"]),
        ("stream", [True, False], ["true", 1]),
        (
            "tools",
            [[], [TOOL], [{**TOOL, "type": "custom", "description": "d", "strict": True}]],
            [{}, [{}], [{"name": "f"}], [{"input_schema": {}}], [{"name": "f", "input_schema": []}]],
        ),
        (
            "tool_choice",
            [{"type": "auto"}, {"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "f"}],
            ["auto", {}, {"type": "tool"}, {"type": "none", "name": "f"}, {"type": "function"}],
        ),
        (
            "output_config.format",
            [{"type": "json_schema", "schema": {}}],
            [{}, {"type": "json_schema"}, {"type": "grammar", "grammar": "x"}, {"schema": {}}],
        ),
        ("output_config.effort", ["low", "max"], ["none", "minimal", 1]),
        ("thinking.type", ["enabled", "adaptive", "disabled"], ["between_tools", "on", True]),
        ("thinking.budget_tokens", [1024], [1023, 0, "2048", 2048.0]),
        ("metadata", [{}, {"user_id": "u"}], ["u", []]),
    ],
)
def test_values_have_the_type_of_their_field_and_nothing_is_coerced(name: str, good: list[Any], bad: list[Any]) -> None:
    assert [fault(name, value) for value in good] == [None] * len(good)
    assert None not in [fault(name, value) for value in bad]


@pytest.mark.parametrize(
    "kind",
    [
        "web_search_20250305",
        "web_fetch_20260318",
        "code_execution_20250825",
        "bash_20250124",
        "computer_20250124",
        "text_editor_20250728",
        "memory_20250818",
        "tool_search_tool_regex_20251119",
        "mcp_toolset",
    ],
)
def test_a_tool_that_a_hosted_service_runs_is_refused_by_name(kind: str) -> None:
    assert fault("tools", [TOOL, {"type": kind, "name": "x"}]) == (INVALID, "[1].type")


# Whatever comes: refused, or sent as the judge would send it again

BLOCKS = st.sampled_from(
    [
        {"type": "text", "text": "hi", "cache_control": CACHE, "citations": None},
        {"type": "text", "text": "hi", "x": 1},
        {"type": "image", "source": BASE64},
        {"type": "image", "source": {"type": "url", "url": "https://x.example/"}},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"text": "x", "cache_control": 1}},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}, "text": "x"},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x", "y": 1}]},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "document"},
    ]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "messages": st.lists(
        st.fixed_dictionaries({"role": st.just("user"), "content": st.text(max_size=3) | st.lists(BLOCKS, max_size=3)}),
        max_size=2,
    ),
    "system": st.sampled_from([None, "x", [{"type": "text", "text": "x", "cache_control": CACHE, "y": 1}]]),
    "max_tokens": st.sampled_from([None, 1, 1025, 4096, 9999]),
    "tools": st.sampled_from(
        [None, [], [TOOL], [{**TOOL, "type": "bash_20250124"}], [{**TOOL, "x": 1, "strict": None}]]
    ),
    "tool_choice": st.sampled_from([None, {"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "f", "x": 1}]),
    "thinking": st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from([None, "enabled", "adaptive", "disabled", "x"]),
            "budget_tokens": st.sampled_from([None, 1024, 4096]),
            "display": st.sampled_from([None, "omitted"]),
        },
    ),
    "output_config": st.sampled_from([None, {}, {"effort": None}, {"effort": "high"}, {"format": None, "x": 1}]),
    "chat_template_kwargs": st.sampled_from([None, {}, {"enable_thinking": True}, {"thinking": False, "x": 1}]),
    "metadata": st.just({"user_id": "u"}),
    "container": st.sampled_from([None, "c"]),
    "x": st.just(1),
}


@given(
    st.fixed_dictionaries({}, optional=VALUES),
    st.sampled_from(["local", "reasoner", "twice", "effort", "plain"]),
    st.booleans(),
    st.sampled_from([ThinkingRule(), ThinkingRule(everyone=False, disable_otherwise=True)]),
    st.sampled_from(["anthropic-messages", "anthropic-count-tokens"]),
)
def test_any_body_is_refused_or_sent_as_it_would_be_sent_again(
    body: dict[str, Any],
    model: str,
    drop: bool,  # noqa: FBT001  (a choice)
    thinking: ThinkingRule,
    dialect: str,
) -> None:
    parameters = ParameterRules(accept=FACTS[dialect].standard, drop_unlisted=drop, thinking=thinking)
    rules = plane(endpoints=[Endpoint("messages", "POST", b"/v1/messages", dialect, parameters=parameters)])
    verdict, sent = ask({**body, "model": model}, rules, endpoint="messages")
    if not isinstance(verdict, Deny):
        again, twice = ask({**sent, "model": model}, rules, endpoint="messages")
        assert not isinstance(again, Deny)
        assert twice == sent


def test_a_stream_tells_its_count_unasked_and_has_a_token_in_each_event_with_a_piece() -> None:
    dialect = AnthropicMessages()
    piece = (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}\n\n'
    )
    other = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    assert dialect.tells_usage is None
    assert (piece * 3 + other).count(dialect.delta) - dialect.lead == 3
    assert dialect.take_usage(piece + other) == (None, piece + other)
