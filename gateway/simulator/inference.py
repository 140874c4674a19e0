"""The routes that use the engine: chat and completions under all their names, and the other APIs in brief.

Enters: the engine's state and a request. Leaves: the response. Chat and completions are imitated in full; of the rest
only what a gateway relies on: which fields are looked at, the shape of the answer, and how thinking is switched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from starlette.responses import JSONResponse, Response

from gateway.simulator import prompt, text
from gateway.simulator.errors import Refused, unknown_model

if TYPE_CHECKING:
    from starlette.requests import Request

    from gateway.simulator.state import EngineState

_DIMENSIONS = 8
_MOST_DIMENSIONS = 1024


async def chat_completions(engine: EngineState, request: Request) -> Response:
    """``POST /v1/chat/completions``."""
    return await text.chat(engine, prompt.chat(engine, await prompt.body(request)), request)


async def completions(engine: EngineState, request: Request) -> Response:
    """``POST /v1/completions``."""
    return await text.completion(engine, prompt.completion(engine, await prompt.body(request)), request)


async def batch(engine: EngineState, request: Request) -> Response:
    """``POST /v1/chat/completions/batch``: one answer for each conversation, under one id."""
    value = await _object(request)
    conversations = value.get("messages")
    if not isinstance(conversations, list) or not conversations:
        raise Refused("Field required", kind="Bad Request", param="body.messages")
    prompts = [prompt.chat(engine, {**value, "messages": messages, "stream": False}) for messages in conversations]
    return await text.chat(engine, prompts[0], request)


async def invocations(engine: EngineState, request: Request) -> Response:
    """``POST /invocations``: chat or completion by the look of the body, no key asked, any model's name taken."""
    value = await _object(request)
    adapter = request.headers.get("x-amzn-sagemaker-adapter-identifier")
    if adapter is not None and adapter not in engine.adapters:
        raise unknown_model(adapter, engine.models)
    if "messages" in value:
        return await text.chat(engine, prompt.chat(engine, value, any_model=True), request)
    if "prompt" in value:
        return await text.completion(engine, prompt.completion(engine, value, any_model=True), request)
    raise Refused("Cannot find suitable handler for request. Expected one of: chat, completion.")


async def tokenize(engine: EngineState, request: Request) -> Response:
    """``POST /tokenize``: the prompt as the engine would see it, no key asked."""
    value = await _object(request)
    read = prompt.completion(engine, value) if "prompt" in value else _prompt(engine, value, effort=None)
    tokens = list(range(read.tokens))
    texts = [f"t{token}" for token in tokens] if value.get("return_token_strs") else None
    head = {"count": len(tokens), "max_model_len": engine.max_model_len}
    return JSONResponse({**head, "tokens": tokens, "token_strs": texts})


async def detokenize(engine: EngineState, request: Request) -> Response:
    """``POST /detokenize``: text for token ids, no key asked."""
    value = await _object(request)
    tokens = value.get("tokens")
    if not isinstance(tokens, list):
        raise Refused("Field required", kind="Bad Request", param="body.tokens")
    prompt.served(engine, value.get("model"))
    return JSONResponse({"prompt": " ".join(f"t{token}" for token in tokens)})


async def embeddings(engine: EngineState, request: Request) -> Response:
    """``POST /v1/embeddings``, and the open ``/pooling``."""
    value = await _object(request)
    given = value.get("input")
    if given is None:
        raise Refused("Field required", kind="Bad Request", param="body.input")
    if given == []:
        raise Refused("You must pass at least one prompt")
    model = prompt.served(engine, value.get("model"))
    inputs = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
    size = value.get("dimensions")
    if size is not None and not 1 <= size <= _MOST_DIMENSIONS:
        raise Refused(f"Model {model!r} only supports dimensions in range 1 to {_MOST_DIMENSIONS}, got {size}.")
    vector = [0.125] * (size or _DIMENSIONS)
    data = [{"index": index, "object": "embedding", "embedding": vector} for index in range(len(inputs))]
    tokens = sum(len(part.split()) + 2 if isinstance(part, str) else len(part) for part in inputs)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}
    head = {"id": f"embd-{uuid4().hex}", "object": "list", "created": 0, "model": model}
    return JSONResponse({**head, "data": data, "usage": usage})


def _prompt(engine: EngineState, value: dict[str, Any], *, effort: str | None) -> prompt.Prompt:
    """Read a chat of another API, where ``reasoning_effort`` means nothing and ``effort`` is its own switch."""
    return prompt.chat(engine, {**value, "reasoning_effort": effort})


async def _object(request: Request) -> dict[str, Any]:
    value = await prompt.body(request)
    if not isinstance(value, dict):
        raise Refused("Input should be a valid dictionary", kind="Bad Request", param="body")
    return value
