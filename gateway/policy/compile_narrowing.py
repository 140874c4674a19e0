"""What a client or a model narrows, compiled: an override takes away from its endpoint and never adds.

Enters: the typed document and the rules of its endpoints. Leaves: ``Narrowing`` by client and endpoint, caps by model,
and complaints where one of them would widen, or takes away what is not there. Both rules are applied to a request, the
endpoint's first, so that even a wrong file could not widen: what is refused here is text that misleads its reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.dialects.checks import Inspection
from gateway.dialects.fields import Treatment
from gateway.dialects.registry import FACTS
from gateway.policy.compile_caps import BOUNDS, cap, over_cap, with_hint
from gateway.policy.model import Narrowing, ThinkingRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.dialects.registry import Facts
    from gateway.policy.complaints import Complaints
    from gateway.policy.document import Document
    from gateway.policy.document_clients import ClientKeys, NarrowKeys
    from gateway.policy.document_endpoints import ModelKeys
    from gateway.policy.model import Cap, ParameterRules
    from gateway.policy.source import Path

    Rules = Mapping[str, ParameterRules]

_WIDER: Final = "the endpoint's own cap is as narrow: an override only narrows"
_FORBIDDEN: Final = {
    "refuse": ThinkingRule(everyone=False),
    "disable": ThinkingRule(everyone=False, disable_otherwise=True),
}


def of_client(
    name: str, keys: ClientKeys, document: Document, rules: Rules, complaints: Complaints
) -> dict[str, Narrowing]:
    """Resolve what a client may less than others, by endpoint."""
    resolved = {}
    for endpoint, narrow in (keys.narrow or {}).items():
        path: Path = ("clients", name, "narrow", endpoint)
        if not complaints.knows(path, endpoint, document.endpoints, "endpoint"):
            continue
        if endpoint not in keys.may:
            complaints.add(path, f"this client may not use `{endpoint}`, so there is nothing to narrow")
        elif endpoint not in rules:
            complaints.add(path, f"`{endpoint}` has no rules about a body, so there is nothing to narrow")
        else:
            facts = FACTS[document.endpoints[endpoint].dialect]
            resolved[endpoint] = _narrowing(path, narrow, rules[endpoint], facts, complaints)
            _nothing_set_thinks((*path, "thinking"), narrow, document, rules[endpoint], facts, complaints)
            _no_way_around((*path, "thinking"), narrow, name, keys, document, rules[endpoint], complaints)
    return resolved


def of_model(
    alias: str, keys: ModelKeys, document: Document, rules: Rules, complaints: Complaints
) -> tuple[tuple[str, Cap], ...]:
    """Resolve the caps of a model: they hold at every endpoint that can use it and accepts the field."""
    path: Path = ("models", alias, "caps")
    generates = keys.most_tokens is not None
    endpoints = [
        (rules[name], facts)
        for name, endpoint in document.endpoints.items()
        if name in rules and (facts := FACTS[endpoint.dialect]).generates == generates
    ]
    caps = []
    for field, stated in (keys.caps or {}).items():
        here = (*path, field)
        accepting = [(one, facts) for one, facts in endpoints if field in one.accept]
        if any(field in facts.answer_tokens for _, facts in endpoints):
            complaints.add(here, "the longest answer of a model is its `most_tokens`: write it there")
        elif not accepting:
            complaints.add(here, f"no endpoint that can use this model accepts `{field}`: this caps nothing")
        else:
            resolved = [cap(here, field, stated, facts, one.accept, complaints) for one, facts in accepting]
            _sure(here, field, resolved[0], accepting, complaints)
            caps.append((field, resolved[0]))
    return tuple(caps)


def _narrowing(path: Path, keys: NarrowKeys, rules: ParameterRules, facts: Facts, complaints: Complaints) -> Narrowing:
    for index, name in enumerate(keys.without or ()):
        here = (*path, "without", index)
        if name not in rules.accept:
            complaints.add(
                here, with_hint(name, f"the endpoint does not accept `{name}`: nothing is taken away", facts)
            )
        elif name in facts.required:
            complaints.add(here, f"every request needs `{name}`: take the endpoint out of `may` instead")
    without = frozenset(keys.without or ())
    caps = []
    for name, stated in (keys.caps or {}).items():
        here = (*path, "caps", name)
        resolved = cap(here, name, stated, facts, rules.accept - without, complaints)
        _sure(here, name, resolved, [(rules, facts)], complaints)
        caps.append((name, resolved))
    if keys.thinking is not None:
        if all(field.treatment is not Treatment.THINKING for field in facts.fields.values()):
            complaints.add((*path, "thinking"), f"nothing thinks in {facts.name}: remove this line")
        elif rules.thinking.forbidden:
            complaints.add((*path, "thinking"), "nobody may enable thinking at this endpoint: remove this line")
    return Narrowing(without, tuple(caps), _FORBIDDEN.get(keys.thinking or ""))


def _nothing_set_thinks(
    path: Path, narrow: NarrowKeys, document: Document, rules: ParameterRules, facts: Facts, complaints: Complaints
) -> None:
    """Complain about special tokens in what the endpoint sets, where a client's thinking is taken away."""
    hosts = frozenset(document.media.hosts if document.media is not None else ())
    inspection = Inspection(special_tokens=True, media_hosts=hosts)
    for key, values in (("defaults", rules.defaults), ("force", rules.force)):
        for name, value in values.items() if narrow.thinking is not None else ():
            if facts.why_not_set(name) is None and facts.value_fault(name, value, inspection) is not None:
                complaints.add(
                    path, f"the endpoint's `{key}` sets `{name}` with a special token: a side door of thinking"
                )


def _no_way_around(
    path: Path,
    narrow: NarrowKeys,
    name: str,
    keys: ClientKeys,
    document: Document,
    rules: ParameterRules,
    complaints: Complaints,
) -> None:
    """Complain about thinking that is taken from a client and given back elsewhere."""
    if narrow.thinking is None:
        return
    if name in rules.thinking.clients:
        complaints.add(path, "`may_enable` of the endpoint names this client: say one of the two")
    models = [(document.models or {}).get(alias) for alias in keys.models or ()]
    thinks = any(model is not None and model.most_tokens and model.thinking_switch != "none" for model in models)
    for endpoint in keys.may:
        if thinks and endpoint in document.endpoints and FACTS[document.endpoints[endpoint].dialect].raw:
            complaints.add(path, f"a raw prompt can begin a thought: take `{endpoint}` out of `may` as well")


def _sure(
    here: Path, name: str, resolved: Cap, accepting: list[tuple[ParameterRules, Facts]], complaints: Complaints
) -> None:
    """Complain about a cap that narrows nothing, or that the endpoint itself breaks."""
    narrows = False
    for rules, facts in accepting:
        names = facts.answer_tokens if name in facts.answer_tokens else (name,)
        narrows |= all(_narrower(resolved, rules.caps[one]) for one in names if one in rules.caps)
        for key, values in (("defaults", rules.defaults), ("force", rules.force)):
            if any(over_cap(values[one], resolved) for one in names if one in values):
                complaints.add(here, f"the endpoint's `{key}` sets more than this: a caller may not send it either")
    if not narrows:
        complaints.add(here, _WIDER)


def _narrower(one: Cap, other: Cap) -> bool:
    """Tell whether each bound of a cap is below the one that holds anyway."""
    bounds = [(getattr(one, bound), getattr(other, bound)) for bound in BOUNDS]
    return all(mine < its for mine, its in bounds if mine is not None and its is not None)
