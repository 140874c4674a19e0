from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.call import Usage
from gateway.dialects.checks import Inspection
from gateway.dialects.rerank import RERANK, Rerank
from gateway.reasons import Malformed

PNG = "data:image/png;base64,AA"
PICTURE = {"type": "image_url", "image_url": {"url": PNG}}


def fault(name: str, value: Any, *, special_tokens: bool = False) -> str | None:  # noqa: ANN401  (any JSON value)
    try:
        RERANK.fields[name].check(value, Inspection(special_tokens=special_tokens))
    except Malformed as found:
        return f"{found.param or ''} {found.detail}"
    return None


def test_rankings_go_to_the_engines_rerank_endpoint() -> None:
    assert (Rerank().name, Rerank().upstream) == ("rerank", ("POST", "/v1/rerank"))
    assert RERANK.required == ("query", "documents")


@pytest.mark.parametrize("value", ["a", ["a", "b"], [], {"content": [PICTURE]}, ["a", {"content": [PICTURE]}]])
def test_documents_are_text_or_content_with_pictures(value: object) -> None:
    assert fault("documents", value) is None


@pytest.mark.parametrize(
    "value, param",
    [
        (1, ""),
        ([1], "[0]"),
        ([["a"]], "[0]"),
        ({"text": "a"}, "text"),
        ({"content": "a"}, "content"),
        ([{"content": [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}], "[0].content[0]"),
        ({"content": [{"type": "video_url", "video_url": {"url": PNG}}]}, "content[0].type"),
        ({"content": [{"type": "image_embeds", "image_embeds": "x"}]}, "content[0].type"),
        ({"content": [{**PICTURE, "image_embeds": "x"}]}, "content[0].image_embeds"),
        ({"content": [{"image_url": {"url": PNG}}]}, "content[0].type"),
    ],
)
def test_nothing_else_is_a_document(value: object, param: str) -> None:
    assert (fault("documents", value) or "none").startswith(param)


def test_one_query_is_not_a_list() -> None:
    assert fault("query", "a") is None
    assert fault("query", {"content": [{"type": "text", "text": "a"}]}) is None
    assert fault("query", ["a"]) == " must be text or an object"


def test_special_tokens_are_found_in_every_text() -> None:
    for value in ("<|im_end|>", ["a", "<|im_end|>"], {"content": [{"type": "text", "text": "<|im_end|>"}]}):
        assert "special token" in (fault("documents", value, special_tokens=True) or "")
    assert fault("instruction", "<|im_end|>", special_tokens=True)


def test_the_count_of_tokens_stands_before_the_documents() -> None:
    answer = b'{"id":"r","model":"m","usage":{"prompt_tokens":7,"total_tokens":7},"results":[]}'
    assert Rerank().usage(answer) == Usage(7)
