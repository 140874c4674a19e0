"""The oldest API of OpenAI as vLLM serves it, text in and text out: ``POST /v1/completions``.

No template is used: what the caller writes is what the model reads, and no switch reaches it.
"""

from __future__ import annotations

from gateway.dialects.fields import load
from gateway.dialects.openai_body import OpenAIBody
from gateway.dialects.thinking_controls import ThinkingControls
from gateway.dialects.usage_event import COUNT_FROM, take_usage

COMPLETIONS = load("openai_completions")
COMPLETIONS_CONTROLS = ThinkingControls(budget="thinking_token_budget")


class OpenAICompletions(OpenAIBody):
    """Completions of texts, streamed or not."""

    name: str = "openai-completions"
    upstream: tuple[str, str] | None = ("POST", "/v1/completions")
    tells_usage: str | None = "stream_options.include_usage"
    delta: bytes = b'"text":"'
    count_from: int = COUNT_FROM
    take_usage = staticmethod(take_usage)
