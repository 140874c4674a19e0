from __future__ import annotations

import pytest

from gateway.simulator.errors import Refused
from gateway.simulator.prompt import chat, completion, served
from gateway.simulator.state import EngineState
from tests.simulator.conftest import KEY, Asking, hi

OFF, ON = 20, 14

# As seen on a real vLLM 0.32.0 without a server default, and with "enable_thinking": false as its default.
SWITCHES = [
    ({}, ON, OFF),
    ({"chat_template_kwargs": {}}, ON, OFF),
    ({"chat_template_kwargs": None}, ON, OFF),
    ({"chat_template_kwargs": {"enable_thinking": False}}, OFF, OFF),
    ({"chat_template_kwargs": {"enable_thinking": True}}, ON, ON),
    ({"chat_template_kwargs": {"enable_thinking": None}}, ON, OFF),
    ({"chat_template_kwargs": {"enable_thinking": "auto"}}, ON, OFF),
    ({"chat_template_kwargs": {"enable_thinking": "false"}}, ON, ON),
    ({"chat_template_kwargs": {"enable_thinking": 0}}, ON, ON),
    ({"chat_template_kwargs": {"thinking": False}}, ON, OFF),
    ({"enable_thinking": False}, ON, OFF),
    ({"reasoning_effort": "none"}, OFF, OFF),
    ({"reasoning_effort": "low"}, ON, ON),
    ({"reasoning_effort": None}, ON, OFF),
    ({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}}, OFF, OFF),
    ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, ON, ON),
    ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": None}}, ON, OFF),
    ({"reasoning_effort": "none", "chat_template_kwargs": {}}, OFF, OFF),
    ({"add_generation_prompt": False}, 8, 8),
]


@pytest.mark.parametrize("fields, tokens, with_default", SWITCHES)
def test_the_length_of_the_prompt_shows_whether_the_model_may_think(
    fields: dict[str, object], tokens: int, with_default: int
) -> None:
    assert chat(EngineState(), hi(**fields)).tokens == tokens
    assert chat(EngineState(default_enable_thinking=False), hi(**fields)).tokens == with_default


def test_a_template_that_knows_no_switch_heeds_none() -> None:
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    read = chat(EngineState(heeds_switch=False), hi(**off))
    assert (read.tokens, read.thinks) == (ON, True)


def test_continuing_the_last_message_leaves_the_think_block_out() -> None:
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    assert chat(EngineState(), hi(continue_final_message=True, **off)).tokens == 6


@pytest.mark.parametrize(
    "fields",
    [
        {"chat_template_kwargs": "x"},
        {"chat_template_kwargs": []},
        {"chat_template_kwargs": {"messages": []}},
        {"chat_template_kwargs": {"conversation": []}},
        {"chat_template_kwargs": {"chat_template": "x"}},
        {"chat_template": "x"},
        {"reasoning_effort": "bogus"},
        {"thinking_token_budget": 0},
        {"stream_options": {"include_usage": True}},
        {"max_tokens": 0},
        {"max_tokens": 9000},
        {"n": 16385},
        {"messages": [{"content": "no role"}]},
    ],
)
def test_what_vllm_refuses_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(Refused) as refusal:
        chat(EngineState(), hi(**fields))
    assert refusal.value.status == 400


@pytest.mark.parametrize("value", ["5", 5.0, 5])
def test_numbers_are_coerced(value: object) -> None:
    assert chat(EngineState(), hi(max_tokens=value)).most == 5


def test_truth_is_coerced_and_unknown_fields_are_taken() -> None:
    read = chat(EngineState(), hi(stream=1, n="3", batch_size=32, stream_options={"include_usage": "true"}))
    assert (read.stream, read.choices, read.usage_event) == (True, 3, True)


def test_max_completion_tokens_beats_max_tokens() -> None:
    assert chat(EngineState(), hi(max_completion_tokens=1, max_tokens=7)).most == 1


def test_a_budget_for_thought_is_taken_where_the_server_parses_thought() -> None:
    assert chat(EngineState(reasoning_parser=True), hi(thinking_token_budget=0)).thinks


def test_a_model_may_be_left_out_and_adapters_are_models() -> None:
    engine = EngineState(("a", "b"), adapters=["lora"])
    assert served(engine, None) == "a"
    assert served(engine, "lora") == "lora"


def test_a_completion_has_no_template() -> None:
    assert completion(EngineState(), {"prompt": "hi", "reasoning_effort": "none"}).tokens == 2
    assert completion(EngineState(), {"prompt": [1, 2, 3]}).tokens == 3


@pytest.mark.parametrize(
    "body, status",
    [
        (b'{"messages":[{"role":"user","content":"hi"}],"n":2,"n":1}', 200),
        ('{"messages":[{"role":"user","content":"hi"}]}'.encode("utf-16"), 200),
        (b'{"messages":[],"temperature":NaN}', 200),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (b"[]", 400),
    ],
)
async def test_bodies_are_read_as_leniently_as_by_vllm(asking: Asking, body: bytes, status: int) -> None:
    headers = {"authorization": f"Bearer {KEY}", "content-type": "Application/JSON; charset=x"}
    response = await asking.client.post("/v1/chat/completions", content=body, headers=headers)
    assert response.status_code == status


async def test_another_media_type_is_400_and_not_415(asking: Asking) -> None:
    headers = {"authorization": f"Bearer {KEY}", "content-type": "text/plain"}
    response = await asking.client.post("/v1/chat/completions", content=b"{}", headers=headers)
    assert response.status_code == 400
