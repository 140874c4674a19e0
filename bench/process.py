"""Processes on a core of their own, and what they and their descendants use (from /proc; zero without a process)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def start(core: int, command: list[str], **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
    """Start a process that stays on one core."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})  # a child inherits it
    try:
        return subprocess.Popen(command, **options)
    finally:
        os.sched_setaffinity(0, ours)


def tree(pid: int) -> list[int]:
    """Give a process and its descendants."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    return found


def cpu(pid: int | None) -> float:
    """Give the seconds on a core so far, exact to the nanosecond; what ended threads used is not in it."""
    used = 0
    for p in tree(pid) if pid else []:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{p}/task").iterdir():
                used += int((task / "schedstat").read_text().split()[0])
    return used / 1e9


def rss(pid: int | None) -> int:
    """Give the bytes in memory."""
    used = 0
    for p in tree(pid) if pid else []:
        with contextlib.suppress(OSError):
            used += int(Path(f"/proc/{p}/statm").read_text().split()[1]) * PAGE
    return used


def core_busy(core: int) -> float:
    """Give the seconds that a core was not idle so far, whoever used it; what the hypervisor took counts too."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            ticks = [int(x) for x in fields[:8]]
            return (sum(ticks) - ticks[3] - ticks[4]) / TICK
    return 0.0


def settle(pid: int) -> bool:
    """Wait up to 20 s until a process is idle: the next to be measured must not pay for its backlog."""
    for _ in range(250):
        before = cpu(pid)
        time.sleep(0.08)
        if cpu(pid) - before < 0.01:
            return True
    return False


def kill(pids: list[int]) -> None:
    """End processes at once."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
