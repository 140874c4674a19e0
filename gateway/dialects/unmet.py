"""Fields that mean nothing without another that is absent.

Enters: a body whose values have the right types. Leaves: the names of such fields, each with the caller's fault in it,
if any. vLLM answers 400 to most of them, so what is harmless is dropped and the rest refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# As OpenAI's APIs write a choice, and as Anthropic's does.
_HARMLESS = ("auto", "none", {"type": "auto"}, {"type": "none"})

Unmet = Callable[[Mapping[str, Any]], list[tuple[str, str]]]


def of_chat(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Look for a choice among no tools, an empty list of them, and options of a stream that is none."""
    empty = [("tools", "")] if body.get("tools") == [] else []
    return [*tool_choice(body), *empty, *stream_options(body)]


def tool_choice(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Look for a choice among no tools."""
    choice = body.get("tool_choice")
    if choice is None or body.get("tools"):
        return []
    return [("tool_choice", "" if choice in _HARMLESS else "needs tools")]


def stream_options(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Look for options of a stream that is none."""
    if body.get("stream_options") and body.get("stream") is not True:
        return [("stream_options", "needs stream: true")]
    return []


def of_messages(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Look for a choice among no tools, an empty list of them, and a budget for thinking without its mode or room."""
    empty = [("tools", "")] if body.get("tools") == [] else []
    return [*tool_choice(body), *empty, *_thinking(body.get("thinking") or {}, body.get("max_tokens"))]


def _thinking(thinking: Mapping[str, Any], most: int | None) -> list[tuple[str, str]]:
    mode, budget = thinking.get("type"), thinking.get("budget_tokens")
    if budget is None:
        return [("thinking.budget_tokens", "is missing")] if mode == "enabled" else []
    if mode is None:
        return [("thinking.type", "is missing")]
    if mode != "enabled":
        return [("thinking.budget_tokens", "goes with thinking.type enabled alone")]
    return [("thinking.budget_tokens", "must be less than max_tokens")] if most is not None and budget >= most else []
