"""``vllm-gateway check``: whether policies compile, their cases hold, and the cases bite.

Enters: paths of policy files, or of directories with them. Leaves: ``CheckReport``, as text for a reviewer or as JSON
for a machine. Nothing is served, fetched or written here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.policy import mutation
from gateway.policy.cases import Failure, run
from gateway.policy.compile import compile_policy, together
from gateway.policy.source import LARGEST_FILE, PolicyError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from gateway.policy.compile import Policy

HOLDS, FOUND, USAGE = 0, 1, 2
_LARGEST_BYTES: Final = 4 * LARGEST_FILE  # no character of UTF-8 is longer than four bytes


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found in one file; ``plane`` is ``None`` if it does not compile."""

    file: str
    plane: str | None
    cases: int
    changes: int
    not_enforced: tuple[str, ...]
    problems: tuple[Problem, ...]
    failing: tuple[Failure, ...]
    unnoticed: tuple[Problem, ...]

    @property
    def holds(self) -> bool:
        """Whether there is nothing to say against this file."""
        return not (self.problems or self.failing or self.unnoticed)

    def lines(self) -> Iterator[str]:
        """Yield one line for each thing found, or one that says that there is none."""
        yield from map(str, self.problems)
        for failure in self.failing:
            for expected, got in failure.differences:
                yield f"{failure.problem}: {failure.name!r}: expected {expected}; got {got}"
        yield from map(str, self.unnoticed)
        if self.holds:
            yield f"{self.file}: plane {self.plane}: {self.cases} cases hold, and notice each of {self.changes} changes"
        if self.not_enforced:
            yield f"{self.file}: stated, and not enforced yet by this version: {', '.join(self.not_enforced)}"

    def data(self) -> dict[str, Any]:
        """Give the report as JSON data."""
        return {
            "file": self.file,
            "plane": self.plane,
            "cases": self.cases,
            "changes": self.changes,
            "not_enforced": list(self.not_enforced),
            "problems": [asdict(problem) for problem in self.problems],
            "failing": [
                {**asdict(failure.problem), "name": failure.name, "expected": expected, "got": got}
                for failure in self.failing
                for expected, got in failure.differences
            ],
            "unnoticed": [asdict(problem) for problem in self.unnoticed],
        }


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found in all files; ``unreadable`` are paths that are no policies at all, each with why."""

    files: tuple[FileReport, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """The exit status of the command."""
        if self.unreadable:
            return USAGE
        return HOLDS if all(file.holds for file in self.files) else FOUND

    def as_text(self) -> str:
        """Give what a reviewer reads."""
        return "\n".join([*self.unreadable, *(line for file in self.files for line in file.lines())])

    def as_json(self) -> str:
        """Give what a machine reads."""
        data = {
            "holds": self.status == HOLDS,
            "unreadable": list(self.unreadable),
            "files": [file.data() for file in self.files],
        }
        return json.dumps(data, indent=2, ensure_ascii=False)


def check(paths: Sequence[Path]) -> CheckReport:
    """Check policy files, and directories by the ``*.yaml`` files directly inside; all of them together are one set."""
    unreadable: list[str] = []
    files = dict.fromkeys(_files(paths, unreadable))
    policies: list[Policy] = []
    problems: dict[str, list[Problem]] = {str(path): [] for path in files}
    for path in files:
        try:
            policies.append(compile_policy(_text(path), str(path)))
        except PolicyError as error:
            problems[str(path)] += error.problems
        except OSError as error:
            unreadable.append(f"{path}: cannot be read: {error.strerror}")
            del problems[str(path)]
    for problem in together(policies):
        problems[problem.file].append(problem)
    compiled = {policy.tree.file: policy for policy in policies}
    return CheckReport(
        tuple(_report(file, compiled.get(file), tuple(found)) for file, found in problems.items()), tuple(unreadable)
    )


def _files(paths: Iterable[Path], unreadable: list[str]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
        elif inside := sorted(file for file in path.glob("*.yaml") if file.is_file()):
            yield from inside
        else:
            unreadable.append(f"{path}: no *.yaml file is directly inside")


def _text(path: Path) -> str:
    """Read a file as UTF-8. Raises ``OSError``, and ``PolicyError`` for other bytes."""
    with path.open("rb") as file:
        data = file.read(_LARGEST_BYTES + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyError([Problem(str(path), line, 1, "", "this line is not UTF-8")]) from None


def _report(file: str, policy: Policy | None, problems: tuple[Problem, ...]) -> FileReport:
    if policy is None:
        return FileReport(file, None, 0, 0, (), problems, (), ())
    return FileReport(
        file=file,
        plane=policy.plane.name,
        cases=len(policy.document.cases.expect),
        changes=sum(1 for _ in mutation.mutants(policy.tree.data)),
        not_enforced=policy.plane.not_enforced,
        problems=problems,
        failing=run(policy),
        unnoticed=tuple(
            policy.tree.problem(
                mutant.path, f"no case notices when this {mutant.change}: add a case, or remove the line"
            )
            for mutant in mutation.unnoticed(policy)
        ),
    )
