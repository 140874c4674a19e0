"""The checkout as the tests of the house see it: which files there are, and what each imports."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@cache
def committed() -> tuple[Path, ...]:
    """List the files that a commit of this tree would hold, as paths relative to its root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    found = (Path(name) for name in listing.stdout.split("\0") if name)
    return tuple(sorted(path for path in found if (ROOT / path).is_file()))


def sources() -> list[Path]:
    """List the modules of the gateway that hold code: package docstrings are not counted."""
    found = (path.relative_to(ROOT) for path in ROOT.glob("gateway/**/*.py"))
    return sorted(path for path in found if path.name != "__init__.py")


@cache
def tree_of(path: Path) -> ast.Module:
    """Parse one file of the checkout."""
    return ast.parse((ROOT / path).read_text("utf-8"), str(path))


def imported(path: Path) -> set[str]:
    """Name every module that a file imports, also for types alone; ``from a import b`` counts as ``a`` and ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            assert node.module
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def room(path: Path) -> str:
    """Give the room of a file of the gateway: its folder, or its own name on the top level."""
    return path.parts[1].removesuffix(".py")


@cache
def pyproject() -> dict[str, Any]:
    """Read the project's metadata and tool settings."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def text(name: str) -> str:
    """Read one file of the checkout."""
    return (ROOT / name).read_text("utf-8")
