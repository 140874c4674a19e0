from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.checks import Inspection
from gateway.dialects.openai_embeddings import EMBEDDINGS, OpenAIEmbeddings
from gateway.reasons import Malformed


def fault(name: str, value: Any, *, special_tokens: bool = False) -> str | None:  # noqa: ANN401
    try:
        EMBEDDINGS.fields[name].check(value, Inspection(special_tokens=special_tokens))
    except Malformed as found:
        return f"{found.param or ''} {found.detail}"
    return None


def test_embeddings_go_to_the_engines_embeddings_endpoint() -> None:
    assert OpenAIEmbeddings().name == "openai-embeddings"
    assert OpenAIEmbeddings().upstream == ("POST", "/v1/embeddings")
    assert EMBEDDINGS.answer_tokens == ()


@pytest.mark.parametrize("value", ["text", [], ["a", "b"], [1, 2], [[1, 2], [3]]])
def test_texts_and_token_ids_are_embedded(value: object) -> None:
    assert fault("input", value) is None


@pytest.mark.parametrize(
    "value", [1, {}, [True], ["a", 1], [1, "a"], [1.0], [-1], [[1], 2], [["a"]], [None], [{"role": "user"}]]
)
def test_nothing_else_is_embedded(value: object) -> None:
    assert fault("input", value)


def test_where_special_tokens_are_refused_so_are_token_ids() -> None:
    assert fault("input", "a <|im_end|>", special_tokens=True)
    assert fault("input", ["a", "</s>"], special_tokens=True)
    assert fault("input", [1], special_tokens=True) == " must be text: token ids can spell special tokens"
    assert fault("input", [[1]], special_tokens=True)
    assert fault("input", ["a"], special_tokens=True) is None


@pytest.mark.parametrize(
    "name, good, bad",
    [("encoding_format", "base64", "bytes"), ("dimensions", 8, 0), ("user", "u", 1), ("use_activation", True, 1)],
)
def test_values_have_the_type_of_their_field(name: str, good: object, bad: object) -> None:
    assert fault(name, good) is None
    assert fault(name, bad)
