"""What ``compile`` finds wrong, collected: a reviewer reads all of it at once.

Enters: paths into the file with sentences. Leaves: problems with file and line. Nothing is judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.policy.source import PolicyError
from gateway.policy.text import nearest

if TYPE_CHECKING:
    from collections.abc import Collection

    from gateway.policy.source import Path, Problem, Tree


class Complaints:
    """The problems of one file so far."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._problems: list[Problem] = []

    def add(self, path: Path, sentence: str) -> None:
        """Note what is wrong at a path of the file."""
        self._problems.append(self._tree.problem(path, sentence))

    def knows(self, path: Path, name: str, names: Collection[str], what: str) -> bool:
        """Tell whether a name is one of the names; complain with the nearest one if it is not."""
        if name in names:
            return True
        known = list(names)
        hint = f"; the nearest is `{nearest(name, known)}`" if known else ""
        self.add(path, f"this file has no {what} `{name}`{hint}")
        return False

    def settle(self) -> None:
        """Raise ``PolicyError`` if there is anything to complain about."""
        if self._problems:
            raise PolicyError(self._problems)
