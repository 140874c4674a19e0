"""Embeddings, rankings and scores of a real vLLM, which compares texts by their vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import orjson
import pytest

from tests.e2e.raw_http import ask, request
from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.raw_http import Answer
    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

EMBED, RANK, SCORE = "/v1/embeddings", "/v1/rerank", "/v1/score"
DIMENSIONS = 64
WHOLE: dict[str, dict[str, Any]] = {
    EMBED: {"input": "hi"},
    RANK: {"query": "hi", "documents": ["hello there", "hi"]},
    SCORE: {"queries": "hi", "documents": ["hello there", "hi"]},
}
# More than two blocks of the cache (128 tokens each on the CPU).
LONG = "What did the other client ask, and when? " * 12


@pytest.fixture
def sdk(pooling: Serving) -> Iterator[openai.OpenAI]:
    """Give OpenAI's own client, with a key."""
    with openai.OpenAI(base_url=pooling.url, api_key=KEY, max_retries=0, timeout=30) as client:
        yield client


def post(gateway: Serving, target: str, body: object, credential: str = KEY) -> Answer:
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}
    return ask(gateway.address, request(target, gateway.host, method="POST", headers=headers, body=orjson.dumps(body)))


def usage(gateway: Serving, answer: Answer) -> Any:  # noqa: ANN401  (a JSON value)
    return gateway.record(answer.value("x-request-id") or "")["usage"]


@pytest.mark.parametrize("form", [None, "float", "base64"])
def test_texts_become_vectors_and_are_counted(pooling: Serving, sdk: openai.OpenAI, form: Any) -> None:  # noqa: ANN401  (a literal, or none)
    asked: dict[str, Any] = {"model": "vectors", "input": ["hi", "hello there"], "user": "x"}
    raw = sdk.embeddings.with_raw_response.create(**asked, **({"encoding_format": form} if form else {}))
    answer = raw.parse()
    if form != "base64":
        assert [len(one.embedding) for one in answer.data] == [DIMENSIONS, DIMENSIONS]
        assert sum(number**2 for number in answer.data[0].embedding) == pytest.approx(1, abs=1e-4)
    counted = pooling.record(raw.headers["x-request-id"])["usage"]
    assert counted["prompt"] == answer.usage.prompt_tokens > 2


def test_the_document_that_is_the_query_comes_first(pooling: Serving) -> None:
    answer = post(pooling, RANK, WHOLE[RANK])
    assert answer.status == 200, answer.body
    first, second = answer.json["results"]
    assert (first["index"], first["relevance_score"]) == (1, pytest.approx(1, abs=1e-4))
    assert second["relevance_score"] < 1
    assert usage(pooling, answer)["prompt"] == answer.json["usage"]["prompt_tokens"] > 2
    assert len(post(pooling, RANK, {**WHOLE[RANK], "top_n": 1}).json["results"]) == 1


@pytest.mark.parametrize(
    "body", [WHOLE[SCORE], {"text_1": "hi", "text_2": ["hello there", "hi"]}], ids=["queries", "texts"]
)
def test_pairs_are_scored_and_counted(pooling: Serving, body: dict[str, Any]) -> None:
    answer = post(pooling, SCORE, body)
    assert answer.status == 200, answer.body
    assert [one["score"] for one in answer.json["data"]] == [pytest.approx(0.2, abs=0.1), pytest.approx(1, abs=1e-4)]
    assert usage(pooling, answer)["prompt"] == answer.json["usage"]["prompt_tokens"] > 2


@pytest.mark.parametrize(
    "target, body",
    [(EMBED, {"input": "embedded " + LONG}), (RANK, {"query": "hi", "documents": ["ranked " + LONG]})],
)
def test_no_client_finds_what_another_one_had_embedded(
    pooling: Serving, pooling_engine: RealEngine, access_token: str, target: str, body: dict[str, Any]
) -> None:
    """Vectors are worked out with the prefix cache too, so without the salt they would tell who asked before."""

    def found(credential: str) -> int:
        return pooling_engine.found_while(asking(credential))

    def asking(credential: str) -> Callable[[], object]:
        def once() -> None:
            answer = post(pooling, target, body, credential)
            assert answer.status == 200, answer.body

        return once

    assert found(KEY) == 0
    assert found(KEY) > 0
    assert found(access_token) == 0, "a client was answered from what another one asked"
    assert found(access_token) > 0


@pytest.mark.parametrize("target", [EMBED, RANK, SCORE])
@pytest.mark.parametrize("name", ["cache_salt", "priority", "mm_processor_kwargs", "chat_template_kwargs", "padding"])
def test_a_refused_field_never_reaches_the_engine(
    pooling: Serving, pooling_engine: RealEngine, target: str, name: str
) -> None:
    mark = pooling_engine.mark()
    answer = post(pooling, target, {**WHOLE[target], name: {"priority": 1, "cache_salt": "x"}.get(name, {})})
    assert (answer.status, answer.json["error"]["param"]) == (400, name)
    assert target not in {seen[1] for seen in pooling_engine.served_since(mark)}
    assert post(pooling, target, WHOLE[target]).status == 200
    assert ("POST", target, 200) in pooling_engine.served_since(mark)


def test_what_the_engine_refuses_is_told_as_it_says_it(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="Matryoshka") as caught:
        sdk.embeddings.create(model="vectors", input="hi", dimensions=8)
    assert caught.value.code == "engine-error"
    assert "local" not in str(caught.value.param)
