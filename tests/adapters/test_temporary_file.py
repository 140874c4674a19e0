"""A large file is on disk, has no name, and is gone with its owner."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

import pytest

from gateway.adapters.temporary_file import PIECE, TemporaryFile
from gateway.reasons import Reason, Unavailable

pytestmark = pytest.mark.usefixtures("nothing_left")


def deleted() -> int:
    """Count this process's open files that have no name any more."""
    links = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sum(link.startswith(tempfile.gettempdir()) and link.endswith(" (deleted)") for link in links)


async def content(file: TemporaryFile) -> list[bytes]:
    return [piece async for piece in file.pieces()]


async def test_a_file_gives_back_what_it_took_in_pieces() -> None:
    file = TemporaryFile()
    whole = os.urandom(2 * PIECE + 5)
    for at in range(0, len(whole), 1000):
        await file.write(whole[at : at + 1000])
    assert file.size == len(whole)
    pieces = await content(file)
    assert b"".join(pieces) == whole
    assert max(map(len, pieces)) == PIECE
    assert await content(file) == pieces
    file.close()


async def test_an_empty_file_has_no_pieces() -> None:
    file = TemporaryFile()
    assert (file.size, await content(file)) == (0, [])
    file.close()


async def test_a_file_has_no_name_and_is_gone_when_it_is_closed() -> None:
    before = deleted()
    file = TemporaryFile()
    await file.write(b"x" * (PIECE - 1))
    assert deleted() == before
    await file.write(b"x")
    assert deleted() == before + 1
    file.close()
    assert deleted() == before


async def test_what_was_never_written_needs_no_closing() -> None:
    TemporaryFile().close()


async def test_a_disk_that_takes_nothing_is_named_and_nothing_else(tmp_path: Path) -> None:
    file = TemporaryFile(tmp_path / "missing")
    with pytest.raises(Unavailable) as caught:
        await file.write(b"x" * PIECE)
    assert (caught.value.reason, caught.value.detail) == (Reason.SPOOL_UNAVAILABLE, "ENOENT")
    with pytest.raises(Unavailable):
        await content(file)
    file.close()


async def test_a_disk_without_room_is_named_and_the_file_is_gone_all_the_same() -> None:
    before = deleted()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = TemporaryFile()
    resource.setrlimit(resource.RLIMIT_FSIZE, (PIECE // 2, limits[1]))
    try:
        with pytest.raises(Unavailable) as caught:
            await file.write(b"x" * PIECE)
        file.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.reason, caught.value.detail) == (Reason.SPOOL_UNAVAILABLE, "EFBIG")
    assert deleted() == before
