"""Show that each file of the pure floors is fully covered, branches included, by its own mirror test alone.

Enters: the tree. Leaves: what is missing for each file that is not, and exit status 1. One process a file, two at a
time: what a file owes to another file's test would hide in a common run. Processes are forked behind the imports that
all tests share, which is half of the work; nothing of the gateway is among them.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tomllib
from multiprocessing import get_context
from pathlib import Path

import coverage
import hypothesis.strategies  # noqa: F401  (for the children)
import joserfc.jwk  # noqa: F401  (for the children)
import pydantic  # noqa: F401  (for the children)
import pytest

FLOORS = ("reasons", "wire", "identity", "dialects", "limits", "policy", "engine")
EXCLUDED = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]["coverage"]["report"]["exclude_also"]
ALL = 100
# Hypothesis was imported before pytest could rewrite its asserts, which only makes their messages shorter.
PYTEST = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]


def floor_files() -> list[Path]:
    """List the files of the floors; package docstrings hold no code."""
    found = (p for floor in FLOORS for p in (Path("gateway", f"{floor}.py"), *Path("gateway", floor).rglob("*.py")))
    return sorted(p for p in found if p.exists() and p.name != "__init__.py")


def complaint(source: Path) -> str | None:
    """Run the mirror test of one file and say what is wrong with it, or ``None``."""
    mirror = Path("tests", *source.parts[1:-1], f"test_{source.name}")
    if not mirror.exists():
        return f"{source}: no {mirror}"
    measured = coverage.Coverage(data_file=None, branch=True, include=[str(source)], config_file=False)
    for pattern in EXCLUDED:
        measured.exclude(pattern)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        with measured.collect():
            status = pytest.main([*PYTEST, str(mirror)])
        covered = measured.report(show_missing=True, file=said)
    if status == pytest.ExitCode.OK and covered == ALL:
        return None
    return f"{source}:\n{said.getvalue()[-2000:]}"


def main() -> int:
    """Check every file; 0 when all are covered."""
    files, failed = floor_files(), 0
    with get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        for text in filter(None, pool.imap(complaint, files, chunksize=1)):
            failed += 1
            print(text, flush=True)
    print(f"{len(files) - failed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
