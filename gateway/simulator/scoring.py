"""The routes of pooling models that compare texts: scores of pairs, and documents in the order in which they fit.

Enters: the engine's state and a request. Leaves: vLLM's answer, its fields in vLLM's order: a ranking has its count of
tokens before its documents. The score of a pair is the share of words that both sides have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from starlette.responses import JSONResponse, Response

from gateway.simulator import prompt
from gateway.simulator.errors import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

    from gateway.simulator.state import EngineState

_NOTHING = "At least one text_pair element must be given"
_PAIRS = (("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2"))


async def rerank(engine: EngineState, request: Request) -> Response:
    """``POST /rerank`` under all its names."""
    value = await _object(request, "query", "documents")
    model = prompt.served(engine, value.get("model"))
    query, documents = value["query"], _many(value["documents"])
    if not documents:
        raise Refused(_NOTHING)
    ranked: list[dict[str, Any]] = [
        {"index": index, "document": _document(document), "relevance_score": _score(query, document)}
        for index, document in enumerate(documents)
    ]
    ranked.sort(key=lambda one: -one["relevance_score"])
    tokens = sum(_tokens(query) + _tokens(document) for document in documents)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    results = ranked[: value.get("top_n") or len(ranked)]
    return JSONResponse({"id": f"rerank-{uuid4().hex}", "model": model, "usage": usage, "results": results})


async def score(engine: EngineState, request: Request) -> Response:
    """``POST /score`` under both its names."""
    value = await _object(request)
    pair = next((pair for pair in _PAIRS if all(value.get(name) is not None for name in pair)), None)
    if pair is None:
        raise Refused("Field required", kind="Bad Request", param="body.data_1")
    model = prompt.served(engine, value.get("model"))
    left, right = (_many(value[name]) for name in pair)
    if len(left) not in {1, len(right)}:
        raise Refused("Input lengths must be either 1:1, 1:N or N:N")
    if not right:
        raise Refused(_NOTHING)
    pairs = list(zip(left * (len(right) // len(left)), right, strict=True))
    data = [{"index": index, "object": "score", "score": _score(*pair)} for index, pair in enumerate(pairs)]
    tokens = sum(_tokens(one) + _tokens(other) for one, other in pairs)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}
    head = {"id": f"embd-{uuid4().hex}", "object": "list", "created": 0, "model": model}
    return JSONResponse({**head, "data": data, "usage": usage})


async def _object(request: Request, *required: str) -> dict[str, Any]:
    value = await prompt.body(request)
    if not isinstance(value, dict):
        raise Refused("Input should be a valid dictionary", kind="Bad Request", param="body")
    for name in required:
        if value.get(name) is None:
            raise Refused("Field required", kind="Bad Request", param=f"body.{name}")
    return value


def _many(value: Any) -> list[Any]:  # noqa: ANN401  (a JSON value)
    return value if isinstance(value, list) else [value]


def _document(document: Any) -> dict[str, Any]:  # noqa: ANN401  (a JSON value)
    if isinstance(document, dict):
        return {"text": None, "multi_modal": document.get("content")}
    return {"text": document, "multi_modal": None}


def _words(value: Any) -> list[str]:  # noqa: ANN401  (a JSON value)
    if isinstance(value, str):
        return value.split()
    parts = value.get("content", []) if isinstance(value, dict) else []
    return [word for part in parts for word in str(part.get("text", "")).split()]


def _tokens(value: Any) -> int:  # noqa: ANN401  (a JSON value)
    return len(_words(value)) + 2


def _score(one: Any, other: Any) -> float:  # noqa: ANN401  (JSON values)
    left, right = set(_words(one)), set(_words(other))
    return len(left & right) / (len(left | right) or 1)
