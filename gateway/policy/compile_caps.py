"""Caps compiled: that each fits its field, could hold, and allows what the policy itself sends.

Enters: caps as typed, and what the dialect knows of the fields. Leaves: ``Cap``, and complaints. Whose caps they are
(of an endpoint, a client or a model) is known to the callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.dialects import media
from gateway.policy.document_parameters import NumberCap
from gateway.policy.model import Cap
from gateway.policy.text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.dialects.fields import Field
    from gateway.dialects.registry import Facts
    from gateway.policy.complaints import Complaints
    from gateway.policy.document_parameters import CapKeys, SizeCap
    from gateway.policy.source import Path

BOUNDS: Final = ("at_most", "at_most_items", "at_most_characters", "at_most_media")
_NUMBERS: Final = frozenset({"integer", "number"})
_SIZES: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "at_most_items": (frozenset({"array"}), "is no list"),
    "at_most_characters": (frozenset({"string", "array", "object"}), "holds no text"),
    "at_most_media": (frozenset({"array", "object"}), "holds no media"),
}


def cap(here: Path, name: str, keys: CapKeys, facts: Facts, accept: frozenset[str], complaints: Complaints) -> Cap:
    """Resolve a cap on a field; complain if it could never hold or does not fit the field."""
    if name not in accept:
        fault = f"a cap on `{name}`, which `accept` does not list, caps nothing"
        complaints.add(here, with_hint(name, fault, facts))
    elif isinstance(keys, NumberCap):
        _number(here, facts.fields[name], keys, complaints)
    else:
        _size(here, facts.fields[name], keys, complaints)
    if isinstance(keys, NumberCap):
        return Cap(at_most=keys.at_most, lower=keys.otherwise == "lower")
    return Cap(None, keys.at_most_items, keys.at_most_characters, keys.at_most_media)


def with_hint(name: str, fault: str, facts: Facts) -> str:
    """Add to a fault the field that an unknown name was most likely meant to be."""
    return fault if name in facts.fields else f"{fault}; the nearest is `{nearest(name, facts.fields)}`"


def over_cap(value: Any, cap: Cap) -> bool:  # noqa: ANN401  (a JSON value)
    """Tell whether a value that the policy itself sets exceeds a cap."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    sizes = (
        (cap.at_most, value if number else None),
        (cap.at_most_items, len(value) if isinstance(value, list) else None),
        (cap.at_most_characters, characters(value)),
        (cap.at_most_media, media.count(value)),
    )
    return any(most is not None and size is not None and size > most for most, size in sizes)


def characters(value: Any) -> int:  # noqa: ANN401  (a JSON value)
    """Count the characters of all text within a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(characters, value.values()))
    return sum(map(characters, value)) if isinstance(value, list) else 0


def _number(here: Path, field: Field, keys: NumberCap, complaints: Complaints) -> None:
    here = (*here, "at_most")
    if not field.kinds & _NUMBERS:
        _unfit(here, field, "is no number", complaints)
        return
    if "number" not in field.kinds and isinstance(keys.at_most, float):
        complaints.add(here, f"`{field.name}` is a whole number, so its cap is one")
    if field.minimum is not None and keys.at_most < field.minimum:
        complaints.add(here, f"no value of `{field.name}` is so small: the least is {field.minimum}")


def _size(here: Path, field: Field, keys: SizeCap, complaints: Complaints) -> None:
    for bound, (kinds, fault) in _SIZES.items():
        fits = field.kinds & kinds and (bound != "at_most_media" or field.holds_media)
        if getattr(keys, bound) is not None and not fits:
            _unfit((*here, bound), field, fault, complaints)


def _unfit(here: Path, field: Field, fault: str, complaints: Complaints) -> None:
    complaints.add(here, f"`{field.name}` {fault}: it is {' or '.join(sorted(field.kinds))}")
