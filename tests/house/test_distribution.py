"""The wheel: it holds the code and its data, and works without the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import ROOT, pyproject

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the locked back end, offline."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = folder.glob("vllm_gateway-*-py3-none-any.whl")
    return path


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    files = {str(path.relative_to(ROOT)) for path in ROOT.glob("gateway/**/*") if path.is_file()}
    expected = {name for name in files if "__pycache__" not in name}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == expected
    assert any(name.endswith(".json") for name in held)
    assert "gateway/py.typed" in held


def test_the_installed_command_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = "import gateway.cli, sys; print(gateway.cli.__file__); sys.argv[1:] = ['--help']; gateway.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
    assert "serve" in done.stdout


def test_the_metadata_names_the_command_and_the_pythons(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        (entry,) = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        assert "vllm-gateway = gateway.cli:main" in archive.read(entry).decode()
        text = archive.read(metadata).decode()
    assert "\nName: vllm-gateway\n" in text
    assert "\nRequires-Python: <3.15,>=3.11\n" in text
    assert text.count("\nRequires-Dist: ") == len(pyproject()["project"]["dependencies"])
