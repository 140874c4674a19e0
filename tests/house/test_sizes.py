"""Files stay small: the largest file of a house is the one that lost its single noun."""

from __future__ import annotations

from statistics import median, quantiles

from tests.house.tree import ROOT, sources


def _lines() -> dict[str, int]:
    return {str(path): len((ROOT / path).read_text("utf-8").splitlines()) for path in sources()}


def test_no_file_is_longer_than_400_lines() -> None:
    assert not {path: lines for path, lines in _lines().items() if lines > 400}


def test_nine_of_ten_files_have_at_most_250_lines() -> None:
    longest = sorted(((lines, path) for path, lines in _lines().items()), reverse=True)
    assert quantiles(_lines().values(), n=10)[-1] <= 250, longest[:8]


def test_half_of_the_files_have_at_most_120_lines() -> None:
    assert median(_lines().values()) <= 120, sorted(_lines().values())
