"""The worked examples, and what becomes of them when somebody edits them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gateway.policy.compile import compile_policy
from gateway.policy.source import PolicyError

if TYPE_CHECKING:
    from gateway.policy.compile import Policy
    from gateway.policy.source import Problem

EXAMPLES = Path(__file__).parent / "examples"
PARTNER, INTERNAL, CONTROL = "partner", "internal", "control"


class Broken(NamedTuple):
    """An edit that must be refused: at the line of ``at`` in the edited text, in these words."""

    old: str
    new: str
    at: str
    words: str
    example: str = PARTNER


def example(name: str) -> str:
    """Give the text of a worked example."""
    return (EXAMPLES / f"{name}.yaml").read_text("utf-8")


def edited(name: str, *edits: tuple[str, str]) -> str:
    """Give the text of a worked example with the first occurrence of each text replaced."""
    text = example(name)
    for old, new in edits:
        assert old in text, f"the example has no {old!r}"
        text = text.replace(old, new, 1)
    return text


def compiled(name: str, *edits: tuple[str, str]) -> Policy:
    """Compile an edited example."""
    return compile_policy(edited(name, *edits), f"{name}.yaml")


def problems(text: str) -> tuple[Problem, ...]:
    """Give what is wrong with a text that must be refused."""
    with pytest.raises(PolicyError) as caught:
        compile_policy(text, "policy.yaml")
    return caught.value.problems


def shortened(name: str) -> str:
    """Give a worked example with its first case alone: most edits are refused before a case is looked at."""
    head, mark, cases = example(name).partition("  expect:\n")
    lines = cases.splitlines(keepends=True)
    names = [number for number, line in enumerate(lines) if line.lstrip().startswith(("- name:", "- {name:"))]
    return head + mark + "".join(lines[: names[1]])


def line_of(text: str, snippet: str) -> int:
    """Give the line on which a snippet first stands."""
    return text[: text.index(snippet)].count("\n") + 1


def assert_refused(broken: Broken) -> None:
    """Assert that an edit is refused at its line and in its words."""
    short = shortened(broken.example)
    text = (short if broken.old in short else example(broken.example)).replace(broken.old, broken.new, 1)
    assert broken.new in text, f"the example has no {broken.old!r}"
    found = problems(text)
    line = line_of(text, broken.at)
    told = [problem for problem in found if problem.line == line and broken.words in problem.sentence]
    assert told, f"line {line}, {broken.words!r} is not among:\n" + "\n".join(map(str, found))
