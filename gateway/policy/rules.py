"""The parameter rules of one endpoint, joined with the dialect's field table: what ``judge`` looks things up in.

Enters: ``ParameterRules`` and ``Facts``. Leaves: ``Rules``, made once for each plane. Nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.dialects.checks import closed_object, dropped, refused
from gateway.dialects.fields import Treatment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gateway.dialects.checks import Check
    from gateway.dialects.fields import Field
    from gateway.dialects.registry import Facts
    from gateway.dialects.thinking_controls import ThinkingControls
    from gateway.policy.model import Cap, Narrowing, ParameterRules, ThinkingRule


@dataclass(frozen=True, slots=True)
class Rules:
    """One endpoint's rules by field.

    ``checks``: the accepted names and what their values must be. ``said``: those of them that say something to the
    model and that no rule sets, so that nothing is decided by what they say but whether they may say it. ``closed``:
    the members of accepted closed lists. ``force``: what is sent whatever the caller says. ``caps`` and ``token_caps``:
    those of ordinary fields and of the longest answer, ``said_caps`` those of ``said`` again; ``tokens`` are the names
    of the longest answer, ``answer_default`` its length where the API has one of its own. ``thinking``: ``None`` where
    the dialect has no control of it; ``controls``: the names that it has for them.
    """

    checks: Mapping[str, Check]
    said: tuple[str, ...]
    closed: Mapping[str, frozenset[str]]
    required: tuple[str, ...]
    tokens: tuple[str, ...]
    answer_default: int | None
    unmet: Callable[[Mapping[str, Any]], list[tuple[str, str]]]
    defaults: tuple[tuple[str, Any], ...]
    force: tuple[tuple[str, Any], ...]
    caps: tuple[tuple[str, Cap], ...]
    said_caps: tuple[tuple[str, Cap], ...]
    token_caps: tuple[Cap, ...]
    thinking: ThinkingRule | None
    controls: ThinkingControls
    drop_unlisted: bool
    refuse_special_tokens: bool
    media_hosts: frozenset[str]


def rules_for(
    parameters: ParameterRules, facts: Facts, media_hosts: frozenset[str], narrowing: Narrowing | None = None
) -> Rules:
    """Join the rules of an endpoint with what its dialect knows, and with what a client may less."""
    fields = facts.fields.values()
    controls = [field.name for field in fields if field.treatment is Treatment.THINKING]
    fixed = {field.name: field.value for field in fields if field.treatment is Treatment.FIXED}
    essential = [field.name for field in fields if field.essential]
    tokens = frozenset(facts.answer_tokens)
    accept, rule, all_caps = parameters.accept, parameters.thinking, tuple(parameters.caps.items())
    if narrowing is not None:
        accept, rule, all_caps = accept - narrowing.without, narrowing.thinking or rule, all_caps + narrowing.caps
    checks, closed = _checks((*accept, *controls, *fixed, *essential), facts)
    said = tuple(name for name in facts.said if name in checks and name not in parameters.force)
    thinking = rule if controls else None
    return Rules(
        checks=checks,
        said=said,
        closed=closed,
        required=facts.required,
        tokens=facts.answer_tokens,
        answer_default=facts.answer_default,
        unmet=facts.unmet,
        defaults=tuple(parameters.defaults.items()),
        force=(*parameters.force.items(), *fixed.items()),
        caps=tuple((name, cap) for name, cap in all_caps if name not in tokens),
        said_caps=tuple((name, cap) for name, cap in all_caps if name in said),
        token_caps=tuple(cap for name, cap in all_caps if name in tokens),
        thinking=thinking,
        controls=facts.controls,
        drop_unlisted=parameters.drop_unlisted,
        refuse_special_tokens=parameters.refuse_special_tokens or (thinking is not None and thinking.forbidden),
        media_hosts=media_hosts,
    )


def _checks(names: Iterable[str], facts: Facts) -> tuple[dict[str, Check], dict[str, frozenset[str]]]:
    checks: dict[str, Check] = {}
    closed: dict[str, dict[str, Check]] = {}
    for name in names:
        parent, dot, member = name.partition(".")
        if dot:
            closed.setdefault(parent, {})[member] = _check(facts.fields[name])
        else:
            checks[name] = _check(facts.fields[name])
    checks.update((parent, closed_object(members, parent)) for parent, members in closed.items())
    return checks, {parent: frozenset(members) for parent, members in closed.items()}


def _check(field: Field) -> Check:
    if field.treatment is Treatment.REFUSE:
        return refused(field.why, field.name)
    return dropped(field.check, field.name) if field.treatment is Treatment.DROP else field.check
