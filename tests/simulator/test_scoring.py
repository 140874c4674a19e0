from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.simulator.conftest import Asking

PAIR = {"type": "text", "text": "a b"}


async def test_documents_come_in_the_order_in_which_they_fit_behind_the_count_of_tokens(asking: Asking) -> None:
    _, ranked = await asking.post("/v1/rerank", {"query": "a b", "documents": ["c", "a", "b a"], "top_n": 2})
    assert list(ranked) == ["id", "model", "usage", "results"]
    assert [result["index"] for result in ranked["results"]] == [2, 1]
    assert ranked["usage"] == {"prompt_tokens": 22, "total_tokens": 22}


async def test_a_document_may_have_parts(asking: Asking) -> None:
    _, ranked = await asking.post("/rerank", {"query": {"content": [PAIR]}, "documents": {"content": [PAIR]}}, key=None)
    assert ranked["results"][0] == {
        "index": 0,
        "document": {"text": None, "multi_modal": [PAIR]},
        "relevance_score": 1.0,
    }


@pytest.mark.parametrize("pair", [("queries", "items"), ("queries", "documents"), ("data_1", "data_2")])
async def test_each_pair_gets_a_score(asking: Asking, pair: tuple[str, str]) -> None:
    _, scored = await asking.post("/v1/score", {pair[0]: "a", pair[1]: ["a", "b"]})
    assert [one["score"] for one in scored["data"]] == [1.0, 0.0]
    assert scored["usage"]["prompt_tokens"] == 12


@pytest.mark.parametrize(
    "path, body",
    [
        ("/rerank", {"documents": ["a"]}),
        ("/rerank", {"query": "a"}),
        ("/rerank", []),
        ("/score", {"text_1": "a"}),
        ("/score", {"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}),
        ("/score", {"text_1": [], "text_2": []}),
        ("/score", {"text_1": "a", "text_2": []}),
        ("/rerank", {"query": "a", "documents": []}),
    ],
)
async def test_half_a_pair_is_refused(asking: Asking, path: str, body: object) -> None:
    assert (await asking.post(path, body, key=None))[0] == 400
