from __future__ import annotations

import pytest

from gateway.dialects.special_tokens import in_json_text, in_text, in_value, texts

BAR = "\N{FULLWIDTH VERTICAL LINE}"
BLOCK = "\N{LOWER ONE EIGHTH BLOCK}"

TOKENS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|user|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|reserved_special_token_0|>",
    "<|turn>",
    "<turn|>",
    "<tool_call|>",
    f"<{BAR}User{BAR}>",
    f"<{BAR}end{BLOCK}of{BLOCK}sentence{BAR}>",
    f"</{BAR}DSML{BAR}invoke>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[/TOOL_RESULTS]",
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "[gMASK]",
    "<sop>",
    "]~b]",
    "]~!b[",
    "[e~[",
    "<extra_id_1>",
    "<SPECIAL_10>",
    "<seed:bos>",
    "<seed:eos>",
    "<beginning_of_sentence>",
    "<end_of_sentence>",
    "<reserved_106>",
    "[|user|]",
    "[|endofturn|]",
    "[UNUSED_TOKEN_146]",
]
TEXTS = [
    "",
    "plain",
    "a < b and c > d",
    "f <| x |> g",
    "x |> Enum.map(y)",
    "<p class='a'>text</p>",
    "[1] and [link](https://example.com)",
    "list[int] | None",
    "<think>hm</think>",
    "<seed:think>hm</seed:think>",
    "<tool_call>{}</tool_call>",
    "a[i]~b",
    "<|>",
    "[inst]",
    f"a {BAR} b",
    "let xs = [|1; 2|] in [|x|] |> f",
    "<seed>1</seed>",
    "<reserved_words>",
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_special_token_is_found_wherever_it_stands(token: str) -> None:
    assert in_text(token)
    assert in_text(f"before <b> [x] {token} after")
    assert in_json_text(token)


@pytest.mark.parametrize("text", TEXTS)
def test_ordinary_text_holds_none(text: str) -> None:
    assert not in_text(text)


@pytest.mark.parametrize(
    "arguments",
    [
        r'{"a": "<|im_end|>"}',
        r'{"a": "\u003c|im_end|\u003e"}',
        r'{"a": "\u003C\u007cim_end\u007C>"}',
        r'{"a": "[\/INST]"}',
        r'{"a": "unfinished \u003c|im_end|>',
        r'{"a": 1, "a": "\u003c|im_end|>"}',
        r'"\u005bINST]"',
        r'{"a": ["\uff5c", {"<\uff5cUser\uff5c>": null}]}',
    ],
)
def test_a_token_is_found_behind_the_escapes_of_json_in_text(arguments: str) -> None:
    assert in_json_text(arguments)


def test_escapes_that_nobody_can_read_count_as_a_token() -> None:
    assert in_json_text(r'{"a": "cut \n o')


def test_escapes_in_plain_text_stay_text() -> None:
    assert not in_text(r"\u003c|im_end|>")
    assert not in_json_text(r'{"a": "a \"quoted\" <b> \n text"}')
    assert not in_json_text("")
    assert not in_json_text('{"a": "cut o')


@pytest.mark.parametrize("value", [{"a": ["x", {"b": "<|im_end|>"}]}, {"<|im_end|>": 1}, ["[INST]"], "</s>"])
def test_a_token_is_found_in_names_and_values_of_any_depth(value: object) -> None:
    assert in_value(value)


def test_a_schema_without_tokens_passes() -> None:
    assert not in_value({"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["<x>", "]"]}}})


def test_texts_are_names_and_values() -> None:
    assert sorted(texts({"a": ["b", 1, {"c": "d"}], "e": None})) == ["a", "b", "c", "d", "e"]
