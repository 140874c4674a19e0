"""Each file of the gateway has its test file, and each test file its source."""

from __future__ import annotations

from pathlib import Path

from tests.house.tree import ROOT, sources

# Tests of the whole, of the tree, or data and doubles for tests: they mirror no single file.
_OF_THE_WHOLE = {"clients", "corpus", "e2e", "idp", "fuzz", "house", "peers", "simulators", "valkey", "vllm"}

# Promises that only the files of a room together can keep.
_OF_A_ROOM = {Path("tests/policy/test_idempotence.py")}


def _sources() -> list[Path]:
    """List the modules that have a mirror: all but a ``__main__``, which is one call."""
    return [path for path in sources() if path.name != "__main__.py"]


def _mirror(source: Path) -> Path:
    return Path("tests", *source.parts[1:-1], f"test_{source.name}")


def test_every_source_file_has_its_test_file() -> None:
    missing = [f"{source} has no {_mirror(source)}" for source in _sources() if not (ROOT / _mirror(source)).exists()]
    assert not missing, "\n".join(missing)


def test_every_test_file_has_its_source_file() -> None:
    mirrors = {_mirror(source) for source in _sources()} | _OF_A_ROOM
    tests = (path.relative_to(ROOT) for path in ROOT.glob("tests/**/test_*.py"))
    strays = [str(path) for path in tests if path.parts[1] not in _OF_THE_WHOLE and path not in mirrors]
    assert not strays, f"tests of no file: {strays}"


def test_tests_are_no_package() -> None:
    """Two test files may have one name: they are told apart by their folder, as their sources are."""
    assert not list(ROOT.glob("tests/**/__init__.py"))
