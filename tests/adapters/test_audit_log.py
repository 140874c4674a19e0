from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.audit_log import BUFFERED_AT_MOST, LOOK_S, READY_UP_TO, AuditLog
from gateway.adapters.descriptor import Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Pipe:
    """A pipe that is read on demand."""

    def __init__(self) -> None:
        self.reader, self.end = os.pipe()
        os.set_blocking(self.reader, False)
        self.log = AuditLog(Descriptor.of(self.end))

    def read(self) -> bytes:
        """Give what has arrived."""
        data = b""
        while True:
            try:
                piece = os.read(self.reader, 1 << 20)
            except BlockingIOError:
                return data
            if not piece:
                return data
            data += piece


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Give a pipe."""
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)
    os.close(pipe.end)


class Disk(Descriptor):
    """A file on a disk with room for so many bytes, which takes at most eight in one write."""

    room = 0

    def write(self, data: bytes) -> int:
        """Write what there is room for."""
        if self.room == 0:
            raise OSError(28, "No space left on device")
        written = super().write(data[: min(self.room, 8)])
        self.room -= written
        return written


def _disk(path: Path) -> Disk:
    return Disk(os.open(path, os.O_WRONLY | os.O_CREAT))


async def _until_ready(log: AuditLog, pipe: Pipe | None = None) -> None:
    for _ in range(1000):
        if log.ready:
            return
        if pipe is not None:
            pipe.read()
        await asyncio.sleep(0.005)
    raise TimeoutError


async def test_records_of_one_turn_are_written_together_in_order(pipe: Pipe) -> None:
    pipe.log.write(b"1")
    pipe.log.write(b"2")
    assert pipe.read() == b""
    await asyncio.sleep(0)
    assert pipe.read() == b"1\n2\n"
    pipe.log.write(b"3")
    await asyncio.sleep(0)
    assert pipe.read() == b"3\n"
    assert pipe.log.close() == 0


async def test_a_slow_reader_gets_every_line_whole_and_nobody_waits(pipe: Pipe) -> None:
    lines = [b"%05d" % number + b"a" * 500 for number in range(1000)]
    for line in lines:
        pipe.log.write(line)
    await asyncio.sleep(0)
    assert pipe.log.ready
    read = pipe.read()
    assert len(read) < 500_000
    async with asyncio.timeout(5):
        while not read.endswith(lines[-1] + b"\n"):
            await asyncio.sleep(0.005)
            read += pipe.read()
    assert read == b"\n".join(lines) + b"\n"
    pipe.log.close()


async def test_a_reader_that_stopped_closes_the_door_before_records_are_lost(pipe: Pipe) -> None:
    record = b"a" * 10_000
    while pipe.log.ready:
        pipe.log.write(record)
        await asyncio.sleep(0)
    for _ in range((BUFFERED_AT_MOST - READY_UP_TO) // 10_001 - 1):
        pipe.log.write(record)
    assert pipe.log.lost == 0
    for _ in range(3):
        pipe.log.write(record)
    assert pipe.log.lost > 0
    lost = pipe.log.lost
    await _until_ready(pipe.log, pipe)
    assert pipe.log.close(wait_s=0) > lost


async def test_a_failed_write_closes_the_door_until_one_succeeds(tmp_path: Path) -> None:
    disk = _disk(tmp_path / "log")
    log = AuditLog(disk)
    log.write(b"first")
    before = log.ready
    await asyncio.sleep(0)
    assert [before, log.ready] == [True, False]
    log.write(b"second")
    disk.room = 1000
    await _until_ready(log)
    assert log.close() == 0
    assert (tmp_path / "log").read_bytes() == b"first\nsecond\n"


async def test_a_reader_that_is_gone_closes_the_door_for_good(pipe: Pipe) -> None:
    other, end = os.pipe()
    log = AuditLog(Descriptor.of(end))
    os.close(other)
    log.write(b"a")
    await asyncio.sleep(0)
    assert not log.ready
    assert log.close(wait_s=0.05) == 1
    os.close(end)


async def test_a_file_that_was_moved_is_continued_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AuditLog.open(str(path))
    log.write(b"1")
    await asyncio.sleep(0)
    path.rename(tmp_path / "log.1")
    await asyncio.sleep(LOOK_S)
    log.write(b"2")
    await asyncio.sleep(0)
    assert (tmp_path / "log.1").read_bytes() == b"1\n"
    assert path.read_bytes() == b"2\n"
    log.close()


async def test_a_signal_can_have_it_reopened_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AuditLog.open(str(path))
    log.write(b"1")
    await asyncio.sleep(0)
    path.rename(tmp_path / "log.1")
    log.reopen()
    log.write(b"2")
    assert log.close() == 0
    assert (tmp_path / "log.1").read_bytes() == b"1\n"
    assert path.read_bytes() == b"2\n"


async def test_a_line_that_was_begun_in_the_old_file_is_whole_in_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    disk = _disk(path)
    disk.room = 11
    log = AuditLog(disk, str(path))
    log.write(b"whole")
    log.write(b"broken off")
    assert not log.flush()
    path.rename(tmp_path / "log.1")
    log.reopen()
    assert log.close() == 0
    assert (tmp_path / "log.1").read_bytes() == b"whole\nbroke"
    assert path.read_bytes() == b"broken off\n"


async def test_a_file_that_cannot_be_reopened_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = AuditLog.open(str(folder / "log"))
    folder.rename(tmp_path / "moved")
    log.reopen()
    log.write(b"1")
    assert log.close() == 0
    assert (tmp_path / "moved" / "log").read_bytes() == b"1\n"


async def test_there_is_nothing_to_reopen_for_standard_output(pipe: Pipe) -> None:
    pipe.log.reopen()
    pipe.log.write(b"1")
    pipe.log.close()
    assert pipe.read() == b"1\n"


def test_a_path_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AuditLog.open(str(tmp_path / "none" / "log"))


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_standard_output_gets_the_lines_of_a_process(kind: str, tmp_path: Path) -> None:
    program = (
        "import asyncio\n"
        "from gateway.adapters.audit_log import AuditLog\n"
        "async def main():\n"
        "    log = AuditLog.open('stdout')\n"
        "    log.write(b'{}')\n"
        "    raise SystemExit(log.close())\n"
        "asyncio.run(main())\n"
    )
    with (tmp_path / "out").open("wb") as file:
        stdout = subprocess.PIPE if kind == "pipe" else file
        done = subprocess.run([sys.executable, "-c", program], stdout=stdout, timeout=30, check=True)
    assert (done.stdout if kind == "pipe" else (tmp_path / "out").read_bytes()) == b"{}\n"
