"""The tokenizer of a model, asked: ``POST /tokenize`` and ``POST /detokenize`` of vLLM.

Nothing is generated and no tokens are counted, so neither thinking nor usage is a matter here. At the engine both paths
are open to everybody; here they exist only where a policy names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.fields import load
from gateway.dialects.openai_body import OpenAIBody

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKENIZE = load("tokenize")
DETOKENIZE = load("detokenize")

_OF_CHATS = ("tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs")


class Tokenizer(OpenAIBody):
    """``tokenize`` or ``detokenize``; the name is the engine's path as well."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.upstream = ("POST", f"/{name}")


def unmet(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name the fields that mean nothing beside a prompt, and the one that keeps a body from having one shape."""
    if body.get("prompt") is None:
        return [] if body.get("messages") is not None else [("messages", "is missing: send messages, or a prompt")]
    if body.get("messages") is not None:
        return [("prompt", "does not go with messages")]
    return [(name, "") for name in _OF_CHATS if body.get(name) is not None]
