"""Policy files are found, compiled as a set, and seen to change."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from gateway.adapters.policy_files import PolicyFiles, PolicyFilesMissing, found
from gateway.policy.source import PolicyError

TEXT = (Path(__file__).parents[2] / "policies" / "internal.yaml").read_text("utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "internal.yaml").write_text(TEXT, "utf-8")
    return tmp_path


def test_a_folder_stands_for_the_yaml_files_directly_inside(folder: Path) -> None:
    (folder / "README.md").write_text("no policy")
    (folder / "schema").mkdir()
    (folder / "schema" / "deep.yaml").write_text("no policy")
    (folder / "folder.yaml").mkdir()
    (folder / "a.yaml").write_text("a")
    assert found(folder) == [folder / "a.yaml", folder / "internal.yaml"]


def test_a_file_stands_for_itself(folder: Path) -> None:
    assert found(folder / "internal.yaml") == [folder / "internal.yaml"]


def test_a_path_that_leads_nowhere_is_an_error(folder: Path) -> None:
    with pytest.raises(PolicyFilesMissing, match=r"none\.yaml does not exist"):
        found(folder / "none.yaml")
    (folder / "empty").mkdir()
    with pytest.raises(PolicyFilesMissing, match=r"empty holds no \*\.yaml file"):
        found(folder / "empty")


def test_each_file_becomes_a_plane_with_the_digest_of_its_bytes(folder: Path) -> None:
    data = TEXT.replace("\n", "\r\n").encode()
    (folder / "internal.yaml").write_bytes(data)
    (plane,) = PolicyFiles([folder]).load()
    assert plane.name == "internal"
    assert plane.digest == sha256(data).hexdigest()
    assert plane.source == str(folder / "internal.yaml")


def test_a_file_named_twice_is_one_file(folder: Path) -> None:
    assert len(PolicyFiles([folder, folder / "internal.yaml"]).load()) == 1


def test_two_files_for_one_listener_are_an_error(folder: Path) -> None:
    (folder / "copy.yaml").write_text(TEXT, "utf-8")
    with pytest.raises(PolicyError):
        PolicyFiles([folder]).load()


def test_a_file_that_is_not_utf_8_is_named(folder: Path) -> None:
    (folder / "latin.yaml").write_bytes(b"\xff")
    with pytest.raises(PolicyFilesMissing, match=r"latin\.yaml cannot be read: it is not UTF-8"):
        PolicyFiles([folder]).load()


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    class Unreadable(type(folder)):  # type: ignore[misc]  # the class of paths on this system
        def read_bytes(self) -> bytes:
            raise PermissionError(13, "Permission denied")

        def is_dir(self) -> bool:
            if self.name == "shut":
                raise PermissionError(13, "Permission denied")
            return bool(super().is_dir())

    for name in ("internal.yaml", "shut"):
        with pytest.raises(PolicyFilesMissing, match=f"{name} cannot be read: Permission denied"):
            PolicyFiles([Unreadable(folder / name)]).load()


def test_a_change_is_seen_by_content(folder: Path) -> None:
    files = PolicyFiles([folder])
    assert files.changed()
    files.load()
    assert not files.changed()
    file = folder / "internal.yaml"
    os.utime(file)
    assert not files.changed()
    before = file.stat()
    file.write_text(TEXT.replace("summary", "summarY", 1), "utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.changed()


def test_a_file_more_or_less_or_of_another_name_is_a_change(folder: Path) -> None:
    files = PolicyFiles([folder])
    files.load()
    (folder / "more.yaml").write_text("")
    assert files.changed()
    (folder / "more.yaml").unlink()
    assert not files.changed()
    (folder / "internal.yaml").rename(folder / "other.yaml")
    assert files.changed()


def test_files_that_are_gone_for_a_moment_are_no_change(folder: Path) -> None:
    files = PolicyFiles([folder])
    files.load()
    (folder / "internal.yaml").unlink()
    assert not files.changed()


def test_a_set_that_does_not_compile_is_not_tried_again_until_it_changes(folder: Path) -> None:
    files = PolicyFiles([folder])
    (folder / "internal.yaml").write_text("policy: 1\n")
    with pytest.raises(PolicyError):
        files.load()
    assert not files.changed()
    (folder / "internal.yaml").write_text(TEXT, "utf-8")
    assert files.changed()
