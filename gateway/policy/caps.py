"""The most that a caller may ask for.

Enters: a draft, caps, the model's longest answer. Leaves: lowered numbers in the draft, or
``Malformed(PARAMETER_OVER_CAP)``. The synonyms for the longest answer are one quantity: a cap on either holds for
both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects import media
from gateway.dialects.special_tokens import texts
from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.policy.draft import Draft
    from gateway.policy.model import Cap

# Members of messages and input items that are closed words or media, not text.
_NOT_TEXT = frozenset({"role", "type", "image_url", "audio_url", "input_audio", "source"})
# The one with names of the caller's own: all in it is text.
_FREE = "input"
_CONVERSATIONS = frozenset({"messages", "input"})


def apply_caps(draft: Draft, caps: Iterable[tuple[str, Cap]]) -> None:
    """Hold every field that was sent to its cap."""
    for name, cap in caps:
        value = draft.get(name)
        if value is None:
            continue
        if cap.at_most is not None:
            _hold(draft, name, value, cap)
        if cap.at_most_items is not None and isinstance(value, list | dict) and len(value) > cap.at_most_items:
            raise _over(name, f"has more than {cap.at_most_items} items")
        if cap.at_most_characters is not None and characters(name, value) > cap.at_most_characters:
            raise _over(name, f"has more than {cap.at_most_characters} characters")
        if cap.at_most_media is not None and media.count(value) > cap.at_most_media:
            raise _over(name, f"has more than {cap.at_most_media} media parts")


def bound_answer(
    draft: Draft, names: tuple[str, ...], caps: Iterable[Cap], most_tokens: int | None, default: int | None = None
) -> None:
    """Hold the longest answer to its caps and the model's own; without one, ask for as much as they allow.

    ``default`` is how much an API answers to a caller who says nothing, where it is less.
    """
    body = draft.body
    said = False
    for name in names:
        if body.get(name) is None:
            continue
        said = True
        for cap in caps:
            _hold(draft, name, body[name], cap)
        if most_tokens is not None and body[name] > most_tokens:
            draft.lower(name, most_tokens)
    if names and not said:
        _set_longest(draft, names[0], caps, most_tokens, default)


def differing(draft: Draft, names: tuple[str, ...]) -> None:
    """Refuse synonyms that say different things. Raises ``Malformed(PARAMETER_INVALID)``."""
    said = None
    for name in names:
        value = draft.body.get(name)
        if value is not None and said is not None and value != said:
            raise Malformed(Reason.PARAMETER_INVALID, f"differs from {names[0]}", param=names[-1])
        said = said if value is None else value


def characters(name: str, value: Any) -> int:  # noqa: ANN401  (any JSON value)
    """Count the characters in all text within a value: in a conversation, without roles, kinds of parts and media.

    A token id stands for one at least.
    """
    count = _token_ids(value)
    if name not in _CONVERSATIONS:
        return count + sum(map(len, texts(value)))
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            count += len(item)
        elif type(item) is list:
            waiting.extend(item)
        elif type(item) is dict:
            waiting.extend(member for key, member in item.items() if key not in _NOT_TEXT and key != _FREE)
            count += sum(map(len, texts(item.get(_FREE))))
    return count


def _token_ids(value: Any) -> int:  # noqa: ANN401  (any JSON value)
    """Count the integers of a list, or of the lists in it."""
    if type(value) is not list:
        return 0
    return sum(1 if type(item) is int else _token_ids(item) for item in value)


def _set_longest(draft: Draft, name: str, caps: Iterable[Cap], most_tokens: int | None, default: int | None) -> None:
    bounds = [bound for bound in (most_tokens, default, *(cap.at_most for cap in caps)) if bound is not None]
    draft.put(name, min(bounds))


def _hold(draft: Draft, name: str, value: float, cap: Cap) -> None:
    if cap.at_most is None or value <= cap.at_most:
        return
    if not cap.lower:
        raise _over(name, f"is more than {cap.at_most}")
    draft.lower(name, cap.at_most)


def _over(name: str, detail: str) -> Malformed:
    return Malformed(Reason.PARAMETER_OVER_CAP, detail, param=name)
