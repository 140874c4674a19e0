"""Anthropic's API as vLLM 0.32 serves it: messages, whole or as named events, and the count of their tokens.

Enters: the engine's state and a request. Leaves: the response. Reasoning is a block of its own where the server parses
it out; a forced tool is called with no arguments; an error of the run has Anthropic's shape with vLLM's own types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from starlette.responses import JSONResponse, Response, StreamingResponse

from gateway.simulator import prompt, text
from gateway.simulator.anthropic_prompt import CountRequest, MessagesRequest, read
from gateway.simulator.errors import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from gateway.simulator.state import EngineState


async def messages(engine: EngineState, request: Request) -> Response:
    """``POST /v1/messages``."""
    asked = read(MessagesRequest, await prompt.body(request))
    try:
        answer = text.Answer(engine, prompt.chat(engine, asked.chat()), request, "chatcmpl")
    except Refused as refused:
        return _run_error(refused)
    if answer.prompt.stream:
        return StreamingResponse(_events(answer, asked.forced), media_type=text.EVENT_STREAM)

    async def whole() -> Response:
        tokens = [token async for token in answer.tokens()]
        usage = {"input_tokens": answer.prompt.tokens, "output_tokens": answer.produced}
        content = [block for block, _ in _blocks(answer, asked.forced, tokens)]
        return JSONResponse({**_head(answer), "content": content, **_ending(answer, asked.forced), "usage": usage})

    return await text.until_left(request, whole)


async def count_tokens(engine: EngineState, request: Request) -> Response:
    """``POST /v1/messages/count_tokens``."""
    asked = read(CountRequest, await prompt.body(request))
    try:
        tokens = prompt.chat(engine, asked.chat()).tokens
    except Refused as refused:
        return _run_error(refused)
    return JSONResponse({"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}})


async def _events(answer: text.Answer, forced: str | None) -> AsyncIterator[bytes]:
    start: dict[str, Any] = {**_head(answer), "content": [], "stop_reason": None, "stop_sequence": None}
    usage = {"input_tokens": answer.prompt.tokens, "output_tokens": 0}
    kind = ""
    index = -1
    async for token in answer.tokens():
        if answer.produced == 1:
            yield _event("message_start", message={**start, "usage": usage})
        ((block, delta),) = _blocks(answer, forced, [token], at=answer.produced)
        if block["type"] != kind:
            if kind:
                for event in _stop(kind, index):
                    yield event
            kind, index = block["type"], index + 1
            yield _event("content_block_start", index=index, content_block={**block, **_EMPTY[kind]})
        if kind != "tool_use" or answer.produced == answer.expected:
            yield _event("content_block_delta", index=index, delta=delta)
    for event in _stop(kind, index) if kind else ():
        yield event
    usage = {"input_tokens": answer.prompt.tokens, "output_tokens": answer.produced}
    yield _event("message_delta", delta=_ending(answer, forced), usage=usage)
    yield _event("message_stop")


_EMPTY: dict[str, dict[str, Any]] = {"thinking": {"thinking": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}


def _blocks(
    answer: text.Answer, forced: str | None, tokens: list[str], *, at: int = 0
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Give the blocks that these tokens make, each with its delta; ``at`` is the number of a single token."""
    thought = tokens[: max(answer.thinking_tokens - max(at - 1, 0), 0)]
    said = "".join(tokens[len(thought) :])
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if thought:
        reasoning = "".join(thought)
        block: dict[str, Any] = {"type": "thinking", "thinking": reasoning, "signature": uuid4().hex}
        blocks.append((block, {"type": "thinking_delta", "thinking": reasoning}))
    if said and forced:
        block = {"type": "tool_use", "id": f"chatcmpl-tool-{answer.id[-16:]}", "name": forced, "input": {}}
        blocks.append((block, {"type": "input_json_delta", "partial_json": "{}"}))
    elif said or not blocks:
        blocks.append(({"type": "text", "text": said}, {"type": "text_delta", "text": said}))
    return blocks


def _stop(kind: str, index: int) -> list[bytes]:
    stop = _event("content_block_stop", index=index)
    if kind != "thinking":
        return [stop]
    signature = {"type": "signature_delta", "signature": uuid4().hex}
    return [_event("content_block_delta", index=index, delta=signature), stop]


def _ending(answer: text.Answer, forced: str | None) -> dict[str, str | None]:
    reason = "max_tokens" if answer.finish_reason == "length" else "end_turn"
    return {"stop_reason": "tool_use" if forced else reason, "stop_sequence": None}


def _head(answer: text.Answer) -> dict[str, str]:
    return {"id": answer.id, "type": "message", "role": "assistant", "model": answer.prompt.model}


def _event(name: str, **members: Any) -> bytes:  # noqa: ANN401  (JSON values)
    return text.event({"type": name, **members}, name)


def _run_error(refused: Refused) -> Response:
    error = {"type": refused.kind, "message": refused.message}
    return JSONResponse({"type": "error", "error": error}, refused.status)
