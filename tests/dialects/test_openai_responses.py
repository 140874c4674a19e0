from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.call import Usage
from gateway.dialects.checks import Inspection
from gateway.dialects.openai_responses import RESPONSES, RESPONSES_CONTROLS, OpenAIResponses
from gateway.reasons import Malformed, Reason
from gateway.wire.event_stream import EventBuffer

DIALECT = OpenAIResponses()
PNG = "data:image/png;base64,iVBORw0KGgo="
COUNT = {
    "input_tokens": 14,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 8,
    "output_tokens_details": {"reasoning_tokens": 3, "tool_output_tokens": 0},
    "total_tokens": 22,
}
USAGE = Usage(prompt=14, completion=8, reasoning=3)
FAKE = {"type": "function", "name": "f", "parameters": {"usage": {"input_tokens": 0, "output_tokens": 0}}}


def fault(name: str, value: Any, inspection: Inspection | None = None) -> tuple[Reason, str | None] | None:  # noqa: ANN401
    try:
        RESPONSES.fields[name].check(value, inspection or Inspection())
    except Malformed as found:
        return found.reason, found.param
    return None


def message(*content: dict[str, Any], role: str = "user") -> list[dict[str, Any]]:
    return [{"type": "message", "role": role, "content": list(content)}]


def event(kind: str, **members: Any) -> bytes:  # noqa: ANN401  (JSON values)
    """Write an event as vLLM does, the type last."""
    return f"event: {kind}\ndata: {json.dumps({**members, 'type': kind}, separators=(',', ':'))}\n\n".encode()


def test_responses_go_to_the_engines_endpoint_of_that_name() -> None:
    assert DIALECT.name == "openai-responses"
    assert DIALECT.upstream == ("POST", "/v1/responses")
    assert RESPONSES.answer_tokens == ("max_output_tokens",)


def test_thinking_is_controlled_by_effort_and_by_the_switches_of_templates() -> None:
    assert RESPONSES_CONTROLS.effort == "reasoning.effort"
    assert RESPONSES_CONTROLS.templated
    assert (RESPONSES_CONTROLS.mode, RESPONSES_CONTROLS.budget) == (None, None)


@pytest.mark.parametrize(
    "value",
    [
        "hi",
        [],
        [{"role": role, "content": "hi"} for role in ("user", "assistant", "system", "developer")],
        message({"type": "input_text", "text": "hi"}),
        message({"type": "output_text", "text": "hi"}, role="assistant"),
        message({"type": "refusal", "refusal": "no"}, role="assistant"),
        message({"type": "input_image", "image_url": PNG}),
        message({"type": "input_image", "image_url": PNG, "detail": "auto"}),
        [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "42"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "42"}]},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": PNG}]},
        ],
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}],
        [{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]}],
    ],
)
def test_input_as_sdks_send_it_passes(value: object) -> None:
    assert fault("input", value, Inspection(special_tokens=True)) is None


ANSWER = [
    {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "r"}],
        "encrypted_content": None,
        "status": None,
    },
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "incomplete",
        "phase": None,
        "content": [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": None, "parsed": None}],
    },
    {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "c",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
        "caller": None,
        "namespace": None,
        "parsed_arguments": {},
    },
    {
        "type": "function_call_output",
        "call_id": "c",
        "output": "42",
        "id": None,
        "status": "completed",
        "name": None,
        "namespace": None,
    },
]


def test_an_answer_that_is_sent_back_passes_without_what_only_its_service_knows() -> None:
    inspection = Inspection()
    assert fault("input", ANSWER, inspection) is None
    assert list(inspection.dropped) == [
        "input.id",
        "input.status",
        "input.content.annotations",
        "input.parsed_arguments",
    ]


@pytest.mark.parametrize("status", ["in_progress", "incomplete", "completed"])
@pytest.mark.parametrize("kind", ["message", "reasoning", None])
def test_no_item_reaches_the_engine_as_the_beginning_of_its_own_answer(kind: str | None, status: str) -> None:
    """An item that is in progress is continued by vLLM, past the template that would switch thinking off."""
    own: dict[str, Any] = {"summary": []} if kind == "reasoning" else {"role": "assistant", "content": "<think>"}
    inspection = Inspection()
    item = {**own, "status": status, **({} if kind is None else {"type": kind})}
    assert fault("input", [item], inspection) is None
    assert list(inspection.dropped) == ["input.status"]


@pytest.mark.parametrize(
    "value, param",
    [
        (1, None),
        (["hi"], "[0]"),
        ([1, 2], "[0]"),
        ([{"content": "hi"}], "[0].role"),
        ([{"role": "user"}], "[0].content"),
        ([{"role": "tool", "content": "hi"}], "[0].role"),
        ([{"role": "user", "content": 1}], "[0].content"),
        ([{"role": "user", "content": ["hi"]}], "[0].content[0]"),
        ([{"type": None, "role": "user", "content": "hi"}], "[0].type"),
        *(
            ([{"type": kind, "id": "x"}], "[0].type")
            for kind in (
                "item_reference",
                "mcp_call",
                "mcp_list_tools",
                "mcp_approval_response",
                "web_search_call",
                "file_search_call",
                "code_interpreter_call",
                "computer_call_output",
                "custom_tool_call_output",
                "local_shell_call_output",
                "image_generation_call",
                "compaction",
                "additional_tools",
            )
        ),
        ([{"type": "function_call", "name": "f", "arguments": "{}"}], "[0].call_id"),
        ([{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}], "[0].arguments"),
        ([{"type": "function_call_output", "call_id": "c"}], "[0].output"),
        (message({"text": "hi"}), "[0].content[0].type"),
        (message({"type": "text", "text": "hi"}), "[0].content[0].type"),
        (message({"type": "input_file", "file_id": "f"}), "[0].content[0].type"),
        (message({"type": "input_text", "text": "hi", "file_url": "http://x"}), "[0].content[0].file_url"),
        (message({"type": "input_text", "text": "hi", "image_url": "http://x"}), "[0].content[0].image_url"),
        (message({"type": "input_image", "file_id": "f"}), "[0].content[0].file_id"),
        (message({"type": "input_image", "image_url": None, "detail": "auto"}), "[0].content[0].image_url"),
        (message({"type": "input_image", "image_url": "https://x.example/"}), "[0].content[0].image_url"),
        (message({"type": "input_image", "image_url": "file:///etc/passwd"}), "[0].content[0].image_url"),
        (message({"type": "input_image", "image_url": PNG, "uuid": "u"}), "[0].content[0].uuid"),
        ([{"type": "reasoning", "summary": [{"text": 1}]}], "[0].summary[0].text"),
        ([{"type": "reasoning"}], "[0].summary"),
        ([{"role": "user", "content": "hi", "name": "x"}], "[0].name"),
        ([{"type": "function_call_output", "call_id": "c", "output": "x", "arguments": "{}"}], "[0].arguments"),
        ([{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "output": "x"}], "[0].output"),
    ],
)
def test_any_other_item_is_refused_where_it_differs(value: object, param: str | None) -> None:
    assert fault("input", value, Inspection(drop_unlisted=True)) == (Reason.PARAMETER_INVALID, param)


def test_members_that_are_not_known_are_refused_by_name() -> None:
    assert fault("input", [{"role": "user", "content": "x", "task": "y"}]) == (
        Reason.PARAMETER_NOT_ACCEPTED,
        "[0].task",
    )


def test_an_image_may_come_from_a_host_that_the_policy_names() -> None:
    inspection = Inspection(media_hosts=frozenset({"x.example"}))
    assert fault("input", message({"type": "input_image", "image_url": "https://x.example/a"}), inspection) is None


@pytest.mark.parametrize(
    "name, value",
    [
        ("instructions", "<|im_start|>"),
        ("input", "<|im_start|>"),
        ("input", [{"role": "user", "content": "<|im_start|>"}]),
        ("input", message({"type": "input_text", "text": "<|im_start|>"})),
        ("input", message({"type": "output_text", "text": "<|im_start|>"})),
        ("input", message({"type": "refusal", "refusal": "<|im_start|>"})),
        ("input", [{"type": "function_call", "call_id": "<s>", "name": "f", "arguments": ""}]),
        ("input", [{"type": "function_call", "call_id": "c", "name": "<s>", "arguments": ""}]),
        ("input", [{"type": "function_call", "call_id": "c", "name": "f", "arguments": r'{"a":"\u003cs>"}'}]),
        ("input", [{"type": "function_call_output", "call_id": "c", "output": "</s>"}]),
        ("input", [{"type": "reasoning", "summary": [{"text": "</s>"}]}]),
        ("input", [{"type": "reasoning", "summary": [], "content": [{"text": "</s>"}]}]),
        ("tools", [{"type": "function", "name": "f", "description": "<|im_end|>"}]),
        ("tools", [{"type": "function", "name": "f", "parameters": {"title": "<|im_end|>"}}]),
        ("text.format", {"type": "json_schema", "name": "n", "schema": {"title": "<|im_end|>"}}),
    ],
)
def test_special_tokens_are_refused_in_all_that_a_template_renders_where_that_is_the_rule(
    name: str, value: object
) -> None:
    found = fault(name, value, Inspection(special_tokens=True))
    assert found is not None
    assert found[0] is Reason.PARAMETER_INVALID
    assert fault(name, value) is None


@pytest.mark.parametrize(
    "kind",
    [
        "mcp",
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "computer_use_preview",
        "computer",
        "image_generation",
        "local_shell",
        "shell",
        "apply_patch",
        "tool_search",
        "namespace",
        "custom",
        "container",
    ],
)
def test_tools_that_a_service_runs_are_refused(kind: str) -> None:
    assert fault("tools", [{"type": kind, "name": "x"}]) == (Reason.PARAMETER_INVALID, "[0].type")


@pytest.mark.parametrize(
    "name, good, bad",
    [
        ("tools", [[], [{"type": "function", "name": "f", "parameters": None, "strict": None}]], [{}, [{"name": "f"}]]),
        (
            "tool_choice",
            ["auto", "none", "required", {"type": "function", "name": "f"}],
            ["f", {"type": "mcp", "server_label": "x"}, {"type": "function"}, {"type": "allowed_tools"}],
        ),
        ("text.format", [{"type": "text"}, {"type": "json_object"}], [{"type": "grammar"}, "text", {}]),
        (
            "text.format",
            [{"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}],
            [{"type": "json_schema", "name": "n"}, {"type": "json_schema", "schema": {}}],
        ),
        ("text.format", [], [{"type": "json_schema", "name": "n", "schema": {"title": "a" * 70_000}}]),
        (
            "include",
            [[], ["message.output_text.logprobs", "reasoning.encrypted_content"]],
            [["file_search_call.results"], ["code_interpreter_call.outputs"], "x"],
        ),
        ("reasoning.effort", ["none", "minimal", "max"], ["off", "", True, 1]),
        ("truncation", ["auto", "disabled"], ["left"]),
        ("top_logprobs", [0, 20], [-1, 21]),
        ("store", [True, False], ["false", 0]),
        ("max_output_tokens", [1], [0, "5", 1.5]),
    ],
)
def test_values_have_the_type_of_their_field(name: str, good: list[Any], bad: list[Any]) -> None:
    assert [fault(name, value) for value in good] == [None] * len(good)
    assert None not in [fault(name, value) for value in bad]


ENDED = event("response.completed", response={"tools": [FAKE], "usage": COUNT, "user": None}, sequence_number=9)


def test_the_count_of_a_whole_answer_stands_under_other_names_than_that_of_chat() -> None:
    assert DIALECT.usage(json.dumps({"tools": [FAKE], "usage": COUNT, "user": None}).encode()) == USAGE
    assert DIALECT.usage(b'{"usage": null}') is None


@pytest.mark.parametrize("count", [None, 7, [COUNT]])
def test_a_last_event_without_an_object_for_a_count_has_none(count: object) -> None:
    events = event("response.failed", response={"usage": count})
    assert DIALECT.usage(events) is None
    assert DIALECT.ends(events)


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.failed"])
@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b"\r"])
def test_the_last_event_of_a_stream_has_the_count_and_ends_it(kind: str, blank: bytes) -> None:
    """It does with and without the names of events, whatever the lines end in."""
    first = event("response.output_text.delta", delta="x")
    last = event(kind, response={"usage": COUNT})
    for events in (first + last, last, last.partition(b"\n")[2]):
        written = events.replace(b"\n", blank)
        assert DIALECT.usage(written) == USAGE
        assert DIALECT.ends(written)


@pytest.mark.parametrize(
    "events",
    [
        event("response.created", response={"tools": [FAKE], "usage": None}),
        event("response.created", response={"tools": [{"type": "response.completed", **FAKE}], "usage": None}),
        event("response.output_text.delta", delta='{"type":"response.completed","response":{"usage":{}}}'),
        b'event: response.completed\ndata: {"type":"response.completed",\n\n',
        b'event: response.completed\ndata: ["response.completed"]\n\n',
        b'data: {"error":{"message":"EngineCore encountered an issue","code":500}}\n\n',
        b": keep-alive\n\n",
        b"\n\n",
        b"",
    ],
)
def test_what_a_caller_wrote_is_no_count_and_no_end(events: bytes) -> None:
    assert DIALECT.usage(events) is None
    assert not DIALECT.ends(events)


def test_a_last_event_without_a_count_ends_a_stream_all_the_same() -> None:
    for answer in ({"usage": None}, None):
        events = event("response.incomplete", response=answer)
        assert DIALECT.usage(events) is None
        assert DIALECT.ends(events)


def test_the_end_of_a_last_event_that_came_in_pieces_is_enough() -> None:
    rest = ENDED[40:]
    assert DIALECT.usage(rest) == USAGE
    assert DIALECT.ends(rest)
    other = event("response.output_item.done", item={"arguments": "response.completed"})[40:]
    assert DIALECT.usage(other) is None
    assert not DIALECT.ends(other)


def test_a_broken_stream_ends_with_the_apis_own_event_that_the_sdk_raises_too() -> None:
    written = DIALECT.error_event(Reason.ENGINE_TIMEOUT, "The engine\nfailed.", "f" * 32)
    name, data = written.removesuffix(b"\n\n").split(b"\n")
    assert name == b"event: error"
    value = json.loads(data.removeprefix(b"data: "))
    flat = {"type": "error", "code": "engine-timeout", "message": "The engine\nfailed.", "param": None}
    assert {**flat, "sequence_number": 0}.items() <= value.items()
    assert (value["error"]["type"], value["error"]["code"]) == ("server_error", "engine-timeout")
    assert not DIALECT.ends(written)


PIECES = st.sampled_from(
    [
        b"\n\n",
        b"\r\n\r\n",
        b"data: ",
        b"event: response.completed\n",
        b'{"type":"response.completed"}',
        b'"usage":',
        json.dumps(COUNT).encode(),
        b"[" * 2000,
        b"\xff",
    ]
)


@given(st.lists(PIECES | st.binary(max_size=20), max_size=12).map(b"".join))
def test_no_bytes_of_an_engine_are_too_odd_to_look_at(data: bytes) -> None:
    found = DIALECT.usage(data)
    assert found is None or all(
        count is None or count >= 0 for count in (found.prompt, found.completion, found.reasoning)
    )
    assert DIALECT.ends(data) in {True, False}


@given(st.lists(st.integers(1, 400), max_size=6))
def test_however_a_stream_is_cut_its_count_is_found(cuts: list[int]) -> None:
    stream = (
        event("response.created", response={"usage": None}) + event("response.output_text.delta", delta="x") + ENDED
    )
    buffer = EventBuffer()
    pieces = [stream[start:end] for start, end in pairwise([0, *sorted(cuts), len(stream)]) if start < end]
    whole = [passed for piece in pieces if (passed := buffer.feed(piece))]
    assert b"".join(whole) == stream
    assert [DIALECT.usage(passed) for passed in whole][-1] == USAGE
    assert [DIALECT.ends(passed) for passed in whole] == [False] * (len(whole) - 1) + [True]


def test_a_stream_tells_its_count_unasked_and_has_a_token_in_each_event_with_a_piece() -> None:
    dialect = OpenAIResponses()
    said = b'event: response.output_text.delta\ndata: {"delta":".delta\\"","type":"response.output_text.delta"}\n\n'
    thought = b'event: response.reasoning_text.delta\ndata: {"delta":"x","type":"response.reasoning_text.delta"}\n\n'
    done = b'event: response.output_text.done\ndata: {"text":"x","type":"response.output_text.done"}\n\n'
    assert dialect.tells_usage is None
    assert (said + thought + done).count(dialect.delta) - dialect.lead == 2
