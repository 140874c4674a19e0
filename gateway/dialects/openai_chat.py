"""The chat API of OpenAI as vLLM serves it: ``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects import openai_answers
from gateway.dialects.fields import load
from gateway.dialects.openai_body import OpenAIBody
from gateway.dialects.thinking_controls import ThinkingControls

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    without_usage = staticmethod(openai_answers.without_usage)


def unmet(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name the fields that mean nothing without another that is absent, each with the caller's fault in it, if any.

    vLLM answers 400 to an empty list of tools, to a choice among no tools, and to options of a stream that is none.
    """
    found = []
    tools = body.get("tools")
    if not tools:
        choice = body.get("tool_choice")
        if choice is not None:
            found.append(("tool_choice", "" if choice in ("auto", "none") else "needs tools"))
        if tools is not None:
            found.append(("tools", ""))
    options = body.get("stream_options")
    if options and body.get("stream") is not True:
        found.append(("stream_options", "needs stream: true"))
    return found
