"""Words that stand nowhere: unfinished work, silenced checks, names that say nothing, and places of one machine."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import ROOT, committed, room, sources, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# Each pattern is written so that it does not find itself here.
UNFINISHED = re.compile(r"\bTO[D]O\b|\bFIX[M]E\b|\bX[X]X\b|\bNotImplemented[E]rror\b")
SILENCED = re.compile(r"type: ignor[e](?!\[)|# noq[a](?!: [A-Z])|pragma: no[ ]cover|mypy: ignor[e]|fmt: of[f]")
SKIPPED = re.compile(
    r"pytest\.(?:mark\.)?(?:ski[p]|xfai[l]|importorski[p])|unittest\.moc[k]|\bmonkeypatch\.setatt[r]\((?!sys,)"
)
PLACES = re.compile(
    r"(?:pypi|pythonhosted|npmjs|debian|dockerproject)\.or[g](?=[/:\s\"']|$)|(?<![\w.])/(?:roo[t]|hom[e]|wor[k])/"
    r"|/tmp/(?:prob[e]|bash_job[s])|\.librar[y]/|(?<![\w])\.\./share[d]/|design\.m[d]"
)
DANGEROUS = re.compile(
    r"request\.ur[l]\b|scope\[\"pat[h]\"\](?!\s*=[^=])|verify=Fals[e]|trust_env=Tru[e]|shell=Tru[e]|yaml\.loa[d]\(|\bpickl[e]\b"
)

CATCH_ALL = {
    "user",
    "users",
    "account",
    "accounts",
    "context",
    "manager",
    "helper",
    "helpers",
    "util",
    "utils",
    "common",
    "base",
}


def _lines(pattern: re.Pattern[str], paths: Iterable[Path]) -> list[str]:
    found = []
    for path in paths:
        try:
            content = (ROOT / path).read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path}:{n}: {line.strip()[:100]}"
            for n, line in enumerate(content.splitlines(), 1)
            if pattern.search(line)
        ]
    return found


def _python() -> list[Path]:
    return [path for path in committed() if path.suffix == ".py"]


def _defined(path: Path) -> Iterator[tuple[int, str]]:
    """Name what a file defines: classes, functions, arguments and variables."""
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case _:
                pass


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}


def test_nothing_unfinished_is_committed() -> None:
    assert not _lines(UNFINISHED, committed())


def test_no_check_is_silenced_without_saying_which_and_why() -> None:
    assert not _lines(SILENCED, _python())


def test_no_test_is_skipped_and_nothing_of_our_own_is_patched() -> None:
    assert not _lines(SKIPPED, [path for path in _python() if path.parts[0] == "tests"])


def test_no_place_of_one_machine_is_named() -> None:
    """No registry host and no path of somebody's disk: the tree must work on any machine."""
    assert not _lines(PLACES, committed())


def test_no_call_that_is_never_right_here() -> None:
    """A decoded path (but where the simulator does as vLLM does), a shell, a lenient YAML loader, and their like."""
    assert not _lines(DANGEROUS, [path for path in sources() if room(path) != "simulator"])


@pytest.mark.parametrize("path", sources(), ids=str)
def test_names_are_terms_of_the_field(path: Path) -> None:
    vague = [f"{path}:{line}: {name}" for line, name in _defined(path) if _words(name) & CATCH_ALL]
    assert not vague
    assert not _words(path.stem) & CATCH_ALL


@pytest.mark.parametrize("path", sources(), ids=str)
def test_every_file_says_what_room_it_is(path: Path) -> None:
    assert ast.get_docstring(tree_of(path)), f"{path} has no docstring"
