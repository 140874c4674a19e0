"""Anthropic's bodies: what vLLM 0.32 takes them to mean, by making a chat of them.

Enters: the JSON value of a body. Leaves: the chat that the engine would answer, and which tool it is forced to call.
As in the real one, fields that are not known are ignored, numbers in text are taken, and a mode of thinking that
enables it sets a budget and no switch.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from gateway.simulator.errors import invalid

_BILLING = "x-anthropic-billing-header"
_Effort = Literal["low", "medium", "high", "xhigh", "max"]
_Display = Literal["summarized", "omitted", "updates"]
_Shape = TypeVar("_Shape", bound="CountRequest")


class Block(BaseModel):
    """One block of content; the type is not guessed from the names in it."""

    type: Literal[
        "text", "image", "tool_use", "tool_result", "tool_reference", "thinking", "redacted_thinking",
        "tool_addition", "tool_removal",
    ]  # fmt: skip
    text: str | None = None
    source: dict[str, Any] | None = None
    input: dict[str, Any] | None = None
    content: str | list[dict[str, Any]] | None = None
    thinking: str | None = None


class Message(BaseModel):
    """One message."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(BaseModel):
    """A tool; its ``type`` is not looked at, so that one of a hosted service fails by its missing schema alone."""

    name: str
    input_schema: dict[str, Any]


class ToolChoice(BaseModel):
    """Which tool to call."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None

    @model_validator(mode="after")
    def _named(self) -> ToolChoice:
        if self.type == "tool" and not self.name:
            raise ValueError("tool_choice.name is required when type is 'tool'")
        return self


class Enabled(BaseModel):
    """Thinking with a budget."""

    type: Literal["enabled"]
    budget_tokens: int = Field(ge=1024)
    display: _Display | None = None


class Disabled(BaseModel):
    """No thinking."""

    type: Literal["disabled"]


class Adaptive(BaseModel):
    """Thinking as the model pleases."""

    type: Literal["adaptive"]
    display: _Display | None = None


class OutputConfig(BaseModel):
    """How much effort."""

    effort: _Effort | None = None


class CountRequest(BaseModel):
    """``POST /v1/messages/count_tokens``."""

    model: str = Field(min_length=1)
    messages: list[Message]
    system: str | list[Block] | None = None
    thinking: Annotated[Enabled | Disabled | Adaptive, Field(discriminator="type")] | None = None
    output_config: OutputConfig | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def chat(self) -> dict[str, Any]:
        """Give the chat that this is, as the engine's own API would have it."""
        effort = self.output_config.effort if self.output_config else None
        return {
            "model": self.model,
            "messages": [
                *self._system(),
                *({"role": one.role, "content": _text(one.content)} for one in self.messages),
            ],
            "chat_template_kwargs": self.chat_template_kwargs,
            "reasoning_effort": "none" if isinstance(self.thinking, Disabled) else effort,
        }

    def _system(self) -> list[dict[str, str]]:
        text = _text(self.system or "")
        return [{"role": "system", "content": text}] if text else []

    @property
    def forced(self) -> str | None:
        """The name of the tool that must be called, if any."""
        if self.tool_choice is None or not self.tools or self.tool_choice.type not in {"any", "tool"}:
            return None
        return self.tool_choice.name or self.tools[0].name


class MessagesRequest(CountRequest):
    """``POST /v1/messages``."""

    max_tokens: int = Field(gt=0)
    stream: bool | None = False
    stop_sequences: Annotated[list[str], Field(max_length=4)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None

    @model_validator(mode="after")
    def _budget(self) -> MessagesRequest:
        if isinstance(self.thinking, Enabled) and self.thinking.budget_tokens >= self.max_tokens:
            raise ValueError("thinking.budget_tokens must be less than max_tokens")
        return self

    def chat(self) -> dict[str, Any]:
        """Give the chat that this is; the budget counts where an answer is made."""
        budget = self.thinking.budget_tokens if isinstance(self.thinking, Enabled) else None
        return {
            **super().chat(),
            "max_tokens": self.max_tokens,
            "stream": self.stream,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "thinking_token_budget": budget,
        }


def read(shape: type[_Shape], value: object) -> _Shape:
    """Read a body. Raises ``Refused``, which is worded as OpenAI's API words it: FastAPI answers, not the handler."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None


def _text(content: str | list[Block]) -> str:
    if isinstance(content, str):
        return content
    found = (block.text for block in content if block.type == "text" and block.text)
    return " ".join(text for text in found if not text.startswith(_BILLING))
