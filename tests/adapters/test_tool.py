from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.adapters.tool import AT_MOST, told_by

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def program(folder: Path, text: str) -> None:
    file = folder / "a-tool"
    file.write_text(text)
    file.chmod(0o755)


async def test_a_program_that_is_not_there_is_none(folder: Path) -> None:
    assert await told_by("a-tool") is None


@pytest.mark.parametrize("status", [0, 9])
async def test_what_it_writes_is_told_and_whether_it_went_well(folder: Path, status: int) -> None:
    program(folder, f'#!/bin/sh\necho "$1"\necho more >&2\nexit {status}\n')
    assert await told_by("a-tool", "--a=b; c") == (status == 0, "--a=b; c\nmore\n")


async def test_a_program_that_hangs_is_ended(folder: Path) -> None:
    program(folder, "#!/bin/sh\nexec sleep 60\n")
    assert await told_by("a-tool", within_s=0.2) == (False, "a-tool gave no answer in 0.2 s")


async def test_a_program_that_cannot_be_run_is_told(folder: Path) -> None:
    program(folder, "#!/no/such/interpreter\n")
    told = await told_by("a-tool")
    assert told is not None
    assert told[0] is False
    assert told[1].startswith("a-tool cannot be run: ")


async def test_what_it_writes_is_bounded(folder: Path) -> None:
    program(folder, "#!/bin/sh\nhead -c 200000 /dev/zero\n")
    told = await told_by("a-tool")
    assert told is not None
    assert len(told[1]) == AT_MOST
