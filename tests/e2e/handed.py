"""Begins the command with sockets that are bound already, as systemd does for a service with socket units.

Enters: numbers of descriptors, then the command's arguments behind ``--``. Leaves: the command in this very process,
which finds its sockets from number 3 on.
"""

from __future__ import annotations

import os
import sys

FIRST = 3


def main(arguments: list[str]) -> None:
    """Become the command."""
    numbers, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    held = [os.dup2(int(number), 100 + place) for place, number in enumerate(numbers)]  # out of the way of each other
    for place, number in enumerate(held):
        os.dup2(number, FIRST + place)
    handed = {"LISTEN_FDS": str(len(held)), "LISTEN_PID": str(os.getpid())}
    os.execve(sys.executable, [sys.executable, "-m", "gateway", *command], {**os.environ, **handed})  # noqa: S606  (that is the point)


if __name__ == "__main__":
    main(sys.argv[1:])
