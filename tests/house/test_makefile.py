"""The entrance for people: make builds its environment on any machine, or says what the machine lacks."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import ROOT, text

if TYPE_CHECKING:
    from pathlib import Path


def _machine_with(folder: Path, **pythons: str) -> dict[str, str]:
    """Make a machine whose only interpreters are these scripts."""
    for name, script in pythons.items():
        path = folder / name.replace("_", ".")
        path.write_text(f"#!/bin/sh\n{script}\n", "ascii")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PATH": str(folder)}


def _build(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "tools/venv.sh", "/nonexistent/venv", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_without_a_python_is_told_which_to_install(tmp_path: Path) -> None:
    done = _build(_machine_with(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("No Python from 3.11 to 3.14 found.")
    assert "Traceback" not in done.stderr


def test_a_python_that_is_too_old_is_not_taken(tmp_path: Path) -> None:
    done = _build(_machine_with(tmp_path, python3="exit 1"))
    assert done.returncode == 1
    assert "No Python from 3.11 to 3.14 found." in done.stderr


def test_a_machine_without_the_venv_module_is_told_which_package_has_it(tmp_path: Path) -> None:
    """As on Debian, where python3 comes without python3-venv."""
    script = 'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac'
    done = _build(_machine_with(tmp_path, python3=script))
    assert done.returncode == 1
    assert "apt install python3.12-venv" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_that_can_build_is_preferred_to_a_newer_one_that_cannot(tmp_path: Path) -> None:
    lame = 'case "$2" in *ensurepip*) exit 1;; esac'
    good = 'case "$1" in -m) echo "builds $3"; exit 7;; --version) echo Python 3.11.9;; esac'
    machine = _machine_with(tmp_path, python3_13=lame, python3_11=good)
    (tmp_path / "rm").symlink_to("/bin/rm")
    done = _build(machine)
    assert done.stdout == "Building /nonexistent/venv with Python 3.11.9\nbuilds /nonexistent/venv\n"
    assert done.returncode == 7


def test_a_python_named_by_hand_is_the_only_one_tried(tmp_path: Path) -> None:
    done = _build(_machine_with(tmp_path, python3=""), "python2")
    assert "found as 'python2'" in done.stderr


@pytest.mark.parametrize(
    "target",
    [
        "help",
        "demo",
        "test",
        "check",
        "coverage-mirror",
        "test-long",
        "test-idp",
        "test-valkey",
        "test-clients",
        "test-vllm",
        "test-pythons",
        "bench",
    ],
)
def test_every_target_is_told_of_in_the_help(target: str) -> None:
    done = subprocess.run(["make", "--silent", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"^  make {target} +\S", done.stdout, re.MULTILINE)


def test_what_the_shell_has_set_does_not_reach_the_tests() -> None:
    odd = {
        "VIRTUAL_ENV": "/elsewhere", "PYTHONPATH": "/elsewhere", "PIP_TARGET": "/elsewhere", "PIP_USER": "1",
        "PYTEST_ADDOPTS": "-x", "GATEWAY_POLICIES": "/elsewhere", "OPENAI_BASE_URL": "http://elsewhere",
    }  # fmt: skip
    show = "show:\n\t@env\n"
    done = subprocess.run(
        ["make", "--silent", "--file", "Makefile", "--file", "-", "show"],
        cwd=ROOT,
        env={**os.environ, **odd},
        input=show,
        capture_output=True,
        text=True,
        check=True,
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert {name: seen.get(name) for name in odd} == {**dict.fromkeys(odd), "PIP_USER": "0"}
    assert seen["NO_PROXY"].endswith("127.0.0.1,localhost")


def test_continuous_integration_runs_what_people_run() -> None:
    script = text(".ci/run")
    assert script.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script
    waited_for = [
        run for line in script.splitlines() if not line.endswith("&") for run in re.findall(r"make ([^\"]+)", line)
    ]
    assert " ".join(waited_for).split() == [
        ".venv/installed",
        "test",
        "test-pythons",
        "NEWEST=1",
        "check",
        "coverage-mirror",
        "test-idp",
        "test-valkey",
        "test-vllm",
        "test-clients",
    ]
