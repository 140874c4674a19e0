from __future__ import annotations

import pytest

from gateway.dialects.checks import Inspection
from gateway.dialects.openai_chat import CHAT
from gateway.dialects.tokenizer import DETOKENIZE, TOKENIZE, Tokenizer, unmet
from gateway.reasons import Malformed


@pytest.mark.parametrize("name", ["tokenize", "detokenize"])
def test_each_has_the_engines_path_of_its_name(name: str) -> None:
    assert (Tokenizer(name).name, Tokenizer(name).upstream) == (name, ("POST", f"/{name}"))


def test_messages_and_tools_are_those_of_chat() -> None:
    assert TOKENIZE.fields["messages"].kinds == CHAT.fields["messages"].kinds
    for bad in (
        [{"content": "x"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http"}}]}],
    ):
        with pytest.raises(Malformed):
            TOKENIZE.fields["messages"].check(bad, Inspection())
    TOKENIZE.fields["messages"].check([{"role": "user", "content": "hi"}], Inspection())


@pytest.mark.parametrize("tokens", [[], [0, 1], [2**63 - 1]])
def test_tokens_are_numbers_that_a_vocabulary_can_have(tokens: list[int]) -> None:
    DETOKENIZE.fields["tokens"].check(tokens, Inspection())


@pytest.mark.parametrize("tokens", ["a", [-1], [2**63], [1.0], ["1"], [True]])
def test_nothing_else_is_a_list_of_tokens(tokens: object) -> None:
    with pytest.raises(Malformed):
        DETOKENIZE.fields["tokens"].check(tokens, Inspection())


@pytest.mark.parametrize(
    "body, expected",
    [
        ({"messages": []}, []),
        ({"messages": [], "tools": [], "add_generation_prompt": False}, []),
        ({"prompt": "a"}, []),
        ({"prompt": "a", "messages": None}, []),
        ({}, [("messages", "is missing: send messages, or a prompt")]),
        ({"prompt": "a", "messages": []}, [("prompt", "does not go with messages")]),
        (
            {"prompt": "a", "chat_template_kwargs": {"enable_thinking": False}, "tools": []},
            [("tools", ""), ("chat_template_kwargs", "")],
        ),
    ],
)
def test_a_body_has_one_of_two_shapes(body: dict[str, object], expected: list[tuple[str, str]]) -> None:
    assert unmet(body) == expected


def test_no_template_of_a_callers_is_ever_run() -> None:
    assert TOKENIZE.fields["chat_template"].treatment == "refuse"
    assert TOKENIZE.fields["chat_template_kwargs.chat_template"].treatment == "refuse"
