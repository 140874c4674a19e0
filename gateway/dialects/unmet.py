"""Fields that mean nothing without another that is absent.

Enters: a body whose values have the right types. Leaves: the names of such fields, each with the caller's fault in it,
if any. vLLM answers 400 to most of them, so what is harmless is dropped and the rest refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
    return [("tool_choice", "" if choice in ("auto", "none") else "needs tools")]


def stream_options(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Look for options of a stream that is none."""
    if body.get("stream_options") and body.get("stream") is not True:
        return [("stream_options", "needs stream: true")]
    return []
