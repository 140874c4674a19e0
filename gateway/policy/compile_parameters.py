"""``parameters`` compiled: which fields pass, which are set, how large they may be, and who lets a model think.

Enters: the typed document and what each dialect knows of its fields. Leaves: ``ParameterRules`` by endpoint, and
complaints where a field is unknown, closed, set twice, or larger than its own cap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.dialects.fields import Treatment
from gateway.dialects.registry import FACTS
from gateway.policy.document_parameters import ItemsCap, NumberCap
from gateway.policy.model import Cap, ParameterRules, ThinkingRule
from gateway.policy.text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.dialects.registry import Facts
    from gateway.policy.complaints import Complaints
    from gateway.policy.document import Document
    from gateway.policy.document_parameters import CapKeys, ParametersKeys, ThinkingKeys
    from gateway.policy.source import Path

STANDARD: Final = "standard"
_FITS: Final = {
    "at_most": ({"integer", "number"}, "is no number"),
    "at_most_items": ({"array"}, "is no list"),
    "at_most_characters": ({"string", "array", "object"}, "holds no text"),
}


def parameters(document: Document, complaints: Complaints) -> dict[str, ParameterRules]:
    """Resolve the body fields of each endpoint that has a body."""
    resolved = {}
    stated = document.parameters or {}
    for name in document.endpoints.keys() - stated.keys():
        if FACTS[document.endpoints[name].dialect].has_body:
            complaints.add(
                ("endpoints", name), f"this endpoint has a body: say under `parameters.{name}` what it may hold"
            )
    for name, keys in stated.items():
        path = ("parameters", name)
        if not complaints.knows(path, name, document.endpoints, "endpoint"):
            continue
        facts = FACTS[document.endpoints[name].dialect]
        if not facts.has_body:
            complaints.add(path, f"{facts.name} has no body, so it has no parameters")
        else:
            resolved[name] = _Rules(path, keys, facts, document.models or {}, complaints).resolve()
    return resolved


class _Rules:
    """The rules of one endpoint in the making."""

    def __init__(
        self, path: Path, keys: ParametersKeys, facts: Facts, aliases: Iterable[str], complaints: Complaints
    ) -> None:
        self.path = path
        self.keys = keys
        self.facts = facts
        self.aliases = aliases
        self.complaints = complaints

    def resolve(self) -> ParameterRules:
        keys = self.keys
        accept = self.accept()
        self.set_once()
        caps = {name: self.cap(name, cap, accept) for name, cap in (keys.caps or {}).items()}
        self.one_cap(caps)
        for key, values in (("defaults", keys.defaults), ("force", keys.force)):
            for name, value in (values or {}).items():
                self.value((*self.path, key, name), name, value, caps)
        thinking = self.thinking(keys.thinking)
        return ParameterRules(
            accept=accept,
            drop_unlisted=keys.unlisted == "drop",
            defaults=keys.defaults or {},
            force=keys.force or {},
            caps=caps,
            thinking=thinking,
            # Special tokens are a side door: where nobody may enable thinking they are refused whatever the file says.
            refuse_special_tokens=keys.special_tokens is not None or thinking.forbidden,
        )

    def accept(self) -> frozenset[str]:
        """Write ``standard`` out, and complain about fields that cannot be accepted."""
        accepted: set[str] = set()
        for index, name in enumerate(self.keys.accept):
            here = (*self.path, "accept", index)
            if name == STANDARD:
                if not self.facts.standard:
                    self.complaints.add(here, f"{self.facts.name} has no `standard` yet: list its fields one by one")
                accepted |= self.facts.standard
            elif fault := self.facts.why_not_accepted(name):
                self.complaints.add(here, self.with_hint(name, fault))
            else:
                accepted.add(name)
        return frozenset(accepted)

    def with_hint(self, name: str, fault: str) -> str:
        return fault if name in self.facts.fields else f"{fault}; the nearest is `{nearest(name, self.facts.fields)}`"

    def synonyms(self, name: str) -> tuple[str, ...]:
        """Give all names of a field: those for the tokens of an answer are one field."""
        return self.facts.answer_tokens if name in self.facts.answer_tokens else (name,)

    def set_once(self) -> None:
        """Complain about a field that is set in two places, be it under two of its names."""
        places: dict[str, str] = {}
        for key, values in (("defaults", self.keys.defaults), ("force", self.keys.force)):
            for name in values or ():
                other = next((places[one] for one in self.synonyms(name) if one in places), None)
                if other is not None:
                    self.complaints.add((*self.path, key, name), f"{other} sets this field already: set it once")
                places[name] = f"{key}.{name}"

    def one_cap(self, caps: Iterable[str]) -> None:
        capped = [name for name in caps if name in self.facts.answer_tokens]
        for name in capped[1:]:
            self.complaints.add(
                (*self.path, "caps", name), f"this is the field `{capped[0]}` under another name: cap it once"
            )

    def cap(self, name: str, keys: CapKeys, accept: frozenset[str]) -> Cap:
        """Resolve a cap, and complain if it could never hold or does not fit the field."""
        here = (*self.path, "caps", name)
        kind = next(key for key in _FITS if hasattr(keys, key))
        kinds, fault = _FITS[kind]
        if name not in accept:
            self.complaints.add(
                here, self.with_hint(name, f"a cap on `{name}`, which `accept` does not list, caps nothing")
            )
        elif not self.facts.fields[name].kinds & kinds:
            known = " or ".join(sorted(self.facts.fields[name].kinds))
            self.complaints.add((*here, kind), f"`{name}` {fault}: it is {known}")
        elif isinstance(keys, NumberCap):
            self.number_cap((*here, kind), name, keys.at_most)
        if isinstance(keys, NumberCap):
            return Cap(at_most=keys.at_most, lower=keys.otherwise == "lower")
        return (
            Cap(at_most_items=keys.at_most_items)
            if isinstance(keys, ItemsCap)
            else Cap(at_most_characters=keys.at_most_characters)
        )

    def number_cap(self, here: Path, name: str, at_most: float) -> None:
        field = self.facts.fields[name]
        if "number" not in field.kinds and isinstance(at_most, float):
            self.complaints.add(here, f"`{name}` is a whole number, so its cap is one")
        if field.minimum is not None and at_most < field.minimum:
            self.complaints.add(here, f"no value of `{name}` is so small: the least is {field.minimum}")

    def value(self, here: Path, name: str, value: Any, caps: dict[str, Cap]) -> None:  # noqa: ANN401  (a JSON value)
        """Complain about a value that the dialect would not read, or that the caps of this file forbid."""
        if fault := self.facts.why_not_set(name) or self.facts.value_fault(name, value):
            self.complaints.add(here, self.with_hint(name, fault))
            return
        if name == "model":
            self.complaints.knows(here, value, self.aliases, "model")
        for cap in (caps[one] for one in self.synonyms(name) if one in caps):
            if over_cap(value, cap):
                self.complaints.add(
                    here, "this value is over the cap that stands below: a caller may not send it either"
                )

    def thinking(self, keys: ThinkingKeys | None) -> ThinkingRule:
        """Resolve who may let the model think; that the named clients exist is said where clients are resolved."""
        if keys is None:
            return ThinkingRule()
        here = (*self.path, "thinking")
        if all(field.treatment is not Treatment.THINKING for field in self.facts.fields.values()):
            self.complaints.add(here, f"nothing thinks in {self.facts.name}: remove this block")
        everyone = keys.may_enable == "everyone"
        if everyone and keys.otherwise is not None:
            self.complaints.add(
                (*here, "otherwise"), "everyone may enable thinking, so there is no otherwise: remove this line"
            )
        if not everyone and keys.otherwise is None:
            self.complaints.add(here, "`otherwise` is missing: say refuse or disable for a wish that is not permitted")
        named = keys.may_enable if isinstance(keys.may_enable, tuple) else ()
        kinds = [name.partition(":") for name in named]
        return ThinkingRule(
            default_enabled=keys.default == "enabled",
            everyone=everyone,
            clients=frozenset(name for kind, _, name in kinds if kind == "client"),
            groups=frozenset(name for kind, _, name in kinds if kind == "group"),
            disable_otherwise=keys.otherwise == "disable",
        )


def over_cap(value: Any, cap: Cap) -> bool:  # noqa: ANN401  (a JSON value)
    """Tell whether a value that the policy itself sets exceeds a cap."""
    if cap.at_most is not None:
        return isinstance(value, int | float) and not isinstance(value, bool) and value > cap.at_most
    if cap.at_most_items is not None:
        return isinstance(value, list) and len(value) > cap.at_most_items
    return cap.at_most_characters is not None and characters(value) > cap.at_most_characters


def characters(value: Any) -> int:  # noqa: ANN401  (a JSON value)
    """Count the characters of all text within a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(characters, value.values()))
    return sum(map(characters, value)) if isinstance(value, list) else 0
