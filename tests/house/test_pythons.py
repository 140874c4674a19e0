"""Tests on several Pythons: which are found, what is said of each, and that one failure is enough."""

from __future__ import annotations

import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = ("cat", "cp", "dirname", "find", "mkdir", "mktemp", "rm", "sh")
# Answers what the scripts ask, and copies itself where it should build an environment.
PYTHON = """#!/bin/sh
case "$1 $2" in
"--version ") echo "Python {version}.1" ;;
*print*) echo {version} ;;
"-c "*"!= '{version}'"*) exit 0 ;;
"-c "*"!= "*) exit 1 ;;
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pytest") shift 2; echo "{version} runs $*"; exit {status} ;;
esac
"""


class Machine:
    """A machine with these Pythons: the first is that of all other tests."""

    def __init__(self, folder: Path, own: str, *others: str, fails: str = "") -> None:
        self.folder = folder
        self.own = folder / f"python{own}"
        for name in TOOLS:
            (folder / name).symlink_to(str(shutil.which(name)))
        for version in (own, *others):
            self.install(folder / f"python{version}", version, fails=version == fails)

    def install(self, path: Path, version: str, *, fails: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PYTHON.format(version=version, status=int(fails)), "ascii")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, newest: str = "", *tests: str) -> subprocess.CompletedProcess[str]:
        command = ["/bin/sh", "tools/pythons.sh", str(self.folder / "built"), str(self.own), newest]
        return subprocess.run(
            [*command, *(tests or ("tests/one",))],
            cwd=ROOT,
            env={"PATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )


def test_every_other_python_is_run_and_those_that_are_missing_are_named(tmp_path: Path) -> None:
    done = Machine(tmp_path, "3.11", "3.12", "3.14").run()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line for line in lines if "runs" in line] == [f"3.{n} runs -q -m not long tests/one" for n in (14, 12)]
    assert "Passed on Python: 3.14 3.12" in lines
    assert lines[-1].endswith("Python 3.13")


def test_the_python_of_all_other_tests_is_left_out(tmp_path: Path) -> None:
    done = Machine(tmp_path, "3.13", "3.11").run()
    assert "Passed on Python: 3.11\n" in done.stdout
    assert "3.13" not in done.stdout


def test_one_failure_fails_the_run_and_the_others_are_run_all_the_same(tmp_path: Path) -> None:
    done = Machine(tmp_path, "3.11", "3.12", "3.13", fails="3.13").run()
    assert done.returncode == 1
    assert "Passed on Python: 3.12\n" in done.stdout
    assert done.stderr == "FAILED on Python: 3.13\n"


@pytest.mark.parametrize("fails", ["", "3.13"])
def test_the_newest_may_be_enough(tmp_path: Path, fails: str) -> None:
    done = Machine(tmp_path, "3.11", "3.12", "3.13", fails=fails).run("1")
    assert done.returncode == bool(fails)
    assert "3.13 runs" in done.stdout
    assert "3.12" not in done.stdout


def test_two_lots_of_tests_run_side_by_side_and_one_that_fails_is_enough(tmp_path: Path) -> None:
    done = Machine(tmp_path, "3.11", "3.12", fails="3.12").run("", "tests/one", "tests/two tests/three")
    assert done.returncode == 1
    assert {line for line in done.stdout.splitlines() if "runs" in line} == {
        "3.12 runs -q -m not long tests/one",
        "3.12 runs -q -m not long tests/two tests/three",
    }


def test_a_machine_with_no_other_is_told_so(tmp_path: Path) -> None:
    done = Machine(tmp_path, "3.11").run()
    assert done.returncode == 0
    assert done.stderr == "NOTHING WAS RUN: no Python but 3.11 was found.\n"


def test_those_of_pyenv_are_found_though_its_shims_lead_elsewhere(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "3.11")
    machine.install(tmp_path / "of-pyenv/versions/3.13.9/bin/python", "3.13")
    machine.install(tmp_path / "python3.13", "3.10")
    shim = tmp_path / "pyenv"
    shim.write_text(f"#!/bin/sh\necho '{tmp_path}/of-pyenv'\n", "ascii")
    shim.chmod(0o700)
    assert "Passed on Python: 3.13\n" in machine.run().stdout


def test_an_environment_is_built_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "3.11", "3.12")
    building = f"Building {tmp_path}/built/3.12 with Python 3.12.1\n"
    assert building in machine.run().stdout
    assert building not in machine.run().stdout
    (tmp_path / "built/3.12/built").write_text("/elsewhere\n", "ascii")
    assert building in machine.run().stdout, "a checkout that was moved"
