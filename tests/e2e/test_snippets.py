"""What the documents tell callers to paste, pasted: each piece of Python and each curl, against the demo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTS = ("README.md", "docs/partners.md")
URL, NAMES = "https://llm.example.com", ("token", "token_or_key")


def pieces(language: str) -> list[str]:
    """Give the blocks of a language, of all documents."""
    return [
        block
        for name in DOCUMENTS
        for block in re.findall(rf"^```{language}\n(.*?)^```", text(name), re.DOTALL | re.MULTILINE)
    ]


def curls() -> list[str]:
    """Give each curl with its further lines."""
    found = (re.findall(r"^curl (?:.*\\\n)*.*$", block, re.MULTILINE) for block in pieces("sh"))
    return [line for lines in found for line in lines]


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[str, str]]:
    """Run the demo; give its URL and key."""
    with subprocess.Popen([sys.executable, "-m", "gateway", "demo"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(3)]
        assert lines[0].startswith("http://"), lines
        yield lines[0], lines[2]
        process.terminate()


@pytest.mark.parametrize("piece", pieces("python"))
def test_a_piece_of_python_runs_as_it_stands(piece: str, demo: tuple[str, str], tmp_path: Path) -> None:
    url, key = demo
    (tmp_path / "talk.mp3").write_bytes(b"ID3")
    given = "".join(f"{name} = {key!r}\n" for name in NAMES)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", given + piece.replace(URL, url)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("line", curls())
def test_a_curl_is_answered_as_the_document_says(line: str, demo: tuple[str, str]) -> None:
    url, key = demo
    given = {**os.environ, "URL": url, "KEY": key, "TOKEN": key}
    ran = subprocess.run(["bash", "-c", line.replace(URL, url)], env=given, capture_output=True, text=True, check=True)
    if "# 404" in line:
        assert ran.stdout.startswith("HTTP/1.1 404 ")
    else:
        assert '"error"' not in ran.stdout
        assert '"object":' in ran.stdout


def test_there_are_pieces_to_paste() -> None:
    assert len(pieces("python")) >= 3
    assert len(curls()) >= 4
