"""Where a test may listen: a port that nobody has, nor gets before the test listens on it.

Enters: nothing. Leaves: a port of loopback, below those that systems give to connections (32768 and up on Linux), of
which suites side by side open thousands. Each port is locked for the process that got it, as one byte of a file, until
that ends: what it starts needs a while to listen.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

_given: set[int] = set()  # the lock keeps others away, not this process


def free_port() -> int:
    """Find a port that nobody listens on or will. Raises ``OSError`` when a thousand were tried in vain."""
    for port in random.sample(range(20_000, 32_000), 1000):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise OSError("no port of loopback is free")


def _is_free(port: int) -> bool:
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


@cache
def _locks() -> int:
    """Open the file of the locks, for as long as this process runs."""
    path = Path(tempfile.gettempdir()) / f"vllm-gateway-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
