"""Whether the cases of a file bite: each small change of the rules must change what some case shows.

Enters: a compiled file whose cases hold. Leaves: the changes that no case notices. A change that does not compile is
noticed; one that compiles to an equal plane is no change. ``trust`` is not covered, since cases carry no tokens; nor
are cards, which no rule reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.policy.cases import requests_of
from gateway.policy.compile import resolve_document
from gateway.policy.grammar import retyped
from gateway.policy.promises import differences
from gateway.policy.source import PolicyError
from gateway.policy.trial import answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.policy.compile import Policy
    from gateway.policy.document import Document
    from gateway.policy.document_cases import CaseKeys
    from gateway.policy.model import Plane
    from gateway.policy.promises import Difference
    from gateway.policy.source import Path
    from gateway.policy.trial import Request

_AREAS: Final = ("endpoints", "parameters", "limits", "clients", "models")
_UNCHANGED: Final = frozenset({"card"})
_REMOVED: Final = object()

# What may stand in place of a closed word. Two are not offered: "both" only adds a switch beside the one that a case
# names, and promises are compared in part; another dialect that knows the same fields differs in the engine's path
# alone, which no case sees.
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "unlisted": ("refuse", "drop"),
    "otherwise": ("refuse", "lower", "disable"),
    "default": ("disabled", "enabled"),
    "thinking": ("refuse", "disable"),
    "may_enable": ("everyone", "nobody"),
    "priority": ("high", "normal", "low"),
    "thinking_switch": ("enable_thinking", "thinking", "reasoning_effort", "none"),
}

# Durations move by one as numbers do. Sizes do not: to notice one of eight megabytes, a case would have to send them.
_DURATION: Final = re.compile("([1-9][0-9]*)([smh])")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a file: the path of the key or item, what was done to it, and the data with the change made."""

    path: Path
    change: str
    data: dict[str, Any]


def mutants(data: dict[str, Any]) -> Iterator[Mutant]:
    """Give each small change of the rules, one at a time; a mutant shares with the file what did not change."""
    for area in _AREAS:
        for path, change, value in _changes(data.get(area, {}), (area,)):
            yield Mutant(path, change, _with(data, path, value))


def unnoticed(policy: Policy) -> Iterator[Mutant]:
    """Yield the changes of a file that none of its cases notices; who asks, when and from where stays as it was."""
    cases = list(zip(policy.document.cases.expect, requests_of(policy), strict=True))
    results = {index: _result(policy.plane, *cases[index]) for index in range(len(cases))}
    order = list(results)
    for mutant in mutants(policy.tree.data):
        plane = _compiled(policy, mutant)
        if plane is None:
            continue
        noticing = next((index for index in order if _result(plane, *cases[index]) != results[index]), None)
        if noticing is None:
            yield mutant
        else:
            # The next change is most likely near this one, and then the same case notices it.
            order.remove(noticing)
            order.insert(0, noticing)


def _result(plane: Plane, case: CaseKeys, request: Request) -> list[Difference]:
    return list(differences(case, answer(plane, request)))


def _compiled(policy: Policy, mutant: Mutant) -> Plane | None:
    """Compile a mutant; ``None`` if it does not compile, or means what the file means."""
    try:
        document = _typed(policy.document, mutant)
        plane = resolve_document(document, policy.tree, policy.plane.digest).plane
    except PolicyError:
        return None
    return None if plane == policy.plane else plane


def _typed(document: Document, mutant: Mutant) -> Document:
    """Type the one entry that a mutant changed; a file with hundreds of clients has thousands of mutants."""
    area, name = str(mutant.path[0]), str(mutant.path[1])
    return retyped(document, area, name, mutant.data[area].get(name))


def _changes(value: Any, path: Path) -> Iterator[tuple[Path, str, Any]]:  # noqa: ANN401  (data of a file)
    """Yield each change of a value and of all within it, as a path, what is done, and what stands there then."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if key not in _UNCHANGED:
                yield (*path, key), "is removed", _REMOVED
                yield from _changes(inner, (*path, key))
        return
    for other in _others(value, path):
        yield path, f"becomes {_shown(other)}", other


def _others(value: Any, path: Path) -> Iterator[Any]:  # noqa: ANN401  (data of a file)
    """Yield what a number, a duration, a truth value or a closed word may become."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value - 1, value + 1)
    elif path[-1] in _WORDS:
        yield from (word for word in _WORDS[str(path[-1])] if word != value)
    elif len(path) > 1 and path[-2] == "deadlines" and (duration := _DURATION.fullmatch(value)):
        number, unit = duration.groups()
        yield from (f"{int(number) + step}{unit}" for step in (-1, 1))


def _shown(value: Any) -> str:  # noqa: ANN401  (data of a file)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _with(data: Any, path: Path, value: Any) -> Any:  # noqa: ANN401  (data of a file)
    """Copy data along a path, with the value at its end set or removed."""
    key, rest = path[0], path[1:]
    copy = data.copy()
    if rest:
        copy[key] = _with(data[key], rest, value)
    elif value is _REMOVED:
        del copy[key]
    else:
        copy[key] = value
    return copy
