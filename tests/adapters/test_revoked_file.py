from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from gateway.adapters.revoked_file import MOST_BYTES, RevokedFile, RevokedFileUnusable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "revoked"
    file.write_text("j-1  # a laptop was lost\n", "utf-8")
    return file


def loaded(path: Path | None) -> RevokedFile:
    file = RevokedFile(path)
    file.load()
    return file


def test_without_a_file_nothing_is_revoked() -> None:
    file = loaded(None)
    file.refresh()
    assert (file.revoked.entries, file.generation) == (frozenset(), 0)


def test_a_change_is_seen_and_counted_once(path: Path) -> None:
    file = loaded(path)
    assert (file.revoked.entries, file.generation) == (frozenset({"j-1"}), 1)
    file.refresh()
    assert file.generation == 1
    path.write_text("j-1\nj-2\n", "utf-8")
    with capture_logs() as logs:
        file.refresh()
        file.refresh()
    assert (file.revoked.entries, file.generation) == (frozenset({"j-1", "j-2"}), 2)
    assert [(line["event"], line["entries"]) for line in logs] == [("revoked tokens read again", 2)]


@pytest.mark.parametrize(
    "content, why",
    [
        (b"two words\n", "line 1 is no jti"),
        (b"\xff\n", "it is not UTF-8"),
        (b"x" * (MOST_BYTES + 1), "is larger than"),
        (None, "No such file"),
    ],
)
def test_a_list_that_cannot_be_read_leaves_the_old_one_in_force(path: Path, content: bytes | None, why: str) -> None:
    """It is told once, not every two seconds."""
    file = loaded(path)
    path.unlink() if content is None else path.write_bytes(content)
    with capture_logs() as logs:
        file.refresh()
        file.refresh()
    assert (file.revoked.entries, file.generation) == (frozenset({"j-1"}), 1)
    assert len(logs) == 1
    assert why in logs[0]["why"]
    path.write_text("", "utf-8")
    file.refresh()
    assert (file.revoked.entries, file.generation) == (frozenset(), 2)


def test_a_list_that_cannot_be_read_at_the_start_is_no_start(tmp_path: Path) -> None:
    with pytest.raises(RevokedFileUnusable, match=r"^GATEWAY_REVOKED_FILE cannot be used: No such file"):
        loaded(tmp_path / "none")
    wrong = tmp_path / "wrong"
    wrong.write_text("a b\n", "utf-8")
    with pytest.raises(RevokedFileUnusable, match="line 1 is no jti"):
        loaded(wrong)
