"""Answers made of text: chat and plain completions, whole or as an event stream, in vLLM 0.32's shapes and order.

Enters: a ``Prompt`` and the engine. Leaves: the response. Every event is one HTTP chunk: a role event with the first
token, one event for each token, the last with the finish reason, then usage if it was asked for, then ``[DONE]``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import orjson
from starlette.responses import JSONResponse, Response, StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from gateway.simulator.prompt import Prompt
    from gateway.simulator.state import EngineState

EVENT_STREAM = "text/event-stream"
DONE = b"data: [DONE]\n\n"


class Answer:
    """One answer under way: its id, its tokens and its count."""

    def __init__(self, engine: EngineState, prompt: Prompt, request: Request, prefix: str) -> None:
        self.engine = engine
        self.prompt = prompt
        self.id = f"{prefix}-{request.headers.get('x-request-id') or uuid4().hex}"
        self.created = int(time.time())
        self.produced = 0
        self.aborted = False
        self.expected = engine.answer_length(prompt.most, prompt.says)
        engine.prompt_tokens += prompt.tokens

    @property
    def thinking_tokens(self) -> int:
        """The first half of a thoughtful answer is thought, where the server parses it out."""
        if self.engine.blind_parser:
            return self.expected
        return self.expected // 2 if self.prompt.thinks and self.engine.reasoning_parser else 0

    async def tokens(self) -> AsyncIterator[str]:
        """Emit the tokens and count them."""
        async for token in self.engine.generate(self.prompt.most, self.prompt.says):
            self.produced += 1
            yield token
        self.aborted = self.produced < self.expected

    @property
    def last_reason(self) -> str | None:
        """The finish reason if the token just emitted is the last."""
        return self.engine.finish_reason(self.prompt.most, self.prompt.says) if self.produced == self.expected else None

    @property
    def finish_reason(self) -> str:
        """Why the answer ended."""
        return "abort" if self.aborted else self.engine.finish_reason(self.prompt.most, self.prompt.says)

    def usage(self) -> dict[str, Any]:
        """Give the count as the engine reports it."""
        completion = self.produced * self.prompt.choices
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt.tokens,
            "total_tokens": self.prompt.tokens + completion,
            "completion_tokens": completion,
            "prompt_tokens_details": None,
        }
        if self.thinking_tokens:
            usage["completion_tokens_details"] = {"reasoning_tokens": min(self.thinking_tokens, self.produced)}
        return usage


async def chat(engine: EngineState, prompt: Prompt, request: Request) -> Response:
    """Answer a chat."""
    answer = Answer(engine, prompt, request, "chatcmpl")
    if prompt.stream:
        return StreamingResponse(_chat_events(answer), media_type=EVENT_STREAM)

    def choice(tokens: list[str]) -> dict[str, Any]:
        thought, said = tokens[: answer.thinking_tokens], tokens[answer.thinking_tokens :]
        message = {
            "role": "assistant",
            "content": "".join(said) or None,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": "".join(thought) or None,
        }
        return {"message": message}

    return await _whole(answer, "chat.completion", request, choice)


async def completion(engine: EngineState, prompt: Prompt, request: Request) -> Response:
    """Answer a plain completion."""
    answer = Answer(engine, prompt, request, "cmpl")
    if prompt.stream:
        return StreamingResponse(_completion_events(answer), media_type=EVENT_STREAM)
    return await _whole(answer, "text_completion", request, lambda tokens: {"text": "".join(tokens)})


async def until_left(request: Request, work: Callable[[], Awaitable[Response]]) -> Response:
    """Do the work unless the client leaves first: then the request is aborted, stream or not."""
    response = Response(status_code=499)  # nobody is there to read it
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        response = await work()
        group.cancel_scope.cancel()
    return response


def event(value: object, name: str | None = None) -> bytes:
    """Write one server-sent event."""
    head = b"" if name is None else f"event: {name}\n".encode()
    return head + b"data: " + orjson.dumps(value) + b"\n\n"


async def _whole(
    answer: Answer, kind: str, request: Request, choice: Callable[[list[str]], dict[str, Any]]
) -> Response:
    async def work() -> Response:
        said = choice([token async for token in answer.tokens()])
        ending = {"logprobs": None, "finish_reason": answer.finish_reason, "stop_reason": None, "token_ids": None}
        value = {
            **_head(answer, kind),
            "choices": [{"index": n, **said, **ending} for n in range(answer.prompt.choices)],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": answer.usage(),
            "prompt_logprobs": None,
            "prompt_token_ids": None,
            "kv_transfer_params": None,
        }
        return JSONResponse(value)

    return await until_left(request, work)


async def _chat_events(answer: Answer) -> AsyncIterator[bytes]:
    kind = "chat.completion.chunk"
    async for token in answer.tokens():
        if answer.produced == 1:
            yield _chunk(answer, kind, {"delta": {"role": "assistant", "content": ""}, **_ending(None)})
        part = "reasoning" if answer.produced <= answer.thinking_tokens else "content"
        yield _chunk(answer, kind, {"delta": {part: token}, **_ending(answer.last_reason)})
    if answer.aborted:
        yield _chunk(answer, kind, {"delta": {}, **_ending(answer.finish_reason)})
    if answer.prompt.usage_event:
        yield _usage_chunk(answer, kind)
    yield DONE


async def _completion_events(answer: Answer) -> AsyncIterator[bytes]:
    kind = "text_completion"
    async for token in answer.tokens():
        yield _chunk(answer, kind, {"text": token, **_ending(answer.last_reason)})
    if answer.aborted:
        yield _chunk(answer, kind, {"text": "", **_ending(answer.finish_reason)})
    if answer.prompt.usage_event:
        yield _usage_chunk(answer, kind)
    yield DONE


def _ending(reason: str | None) -> dict[str, str | None]:
    ending: dict[str, str | None] = {"logprobs": None, "finish_reason": reason}
    return ending if reason is None else {**ending, "stop_reason": None}


def _chunk(answer: Answer, kind: str, choice: dict[str, Any]) -> bytes:
    """Write one step: an event for each choice that the caller asked for."""
    numbers = range(answer.prompt.choices)
    return b"".join(event({**_head(answer, kind), "choices": [{"index": n, **choice}]}) for n in numbers)


def _usage_chunk(answer: Answer, kind: str) -> bytes:
    return event({**_head(answer, kind), "choices": [], "usage": answer.usage()})


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": answer.id, "object": kind, "created": answer.created, "model": answer.prompt.model}
