"""Show that each file of the pure floors is fully covered, branches included, by its own mirror test alone.

Enters: the tree. Leaves: what is missing for each file that is not, and exit status 1. One pytest run a file, two at a
time: what a file owes to another file's test would hide in a common run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FLOORS = ("reasons", "wire", "identity", "dialects", "limits", "policy", "engine")
EXCLUDED = "\n    ".join(
    tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]["coverage"]["report"]["exclude_also"]
)


def floor_files() -> list[Path]:
    """List the files of the floors; package docstrings hold no code."""
    found = (p for floor in FLOORS for p in (Path("gateway", f"{floor}.py"), *Path("gateway", floor).rglob("*.py")))
    return sorted(p for p in found if p.exists() and p.name != "__init__.py")


def mirror(source: Path) -> Path:
    """Give the test file of a source file."""
    return Path("tests", *source.parts[1:-1], f"test_{source.name}")


def complaint(source: Path) -> str | None:
    """Run the mirror test of one file and say what is wrong with it, or ``None``."""
    if not mirror(source).exists():
        return f"{source}: no {mirror(source)}"
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch, "rc")
        config.write_text(
            f"[run]\nbranch = true\ninclude = {source}\ndata_file = {scratch}/data\n"
            f"[report]\nshow_missing = true\nfail_under = 100\nexclude_also =\n    {EXCLUDED}\n",
            "utf-8",
        )
        coverage = [sys.executable, "-m", "coverage"]
        run = [
            *coverage,
            "run",
            f"--rcfile={config}",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(mirror(source)),
        ]
        report = [*coverage, "report", f"--rcfile={config}"]
        for command in (run, report):
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
            if done.returncode:
                return f"{source}:\n{done.stdout[-2000:]}{done.stderr[-500:]}"
    return None


def main() -> int:
    """Check every file; 0 when all are covered."""
    files = floor_files()
    with ThreadPoolExecutor(max_workers=2) as pool:
        complaints = [text for text in pool.map(complaint, files) if text]
    for text in complaints:
        print(text)
    print(f"{len(files) - len(complaints)} passed, {len(complaints)} failed")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
