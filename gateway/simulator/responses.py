"""``POST /v1/responses``: OpenAI's newest API as vLLM 0.32 serves it without a store.

Enters: the engine's state and a request. Leaves: a whole response, or its named events in vLLM's order and with vLLM's
members: an item opens, its part opens, deltas, both close, and the last event repeats everything with the count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse, Response, StreamingResponse

from gateway.simulator import prompt, text
from gateway.simulator.errors import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request

    from gateway.simulator.state import EngineState

_STORE = (
    "This vLLM engine does not support `store=True` and therefore does not support the background mode. To enable "
    "these features, set the environment variable `VLLM_ENABLE_RESPONSES_API_STORE=1` when launching the vLLM server."
)


class Reasoning(BaseModel):
    """``reasoning`` of a request."""

    model_config = ConfigDict(extra="allow")

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None


class ResponsesRequest(BaseModel):
    """What the simulation looks at, with vLLM's coercions."""

    model_config = ConfigDict(extra="allow")

    input: str | list[dict[str, Any]]
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    stream: bool | None = False
    store: bool | None = True
    background: bool | None = False
    previous_response_id: str | None = None
    reasoning: Reasoning | None = None
    tools: list[dict[str, Any]] = []
    tool_choice: str | dict[str, Any] = "auto"
    include: list[str] | None = None


async def responses(engine: EngineState, request: Request) -> Response:
    """Answer ``POST /v1/responses``."""
    value = await prompt.body(request)
    asked = prompt.validated(ResponsesRequest, value)
    _check(asked, value)
    effort = None if asked.reasoning is None else asked.reasoning.effort
    kwargs = value.get("chat_template_kwargs")
    chat = {
        "model": asked.model,
        "messages": _messages(asked),
        "max_tokens": asked.max_output_tokens,
        "stream": asked.stream,
        "reasoning_effort": effort,
        "chat_template_kwargs": kwargs,
        "continue_final_message": _continues(asked.input),
        "text": value.get("text"),
        "structured_outputs": value.get("structured_outputs"),
    }
    answer = text.Answer(engine, prompt.chat(engine, chat), request, "resp")
    answer.id = f"resp_{uuid4().hex}"  # the header with an id is not looked at here
    if answer.prompt.stream:
        return StreamingResponse(_events(answer, asked, value), media_type=text.EVENT_STREAM)

    async def whole() -> Response:
        items = [item async for _, item in _generated(answer) if item is not None]
        return JSONResponse(_body(answer, asked, value, _status(answer), items))

    return await text.until_left(request, whole)


def _check(asked: ResponsesRequest, value: dict[str, Any]) -> None:
    if value.get("prompt") is not None:
        raise Refused("prompt template is not supported", param="prompt")
    if asked.background and not asked.store:
        raise Refused("background can only be used when `store` is true", param="background")
    if asked.background:
        raise Refused(_STORE, kind="invalid_request_error", param="background")
    if asked.tool_choice not in ("auto", "none") and not asked.tools:
        raise Refused("Tool choice 'required' must be specified with 'tools' parameter.", param="tool_choice")
    if asked.previous_response_id is not None:
        message = f"Response with id '{asked.previous_response_id}' not found."
        raise Refused(message, status=404, kind="invalid_request_error", param="response_id")


def _messages(asked: ResponsesRequest) -> list[dict[str, Any]]:
    """Make chat messages of the items; vLLM takes the first part of an answer that is sent back."""
    messages: list[dict[str, Any]] = []
    if asked.instructions is not None:
        messages.append({"role": "system", "content": asked.instructions})
    if isinstance(asked.input, str):
        return [*messages, {"role": "user", "content": asked.input}]
    for item in asked.input:
        kind = item.get("type", "message")
        if kind == "function_call_output":
            messages.append({"role": "tool", "content": item.get("output")})
        elif kind in {"function_call", "reasoning"}:
            messages.append({"role": "assistant", "content": item.get("arguments")})
        elif "role" in item:
            messages.append({"role": item["role"], "content": item.get("content")})
        else:
            raise Refused(f"Unsupported input item type: {kind}", param="input")
    return messages


def _continues(given: str | list[dict[str, Any]]) -> bool:
    """Tell whether the last item is the beginning of the answer."""
    return isinstance(given, list) and bool(given) and given[-1].get("status") in {"in_progress", "incomplete"}


def _status(answer: text.Answer) -> str:
    return "incomplete" if answer.finish_reason == "length" else "completed"


def _body(
    answer: text.Answer, asked: ResponsesRequest, value: dict[str, Any], status: str, items: list[dict[str, Any]]
) -> dict[str, Any]:
    usage = None
    if status != "in_progress":
        usage = {
            "input_tokens": answer.prompt.tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": answer.produced,
            "output_tokens_details": {
                "reasoning_tokens": min(answer.thinking_tokens, answer.produced),
                "tool_output_tokens": 0,
            },
            "total_tokens": answer.prompt.tokens + answer.produced,
        }
    return {
        "id": answer.id,
        "created_at": answer.created,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": asked.instructions,
        "metadata": value.get("metadata"),
        "model": answer.prompt.model,
        "object": "response",
        "output": items,
        "parallel_tool_calls": value.get("parallel_tool_calls", True),
        "temperature": value.get("temperature", 1.0),
        "tool_choice": asked.tool_choice if asked.tools else "none",
        "tools": asked.tools,
        "top_p": value.get("top_p", 1.0),
        "background": asked.background,
        "max_output_tokens": answer.prompt.most or answer.engine.max_model_len - answer.prompt.tokens,
        "previous_response_id": None,
        "reasoning": value.get("reasoning"),
        "service_tier": "auto",
        "status": status,
        "text": value.get("text"),
        "truncation": value.get("truncation", "disabled"),
        "usage": usage,
        "user": value.get("user"),
    }


async def _generated(answer: text.Answer) -> AsyncIterator[tuple[list[dict[str, Any]], dict[str, Any] | None]]:
    """Give the events of each item without their numbers, and the item itself where it is done."""
    writing: _Item | None = None
    index = 0
    async for token in answer.tokens():
        reasoning = answer.produced <= answer.thinking_tokens
        if writing is not None and writing.reasoning != reasoning:
            yield list(writing.close()), writing.done
            index += 1
            writing = None
        events: list[dict[str, Any]] = []
        if writing is None:
            writing = _Item(index, reasoning=reasoning)
            events += writing.open()
        yield [*events, writing.delta(token)], None
    if writing is not None:
        yield list(writing.close()), writing.done


class _Item:
    """One item of the output under way: a message, or the reasoning before it."""

    def __init__(self, index: int, *, reasoning: bool) -> None:
        self.reasoning = reasoning
        self.id = f"{'rs' if reasoning else 'msg'}_{uuid4().hex}"
        self.place = {"content_index": 0, "item_id": self.id, "output_index": index}
        self.said = ""

    @property
    def done(self) -> dict[str, Any]:
        return self._item("completed", [self._part])

    @property
    def _part(self) -> dict[str, Any]:
        if self.reasoning:
            return {"text": self.said, "type": "reasoning_text"}
        return {"annotations": [], "text": self.said, "type": "output_text", "logprobs": []}

    def _item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        if self.reasoning:
            return {"id": self.id, "summary": [], "type": "reasoning", "content": content, "status": status}
        return {"id": self.id, "content": content, "role": "assistant", "status": status, "type": "message"}

    def open(self) -> Iterator[dict[str, Any]]:
        """Begin the item and its only part."""
        item = self._item("in_progress", [])
        yield {"item": item, "output_index": self.place["output_index"], "type": "response.output_item.added"}
        yield {**self.place, "part": self._part, "type": "response.content_part.added"}

    def delta(self, token: str) -> dict[str, Any]:
        """Add a token."""
        self.said += token
        if self.reasoning:
            return {**self.place, "delta": token, "type": "response.reasoning_text.delta"}
        return {**self.place, "delta": token, "logprobs": [], "type": "response.output_text.delta"}

    def close(self) -> Iterator[dict[str, Any]]:
        """End the part and the item."""
        kind = "reasoning" if self.reasoning else "output"
        more: dict[str, Any] = {} if self.reasoning else {"logprobs": []}
        yield {**self.place, "text": self.said, **more, "type": f"response.{kind}_text.done"}
        yield {**self.place, "part": self._part, "type": "response.content_part.done"}
        yield {"item": self.done, "output_index": self.place["output_index"], "type": "response.output_item.done"}


async def _events(answer: text.Answer, asked: ResponsesRequest, value: dict[str, Any]) -> AsyncIterator[bytes]:
    number = 0

    def event(fields: dict[str, Any]) -> bytes:
        nonlocal number
        kind = fields["type"]
        members = {name: member for name, member in fields.items() if name != "type"}
        written = text.event({**members, "sequence_number": number, "type": kind}, kind)
        number += 1
        return written

    begun = _body(answer, asked, value, "in_progress", [])
    yield event({"response": begun, "type": "response.created"})
    yield event({"response": begun, "type": "response.in_progress"})
    items = []
    async for events, item in _generated(answer):
        for one in events:
            yield event(one)
        if item is not None:
            items.append(item)
    yield event({"response": _body(answer, asked, value, _status(answer), items), "type": "response.completed"})
