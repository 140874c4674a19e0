"""Writers in one process share their locks, so those who must keep apart here are processes of their own."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.descriptor import Descriptor
from gateway.adapters.write_turns import WriteTurns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITER = """
import sys, time
from gateway.adapters.descriptor import Descriptor
from gateway.adapters.write_turns import WriteTurns

number, output, name, lines, size = map(int, sys.argv[1:])
log = WriteTurns(number).of(Descriptor.of(output))
for line in range(lines):
    rest = b'{"of":%d,"line":%d,"rest":"%b"}\\n' % (name, line, b"x" * size) * 2
    while rest:
        try:
            rest = rest[log.write(rest):]
        except BlockingIOError:
            time.sleep(0.0005)
"""
BREAKS_OFF = """
import os, sys
from gateway.adapters.descriptor import Descriptor
from gateway.adapters.write_turns import WriteTurns

class Full(Descriptor):
    def write(self, data):
        return super().write(data[:9])

log = WriteTurns(int(sys.argv[1])).of(Full.of_path(sys.argv[2]))
assert log.write(b'{"half":"of a line"}\\n') == 9
sys.stdout.write("begun\\n")
sys.stdout.flush()
sys.stdin.read()
os._exit(9)
"""


@pytest.fixture
def turns() -> Iterator[WriteTurns]:
    """Give the turns that all writers share."""
    turns = WriteTurns.new()
    yield turns
    os.close(turns.number)


def writer(turns: WriteTurns, output: int, name: int, lines: int, size: int) -> subprocess.Popen[bytes]:
    """Begin a process that writes so many pairs of lines."""
    command = [sys.executable, "-c", WRITER, *map(str, (turns.number, output, name, lines, size))]
    return subprocess.Popen(command, pass_fds=(turns.number, output))


@pytest.mark.parametrize("size", [10, select.PIPE_BUF, 40_000])
def test_lines_of_several_writers_come_whole_through_one_pipe(turns: WriteTurns, size: int) -> None:
    reader, output = os.pipe()
    writers = [writer(turns, output, name, 50, size) for name in (1, 2, 3)]
    os.close(output)
    with os.fdopen(reader, "rb") as pipe:
        found = [json.loads(line) for line in pipe]
    assert [one.wait() for one in writers] == [0, 0, 0]
    for name in (1, 2, 3):
        assert [line["line"] for line in found if line["of"] == name] == sorted([*range(50)] * 2)
    assert {len(line["rest"]) for line in found} == {size}


def broken_off(turns: WriteTurns, path: Path) -> subprocess.Popen[bytes]:
    """Begin a process that holds its turn within a line."""
    command = [sys.executable, "-c", BREAKS_OFF, str(turns.number), str(path)]
    process = subprocess.Popen(command, pass_fds=[turns.number], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    return process


def test_a_line_that_its_writer_died_in_is_ended_before_the_next_one(turns: WriteTurns, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with broken_off(turns, path) as process:
        log = turns.of(Descriptor.of_path(str(path)))
        with pytest.raises(BlockingIOError):
            log.write(b"whole\n")  # not its turn
        process.kill()
        process.wait()
        assert log.write(b"whole\n") == 6
        assert log.write(b"another\n") == 8
        log.close()
    assert path.read_bytes() == b'{"half":"\nwhole\nanother\n'


class Pieces(Descriptor):
    """Takes so many octets at a time, and none when there is no room."""

    room: list[int]

    def write(self, data: bytes) -> int:
        room = self.room.pop(0)
        if not room:
            raise BlockingIOError
        return super().write(data[:room])


def test_a_turn_lasts_until_the_line_is_whole_and_others_wait(turns: WriteTurns, tmp_path: Path) -> None:
    path = tmp_path / "log"
    pieces = Pieces.of_path(str(path))
    assert isinstance(pieces, Pieces)
    pieces.room = [4, 0, 4, 0]
    log = turns.of(pieces)
    assert log.write(b"a line\n") == 4
    with pytest.raises(BlockingIOError):
        log.write(b"ne\n")
    command = [sys.executable, "-c", WRITER, str(turns.number), "1", "7", "1", "1"]
    with path.open("ab") as output, subprocess.Popen(command, pass_fds=[turns.number], stdout=output) as other:
        threading.Event().wait(0.3)
        assert path.read_bytes() == b"a li"
        assert log.write(b"ne\n") == 3
        assert other.wait() == 0
    assert path.read_bytes() == b"a line\n" + b'{"of":7,"line":0,"rest":"x"}\n' * 2
    with pytest.raises(BlockingIOError):
        log.write(b"no room\n")
    assert turns.marked is False
    log.close()


def test_where_the_end_of_a_broken_line_has_no_room_nothing_is_written_yet(turns: WriteTurns, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with broken_off(turns, path) as process:
        process.kill()
    pieces = Pieces.of_path(str(path))
    assert isinstance(pieces, Pieces)
    pieces.room = [0, 1, 9]
    log = turns.of(pieces)
    with pytest.raises(BlockingIOError):
        log.write(b"whole\n")
    assert log.write(b"whole\n") == 6
    assert log.is_at(str(path))
    log.close()
    assert path.read_bytes() == b'{"half":"\nwhole\n'


def test_a_line_that_is_given_up_leaves_its_mark_for_the_next_writer(turns: WriteTurns, tmp_path: Path) -> None:
    path = tmp_path / "log"
    pieces = Pieces.of_path(str(path))
    assert isinstance(pieces, Pieces)
    pieces.room = [4]
    given_up = turns.of(pieces)
    assert given_up.write(b"a line\n") == 4
    given_up.close()
    log = turns.of(Descriptor.of_path(str(path)))
    log.write(b"a line\n")
    log.close()
    assert path.read_bytes() == b"a li\na line\n"
