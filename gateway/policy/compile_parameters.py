"""``parameters`` compiled: which fields pass, which are set, how large they may be, and who lets a model think.

Enters: the typed document and what each dialect knows of its fields. Leaves: ``ParameterRules`` by endpoint, and
complaints where a field is unknown, closed, set twice, or larger than its own cap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.dialects.checks import Inspection
from gateway.dialects.fields import Treatment
from gateway.dialects.registry import FACTS
from gateway.policy import cache_salt
from gateway.policy.compile_caps import cap, over_cap, with_hint
from gateway.policy.model import ParameterRules, ThinkingRule
from gateway.policy.thinking import SIDE_DOORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.dialects.registry import Facts
    from gateway.policy.complaints import Complaints
    from gateway.policy.document import Document
    from gateway.policy.document_parameters import ParametersKeys, ThinkingKeys
    from gateway.policy.model import Cap
    from gateway.policy.source import Path

STANDARD: Final = "standard"


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
            resolved[name] = _Rules(path, keys, facts, document, complaints).resolve()
    return resolved


class _Rules:
    """The rules of one endpoint in the making."""

    def __init__(
        self, path: Path, keys: ParametersKeys, facts: Facts, document: Document, complaints: Complaints
    ) -> None:
        self.path = path
        self.keys = keys
        self.facts = facts
        self.aliases = document.models or {}
        self.media_hosts = frozenset(document.media.hosts if document.media is not None else ())
        self.complaints = complaints

    def resolve(self) -> ParameterRules:
        keys = self.keys
        accept = self.accept()
        self.set_once()
        caps = {
            name: cap((*self.path, "caps", name), name, stated, self.facts, accept, self.complaints)
            for name, stated in (keys.caps or {}).items()
        }
        self.one_cap(caps)
        thinking = self.thinking(keys.thinking)
        # Special tokens are a side door: where nobody may enable thinking they are refused whatever the file says.
        strict = keys.special_tokens is not None or thinking.forbidden
        inspection = Inspection(special_tokens=strict, media_hosts=self.media_hosts)
        for key, values in (("defaults", keys.defaults), ("force", keys.force)):
            for name, value in (values or {}).items():
                self.value((*self.path, key, name), name, value, caps, inspection)
                if thinking.forbidden and SIDE_DOORS.get(name) is value:
                    self.complaints.add((*self.path, key, name), "this goes past `thinking`, which nobody may enable")
        return ParameterRules(
            accept=accept,
            drop_unlisted=keys.unlisted == "drop",
            defaults=keys.defaults or {},
            force=keys.force or {},
            caps=caps,
            thinking=thinking,
            refuse_special_tokens=strict,
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
                self.complaints.add(here, with_hint(name, fault, self.facts))
            else:
                accepted.add(name)
        return frozenset(accepted)

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

    def value(
        self,
        here: Path,
        name: str,
        value: Any,  # noqa: ANN401  (a JSON value)
        caps: dict[str, Cap],
        inspection: Inspection,
    ) -> None:
        """Complain about a value that the dialect would not read, or that the caps of this file forbid."""
        if name == cache_salt.FIELD and cache_salt.is_salted(self.facts):
            self.complaints.add(here, "the gateway sets this itself, for each client another: remove this line")
            return
        if fault := self.facts.why_not_set(name) or self.facts.value_fault(name, value, inspection):
            self.complaints.add(here, with_hint(name, fault, self.facts))
            return
        if name == "model":
            self.complaints.knows(here, value, self.aliases, "model")
        for one in self.synonyms(name):
            if one in caps and over_cap(value, caps[one]):
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
