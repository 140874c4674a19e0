from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING, NoReturn

import pytest

from gateway.adapters.descriptor import Descriptor

if TYPE_CHECKING:
    from pathlib import Path


def _fill(descriptor: Descriptor) -> NoReturn:
    while True:
        descriptor.write(b"a" * 65_536)


def test_a_file_is_appended_to_and_readable_by_its_group_at_most(tmp_path: Path) -> None:
    path = tmp_path / "log"
    before = os.umask(0)
    try:
        descriptor = Descriptor.of_path(str(path))
    finally:
        os.umask(before)
    assert descriptor.write(b"a\n") == 2
    with path.open("ab") as other:
        other.write(b"other\n")
    descriptor.write(b"b\n")
    descriptor.close()
    assert path.read_bytes() == b"a\nother\nb\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_was_moved_or_removed_is_no_longer_at_its_path(tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = Descriptor.of_path(str(path))
    assert descriptor.is_at(str(path))
    path.rename(tmp_path / "log.1")
    assert not descriptor.is_at(str(path))
    path.touch()
    assert not descriptor.is_at(str(path))
    descriptor.close()


def test_a_path_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        Descriptor.of_path(str(tmp_path))


def test_a_full_pipe_is_not_waited_for_and_its_other_holders_are_left_alone() -> None:
    reader, end = os.pipe()
    descriptor = Descriptor.of(end)
    with pytest.raises(BlockingIOError):
        _fill(descriptor)
    assert os.get_blocking(end)
    descriptor.close()
    os.close(reader)
    os.close(end)


def test_a_full_socket_is_not_waited_for() -> None:
    """Under systemd, standard output is a socket."""
    reader, end = socket.socketpair()
    descriptor = Descriptor.of(end.fileno())
    with pytest.raises(BlockingIOError):
        _fill(descriptor)
    assert end.getblocking()
    descriptor.close()
    reader.close()
    end.close()


def test_a_pipe_without_a_reader_is_an_error() -> None:
    reader, end = os.pipe()
    descriptor = Descriptor.of(end)
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        descriptor.write(b"a")
    descriptor.close()
    os.close(end)
