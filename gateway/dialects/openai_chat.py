"""The chat API of OpenAI as vLLM serves it: ``POST /v1/chat/completions``."""

from __future__ import annotations

from gateway.dialects.fields import load
from gateway.dialects.openai_body import OpenAIBody
from gateway.dialects.thinking_controls import ThinkingControls
from gateway.dialects.usage_event import COUNT_FROM, take_usage

CHAT = load("openai_chat")
CHAT_CONTROLS = ThinkingControls(templated=True, effort="reasoning_effort", budget="thinking_token_budget")


class OpenAIChat(OpenAIBody):
    """Chat completions, streamed or not."""

    name: str = "openai-chat"
    upstream: tuple[str, str] | None = ("POST", "/v1/chat/completions")
    tells_usage: str | None = "stream_options.include_usage"
    # vLLM writes a delta for each token, behind a first one with the role. Within text a quote follows a backslash,
    # so that no answer can hold this.
    delta: bytes = b'"delta":{"'
    lead: int = 1
    count_from: int = COUNT_FROM
    take_usage = staticmethod(take_usage)
