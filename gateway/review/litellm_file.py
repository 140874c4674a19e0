"""LiteLLM's configuration file as text: plain data, and the line of every key in it.

Enters: the text of one file. Leaves: ``LiteLlmFile``, or ``NotImportable``. It is read as LiteLLM reads it (anchors,
merges, ``True``), which is wider than a policy file is read here; what a key means is not known here. No value stands
in a sentence, since any may be a secret in the wrong place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from gateway.policy.source import LARGEST_FILE, Problem, dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gateway.policy.source import Path

DEEPEST: Final = 5
"""Levels whose lines are known: ``model_list[0].litellm_params.api_key`` and one more."""

REFERENCE: Final = "os.environ/"
"""What LiteLLM writes in front of the name of a variable."""


class NotImportable(Exception):  # noqa: N818  (says what is so)
    """The file cannot be carried over as it is; each of ``problems`` has a place and a sentence."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class LiteLlmFile:
    """The data of a file and where its keys stand; ``name`` is the file's own, for problems."""

    name: str
    data: Mapping[str, Any] = field(repr=False)
    places: Mapping[Path, tuple[int, int]] = field(repr=False)

    def problem(self, path: Path, sentence: str) -> Problem:
        """Make a problem out of a path and a sentence; a path without a place has that of the nearest around it."""
        known = path
        while known not in self.places:
            known = known[:-1]
        return Problem(self.name, *self.places[known], dotted(path), sentence)

    def section(self, name: str) -> Mapping[str, Any]:
        """Give a section that is a mapping; an empty one where it is absent or something else."""
        section = self.data.get(name)
        return section if isinstance(section, dict) else {}


def read(text: str, name: str) -> LiteLlmFile:
    """Read the text of a file. Raises ``NotImportable``."""
    if len(text) > LARGEST_FILE:
        raise NotImportable([Problem(name, 1, 1, "", "the file is larger than 1 MiB")])
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        data = None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise NotImportable([Problem(name, line, column, "", "this is not YAML that LiteLLM could read")]) from None
    if not isinstance(data, dict):
        raise NotImportable([Problem(name, 1, 1, "", "a configuration of LiteLLM is a mapping with a model_list")])
    return LiteLlmFile(name, data, {(): (1, 1), **dict(_places(node, ()))})


def _places(node: Any, path: Path) -> Iterator[tuple[Path, tuple[int, int]]]:  # noqa: ANN401  (PyYAML's nodes are untyped)
    """Yield the place of each key and list item, counted from 1."""
    if len(path) >= DEEPEST:
        return
    if isinstance(node, yaml.MappingNode):
        children = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [(index, value, value) for index, value in enumerate(node.value)]
    else:
        return
    for step, place, value in children:
        mark = place.start_mark
        yield (*path, step), (mark.line + 1, mark.column + 1)
        yield from _places(value, (*path, step))
