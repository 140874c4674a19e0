"""Requests that make text: what vLLM 0.32 takes them to mean, coercions and gaps included.

Enters: the bytes of a body. Leaves: ``Prompt`` (how many tokens went in, how many may come out, in what form). The
prompt's length shows the thinking switch: for the single message "hi" it is 14 tokens, 20 with the empty think block.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.simulator import structured
from gateway.simulator.errors import Refused, invalid, unknown_model

if TYPE_CHECKING:
    from starlette.requests import Request

    from gateway.simulator.state import EngineState

_GENERATION_PROMPT = 6
_EMPTY_THINK_BLOCK = 6
_MESSAGE_FRAME = 7
_TEMPLATE_ARGUMENTS = ("chat_template", "messages", "conversation")
_Shape = TypeVar("_Shape", bound=BaseModel)


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="allow")


class StreamOptions(_Lenient):
    """``stream_options`` of a request."""

    include_usage: bool | None = True


class Message(_Lenient):
    """One message; any role will do."""

    role: str
    content: Any = None


class TextRequest(_Lenient):
    """What chat and plain completions have in common; numbers in text and ``1`` for ``true`` are taken."""

    model: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    n: int | None = Field(default=1, le=16384)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    thinking_token_budget: int | None = None


class ChatRequest(TextRequest):
    """``POST /v1/chat/completions``."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False


class CompletionRequest(TextRequest):
    """``POST /v1/completions``: no template, so no thinking switch."""

    prompt: str | list[Any] = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request that will be answered with text; ``says`` is what a schema makes the model say."""

    model: str
    tokens: int
    most: int | None
    thinks: bool = False
    stream: bool = False
    usage_event: bool = False
    choices: int = 1
    says: tuple[str, ...] = ()


async def body(request: Request) -> Any:  # noqa: ANN401  (a JSON value)
    """Read a body as vLLM does: UTF-16, NaN and duplicate names are fine, another media type is not."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refused("Unsupported Media Type: Only 'application/json' is allowed", kind="Bad Request", param="header")
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refused(f"There was an error parsing the body: {error}", kind="Bad Request", param="body") from None


def chat(engine: EngineState, value: object, *, any_model: bool = False) -> Prompt:
    """Read a chat request. ``any_model`` is how ``/invocations`` takes it. Raises ``Refused``."""
    request = validated(ChatRequest, value)
    _check_text(engine, request)
    if request.chat_template is not None:
        raise Refused("Chat template is passed with request, but --trust-request-chat-template is not set.")
    off = thinking_off(engine, value, effort=request.reasoning_effort)
    tokens = prompt_tokens(request.messages, off=off, generation_prompt=request.add_generation_prompt)
    if request.continue_final_message:
        tokens = prompt_tokens(request.messages, off=False, generation_prompt=False) - 2
    most = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
    read = _prompt(engine, request, tokens, most, thinks=not off, any_model=any_model)
    return replace(read, says=_says(value))


def completion(engine: EngineState, value: object, *, any_model: bool = False) -> Prompt:
    """Read a plain completion request. Raises ``Refused``."""
    request = validated(CompletionRequest, value)
    _check_text(engine, request)
    if not request.prompt:
        raise Refused("Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
    prompts = request.prompt if isinstance(request.prompt, list) and _texts(request.prompt) else [request.prompt]
    tokens = sum(len(one.split()) + 1 if isinstance(one, str) else len(one) for one in prompts)
    most = 16 if request.max_tokens is None else request.max_tokens
    read = _prompt(engine, request, tokens, most, any_model=any_model)
    return replace(read, says=_says(value), choices=read.choices * len(prompts))


def _texts(prompts: list[Any]) -> bool:
    """Tell several prompts from the token ids of one."""
    return not all(isinstance(one, int) for one in prompts)


def _says(value: object) -> tuple[str, ...]:
    return structured.tokens(structured.schema_of(value)) if isinstance(value, dict) else ()


def thinking_off(engine: EngineState, value: object, *, effort: str | None) -> bool:
    """Tell whether the template writes the empty think block: only JSON ``false`` does, and it beats every effort."""
    kwargs = value.get("chat_template_kwargs") if isinstance(value, dict) else None
    if kwargs is not None and not isinstance(kwargs, dict):
        raise Refused("Input should be a valid dictionary", kind="Bad Request", param="body.chat_template_kwargs")
    kwargs = kwargs or {}
    for name in _TEMPLATE_ARGUMENTS:
        if name in kwargs:
            raise Refused(f"chat_template_kwargs: got multiple values for argument '{name}'")
    if not engine.heeds_switch:
        return False
    if "enable_thinking" in kwargs:
        switch = kwargs["enable_thinking"]
        if switch is None or switch == "auto":
            return engine.default_enable_thinking is False
        return switch is False
    if effort is not None:
        return effort == "none"
    return engine.default_enable_thinking is False


def prompt_tokens(messages: list[Message], *, off: bool, generation_prompt: bool = True) -> int:
    """Count the tokens that the template makes of a conversation."""
    tokens = sum(_MESSAGE_FRAME + len(str(message.content or "").split()) for message in messages)
    if generation_prompt:
        tokens += _GENERATION_PROMPT + (_EMPTY_THINK_BLOCK if off else 0)
    return tokens


def served(engine: EngineState, name: str | None) -> str:
    """Resolve a model's name; none means the first. Raises ``Refused`` with 404."""
    aliases = (*engine.models, *engine.adapters)
    if not name:
        return engine.models[0]
    if name not in aliases:
        raise unknown_model(name, engine.models)
    return name


def validated(shape: type[_Shape], value: object) -> _Shape:
    """Read a body as pydantic does for vLLM. Raises ``Refused``."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None


def _check_text(engine: EngineState, request: TextRequest) -> None:
    if request.stream_options is not None and not request.stream:
        raise Refused("Stream options can only be defined when `stream=True`.", param="stream_options")
    if request.thinking_token_budget is not None and not engine.reasoning_parser:
        raise Refused("thinking_token_budget is set but reasoning_config is not configured.")


def _prompt(
    engine: EngineState, request: TextRequest, tokens: int, most: int | None, *, thinks: bool = False, any_model: bool
) -> Prompt:
    model = engine.models[0] if any_model else served(engine, request.model)
    if most is not None and most < 1:
        raise Refused(f"max_tokens must be at least 1, got {most}.", param="max_tokens")
    if tokens + (most or 1) > engine.max_model_len:
        raise Refused(
            f"This model's maximum context length is {engine.max_model_len} tokens. However, you requested "
            f"{most or 1} output tokens and your prompt contains at least {tokens} input tokens.",
            param="input_tokens",
        )
    usage = request.stream_options is not None and request.stream_options.include_usage is True
    return Prompt(model, tokens, most, thinks, request.stream is True, usage, request.n or 1)
