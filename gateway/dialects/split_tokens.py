"""Special tokens in pieces: texts without one each, which the engine joins to a text that has one.

Enters: the fields of a body. Leaves: where such texts stand, or nothing. vLLM joins the text blocks of Anthropic's
``system``, and for some models the messages of the role ``system`` behind them, with nothing between; so it does with
blocks of thinking. Templates of models that see pictures write the parts of a message one behind the other, some of
them without the white space around each, and pass over parts of other kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects import media, special_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TALK = frozenset(media.TALK)
_SPOKEN = ("text", "refusal")
_THOUGHT = ("thinking",)
# vLLM leaves out such a block of a system message: Claude Code sends one, and its neighbours come together.
_LEFT_OUT = "x-anthropic-billing-header"
_LONGEST_TOKEN = 80
"""Characters of the longest special token, and some room."""


def place(fields: Mapping[str, Any]) -> str | None:
    """Name the first field whose texts, joined, hold a special token; ``None`` where none do."""
    for name, value in fields.items():
        if name in _TALK and any(map(_holds, _sequences(value))):
            return name
    return "system" if _holds(_system(fields)) else None


def _holds(pieces: list[str]) -> bool:
    return len(pieces) > 1 and special_tokens.in_text("".join(map(_edges, pieces)))


def _edges(text: str) -> str:
    """Give as much of a text as can be part of a token that goes on in another one; white space ends every token."""
    text = text.strip()
    return text if len(text) <= 2 * _LONGEST_TOKEN else f"{text[:_LONGEST_TOKEN]} {text[-_LONGEST_TOKEN:]}"


def _sequences(value: Any) -> list[list[str]]:  # noqa: ANN401  (any JSON value)
    """Give the texts of each list of parts within a value, spoken and thought apart."""
    found: list[list[str]] = []
    waiting = value if type(value) is list else [value]
    for item in waiting:
        if type(item) is dict and type(item.get("content")) is not str:  # as most messages have it
            for name in media.INNER:
                parts = item.get(name)
                if type(parts) is list:
                    found += _sequences(parts)
                    if len(parts) > 1:
                        found += (_texts(parts, _SPOKEN), _texts(parts, _THOUGHT))
    return found


def _system(fields: Mapping[str, Any]) -> list[str]:
    """Give the texts of all that is said with the authority of the system, as far as vLLM reads them."""
    messages = fields.get("messages")
    turns = messages if type(messages) is list else ()
    said = [turn.get("content") for turn in turns if type(turn) is dict and turn.get("role") == "system"]
    pieces: list[str] = []
    for one in (fields.get("system"), *said):
        pieces += [one] if type(one) is str else _texts(one, _SPOKEN) if type(one) is list else []
    return [piece for piece in pieces if not piece.startswith(_LEFT_OUT)]


def _texts(parts: Iterable[Any], names: Iterable[str]) -> list[str]:
    return [text for part in parts if type(part) is dict for name in names if type(text := part.get(name)) is str]
