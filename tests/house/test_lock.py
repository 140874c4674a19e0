"""The lock files: complete, hashed, agreeing with each other, and never below the fix of a known advisory."""

from __future__ import annotations

import re
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.house.tree import ROOT, imported, pyproject, sources, text

# First releases without the advisories that concern a gateway of this sort (November 2026).
FIXED_IN = {
    "anyio": "4.14.2",
    "authlib": "1.9.0",
    "cryptography": "50.0.0",
    "h11": "0.16.0",
    "httptools": "0.9.0",
    "httpx2": "2.12.0",
    "joserfc": "1.7.7",
    "starlette": "1.3.1",
    "uvicorn": "0.54.0",
}
# What has no place here, directly or through another package.
NEVER = {"httpx", "pyjwt", "python-jose", "python-multipart", "requests"}


def _pinned(name: str) -> dict[str, Version]:
    pins = re.findall(r"^([a-z0-9-]+)==([^ ]+)", text(name), re.MULTILINE)
    return {package: Version(version) for package, version in pins}


def _requirements() -> list[Requirement]:
    return [Requirement(line) for line in pyproject()["project"]["dependencies"]]


def _development() -> list[Requirement]:
    groups = pyproject()["dependency-groups"]
    return [Requirement(line) for line in [*groups["build"], *groups["dev"]] if isinstance(line, str)]


@pytest.mark.parametrize("wanted", _requirements(), ids=str)
def test_every_dependency_is_locked_within_its_range(wanted: Requirement) -> None:
    """A failure means: run 'make lock' and commit both files."""
    locked = _pinned("requirements.lock")
    assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)])


@pytest.mark.parametrize("wanted", _development(), ids=str)
def test_every_development_dependency_is_locked_within_its_range(wanted: Requirement) -> None:
    locked = _pinned("requirements-dev.lock")
    assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)])


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock"])
def test_what_is_tested_is_what_is_deployed_and_built_with(name: str) -> None:
    development = _pinned("requirements-dev.lock")
    assert {package: development.get(package) for package in _pinned(name)} == _pinned(name)


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.glob("requirements*.lock")))
def test_every_pin_has_hashes_and_names_no_index(name: str) -> None:
    blocks = [block for block in re.split(r"\n(?=[a-z])", text(name)) if not block.startswith("#")]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"^\s*-|https?:|@ ", text(name).replace("    --hash", ""), re.MULTILINE)


@pytest.mark.parametrize("package", sorted(FIXED_IN))
def test_no_pin_is_below_the_fix_of_an_advisory(package: str) -> None:
    assert _pinned("requirements.lock")[package] >= Version(FIXED_IN[package])


@pytest.mark.parametrize("wanted", [r for r in _requirements() if canonicalize_name(r.name) in FIXED_IN], ids=str)
def test_no_range_admits_a_release_below_the_fix_of_an_advisory(wanted: Requirement) -> None:
    floors = [Version(clause.version) for clause in wanted.specifier if clause.operator in {">=", "=="}]
    assert floors
    assert max(floors) >= Version(FIXED_IN[canonicalize_name(wanted.name)])


def test_every_dependency_is_imported_somewhere_and_nothing_else_is() -> None:
    modules = {"prometheus-client": "prometheus_client", "pyyaml": "yaml"}
    declared = {modules.get(name, name) for name in (canonicalize_name(wanted.name) for wanted in _requirements())}
    used = {name.partition(".")[0] for path in sources() for name in imported(path)}
    foreign = used - set(sys.stdlib_module_names) - {"gateway", "pydantic_core"}  # pydantic pins its core exactly
    assert foreign == declared


def test_packages_that_have_no_place_here_do_not_come_in_by_another() -> None:
    assert not NEVER & set(_pinned("requirements.lock"))
