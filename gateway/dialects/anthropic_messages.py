"""Anthropic's Messages API as vLLM serves it: ``POST /v1/messages``, and ``/v1/messages/count_tokens`` beside it.

Enters: bytes of a body, or a judged call. Leaves: ``Call``, the bytes that the engine gets, ``Usage``, errors in
Anthropic's shape. vLLM turns a body into one of its chat; that it does, and how, is why a mode that enables thinking
needs the template's switch beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.dialects import anthropic_answers, openai_answers
from gateway.dialects.call import Call
from gateway.dialects.changes import changed
from gateway.dialects.fields import load
from gateway.dialects.thinking_controls import ThinkingControls
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.dialects.call import Replacement, Usage
    from gateway.reasons import Reason

MESSAGES = load("anthropic_messages")
COUNT_TOKENS = load("anthropic_count_tokens")
MESSAGES_CONTROLS = ThinkingControls(
    templated=True,
    effort="output_config.effort",
    effort_has_none=False,
    mode="thinking.type",
    budget="thinking.budget_tokens",
    budget_below="max_tokens",
    least_budget=1024,
)
COUNT_TOKENS_CONTROLS = replace(MESSAGES_CONTROLS, budget_below=None)


class AnthropicMessages:
    """Messages, streamed or not; see ``call.Dialect``."""

    name: str = "anthropic-messages"
    upstream: tuple[str, str] | None = ("POST", "/v1/messages")
    tells_usage: str | None = None
    delta: bytes = b'"type":"content_block_delta"'
    lead: int = 0
    count_from: int = 0

    def read(self, body: bytes) -> Call:
        """Parse one strict JSON object. Raises ``Malformed(BODY_MALFORMED)``."""
        return Call(strict_json.loads(body))

    def write(self, call: Call, changes: Iterable[Replacement]) -> bytes:
        """Serialize the call anew, with the changes made."""
        return strict_json.dumps(changed(call.fields, changes))

    def usage(self, data: bytes) -> Usage | None:
        """Find the engine's count in a whole body or some events."""
        return anthropic_answers.usage(data)

    def take_usage(self, events: bytes) -> tuple[Usage | None, bytes]:
        """Leave out nothing: the count comes with the reason why a message ended."""
        return anthropic_answers.usage(events), events

    def ends(self, events: bytes) -> bool:
        """Tell whether the event that ends a message is the last one."""
        return anthropic_answers.ends(events)

    def error(self, reason: Reason, message: str, param: str | None, request_id: str, status: int) -> bytes:  # noqa: ARG002  (the port's)
        """Give the error object; Anthropic's has no place for the field at fault, which the message names."""
        return anthropic_answers.error(reason, message, request_id, status)

    def error_event(self, reason: Reason, message: str, request_id: str) -> bytes:
        """Give the event that ends a stream that failed after its head."""
        return anthropic_answers.error_event(reason, message, request_id)

    def engine_message(self, body: bytes) -> str | None:
        """Take the message out of an engine's error body; vLLM 0.32 writes some of them in OpenAI's shape here too."""
        return openai_answers.engine_message(body)


class AnthropicCountTokens(AnthropicMessages):
    """How many tokens a prompt has; the engine renders it and generates nothing."""

    name: str = "anthropic-count-tokens"
    upstream: tuple[str, str] | None = ("POST", "/v1/messages/count_tokens")
