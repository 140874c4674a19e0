"""Runs a program of this host that only tells something, such as ``nvidia-smi``.

Enters: its name and arguments, constants of ours. Leaves: whether it went well and what it wrote, or nothing where
there is no such program. No shell is between.
"""

from __future__ import annotations

import asyncio
import shutil

AT_MOST = 64 * 1024


async def told_by(program: str, *arguments: str, within_s: float = 10.0) -> tuple[bool, str] | None:
    """Run a program; ``None`` if this host does not have it."""
    path = shutil.which(program)
    if path is None:
        return None
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            path, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        return False, f"{program} cannot be run: {error.strerror}"
    try:
        async with asyncio.timeout(within_s):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return False, f"{program} gave no answer in {within_s:g} s"
    return process.returncode == 0, said[:AT_MOST].decode("utf-8", "replace")
