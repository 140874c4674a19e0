"""The policy file as text: boring YAML, and for every value the place where it stands.

Enters: the text of one file. Leaves: ``Tree``, plain data with marks, or ``PolicyError`` with all that is wrong.
Scalars are read by the core schema of YAML 1.2, narrowed to what every reader takes for the same value. Which keys
there are is not known here.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from gateway.policy.text import secret, unfit_character

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Path = tuple[str | int, ...]

LARGEST_FILE: Final = 1024 * 1024  # characters; the longest worked example has 20,000
DEEPEST: Final = 64  # levels

# YAML 1.2.2 §10.3.2, without what YAML 1.1 reads otherwise: octal, hexadecimal, leading zeros, underscores, colons.
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_AMBIGUOUS_NUMBER: Final = re.compile(
    r"[-+]?0[0-9]+(\.[0-9]*)?|[-+]?0[xob][0-9a-fA-F]+|\+[0-9].*|[-+]?\.[0-9]+|[-+]?[0-9]+\.|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_AMBIGUOUS_WORDS: Final = frozenset({"True", "TRUE", "False", "FALSE", "Null", "NULL"})
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong in a policy: where it stands (1-based), which key it is about, and what to do."""

    file: str
    line: int
    column: int
    where: str
    sentence: str

    def __str__(self) -> str:
        """Give the form that editors and terminals can jump to."""
        return f"{self.file}:{self.line}:{self.column}: {self.where + ': ' if self.where else ''}{self.sentence}"


class PolicyError(Exception):
    """A policy that is refused, with everything that was found wrong, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the file, counted from 1."""

    line: int
    column: int


def dotted(path: Path) -> str:
    """Write a path as a reviewer reads it: ``clients.acme.may[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


@dataclass(frozen=True, slots=True)
class Tree:
    """The data of a file, and the place of every key and list item in it."""

    file: str
    data: dict[str, Any] = field(repr=False)
    marks: Mapping[Path, Mark] = field(repr=False)

    def mark(self, path: Path) -> Mark:
        """Give the place of a path, or of the nearest one around it that is in the file."""
        while path not in self.marks:
            path = path[:-1]
        return self.marks[path]

    def problem(self, path: Path, sentence: str) -> Problem:
        """Make a problem out of a path and a sentence."""
        mark = self.mark(path)
        return Problem(self.file, mark.line, mark.column, dotted(path), sentence)


class _Builder:
    """Turns parser events into data and marks, and notes every use of YAML that is refused.

    Events are ``Any`` here: what each kind of them has is known to PyYAML, not to its types.
    """

    def __init__(self, file: str, events: Iterator[Any]) -> None:
        self.file = file
        self.events = events
        self.marks: dict[Path, Mark] = {}
        self.problems: list[Problem] = []

    def note(self, event: Any, path: Path, sentence: str) -> None:  # noqa: ANN401  (an event)
        mark = _mark(event)
        self.problems.append(Problem(self.file, mark.line, mark.column, dotted(path), sentence))

    def document(self) -> Any:  # noqa: ANN401  (whatever stands in the file)
        """Read exactly one document; ``None`` for an empty file."""
        next(self.events)  # StreamStart
        start = next(self.events)
        if not isinstance(start, yaml.DocumentStartEvent):
            return None
        if start.version or start.tags:
            self.note(start, (), "directives (%YAML, %TAG) are not used in this format: remove them")
        data = self.value(next(self.events), ())
        next(self.events)  # DocumentEnd
        if not isinstance(more := next(self.events), yaml.StreamEndEvent):
            self.note(more, (), "a second YAML document begins here: one file is one policy")
        return data

    def value(self, event: Any, path: Path) -> Any:  # noqa: ANN401  (as above)
        self.marks.setdefault(path, _mark(event))
        if isinstance(event, yaml.AliasEvent):
            self.note(event, path, f"the alias *{event.anchor} is refused: write the value out where it holds")
            return None
        if event.anchor is not None:
            self.note(event, path, f"the anchor &{event.anchor} is refused: write the value out where it holds")
        if event.tag is not None:
            self.note(event, path, f"the tag {event.tag} is refused: values are plain text, numbers, true and false")
        if len(path) >= DEEPEST:
            self.note(event, path[:3], f"this is nested deeper than {DEEPEST} levels")
            raise PolicyError(self.problems)
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(path)
        return self.scalar(event, path)

    def mapping(self, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.key(event, path)
            here = (*path, key)
            if key in data:
                self.note(event, here, f"`{key}` stands here twice; the first is on line {self.marks[here].line}")
            self.marks.setdefault(here, _mark(event))
            data[key] = self.value(next(self.events), here)
        return data

    def key(self, event: Any, path: Path) -> str:  # noqa: ANN401  (as above)
        key = self.value(event, (*path, ""))
        del self.marks[*path, ""]
        if key == "<<" and event.style is None:
            self.note(event, path, "the merge key << is refused: write the keys out where they hold")
        if not isinstance(key, str):
            self.note(event, path, "a key must be text; quote it if it looks like a number, true, false or null")
            return f"the key on line {_mark(event).line}"
        return key

    def sequence(self, path: Path) -> list[Any]:
        data: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            data.append(self.value(event, (*path, len(data))))
        return data

    def scalar(self, event: Any, path: Path) -> Any:  # noqa: ANN401  (as above)
        text: str = event.value
        value, sentence = _plain(text) if event.style is None else (text, None)
        for fault in (secret(text), sentence):
            if fault is not None:
                self.note(event, path, fault)
        return value


def _mark(event: Any) -> Mark:  # noqa: ANN401  (an event)
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


def _plain(text: str) -> tuple[Any, str | None]:
    """Read a scalar without quotes, as its value and the sentence that refuses it."""
    if text in _WORDS:
        return _WORDS[text], None
    if text in _AMBIGUOUS_WORDS:
        return text, f"write `{text.lower()}` in lower case, or quote it if it is text"
    if _AMBIGUOUS_NUMBER.fullmatch(text):
        return text, "readers of YAML disagree about this number: write plain decimal digits, or quote it if it is text"
    if _INTEGER.fullmatch(text):
        if len(text) > len(str(_SMALLEST)) or not _SMALLEST <= int(text) <= _LARGEST:
            return 0, "this number is too large; quote it if it is text"
        return int(text), None
    if _FLOAT.fullmatch(text):
        number = float(text)
        return (number, None) if math.isfinite(number) else (0.0, "this number is too large; quote it if it is text")
    return text, None


def _characters(text: str, file: str) -> Iterator[Problem]:
    """Yield each line's first character that a reviewer would not see, comments included."""
    if text.startswith("\ufeff"):
        yield Problem(file, 1, 1, "", "the file begins with a byte order mark: save it as UTF-8 without one")
        text = text[1:]
    for number, line in enumerate(text.split("\n"), 1):
        if found := unfit_character(line.removesuffix("\r")):
            yield Problem(file, number, found[0] + 1, "", found[1])


def read(text: str, file: str) -> Tree:
    """Read the text of a policy file; raises ``PolicyError``."""
    if len(text) > LARGEST_FILE:
        raise PolicyError([Problem(file, 1, 1, "", f"the file is longer than {LARGEST_FILE} characters")])
    if problems := list(_characters(text, file)):
        raise PolicyError(problems)
    builder = _Builder(file, yaml.parse(text, Loader=yaml.SafeLoader))
    try:
        data = builder.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise PolicyError(
            [*builder.problems, Problem(file, line, column, "", f"not well-formed YAML: {what}")]
        ) from None
    if data is None and not builder.problems:
        builder.problems.append(Problem(file, 1, 1, "", "the file is empty: a policy begins with `policy: 1`"))
    elif not isinstance(data, dict) and not builder.problems:
        builder.problems.append(Problem(file, 1, 1, "", "a policy is a mapping of keys, beginning with `policy: 1`"))
    if builder.problems:
        raise PolicyError(builder.problems)
    return Tree(file, data, builder.marks)
