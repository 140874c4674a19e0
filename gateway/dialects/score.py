"""How well texts fit each other, as vLLM serves it: ``POST /v1/score``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.fields import load
from gateway.dialects.openai_body import OpenAIBody

if TYPE_CHECKING:
    from collections.abc import Mapping

SCORE = load("score")

# vLLM tells the four shapes of a body by their names, and tries them in an order of its own: exactly one may be there.
_PAIRS = (("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2"))
_SIDES = tuple(dict.fromkeys(name for pair in _PAIRS for name in pair))


class Score(OpenAIBody):
    """One score for each pair."""

    name: str = "score"
    upstream: tuple[str, str] | None = ("POST", "/v1/score")


def unmet(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name the field that keeps a body from being one pair and nothing besides, with what is wrong; none if it is."""
    sent = [name for name in _SIDES if body.get(name) is not None]
    if not sent:
        return [("queries", "is missing: send one pair, such as queries and documents")]
    first = sent[0]
    others = [other for one, other in _PAIRS if one == first]
    if len(sent) == 1:
        return [(others[0], f"is missing beside {first}")] if others else [(first, "is one side of a pair alone")]
    extra = sent[2:] if sent[1] in others else sent[1:]
    return [(extra[0], f"does not go with {first}")] if extra else []
