"""The chat API of OpenAI as vLLM serves it: ``POST /v1/chat/completions``."""

from __future__ import annotations

from gateway.dialects.fields import load
from gateway.dialects.openai_body import OpenAIBody
from gateway.dialects.thinking_controls import ThinkingControls

CHAT = load("openai_chat")
CHAT_CONTROLS = ThinkingControls(templated=True, effort="reasoning_effort", budget="thinking_token_budget")


class OpenAIChat(OpenAIBody):
    """Chat completions, streamed or not."""

    name: str = "openai-chat"
    upstream: tuple[str, str] | None = ("POST", "/v1/chat/completions")
