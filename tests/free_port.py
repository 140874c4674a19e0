"""Where a test may listen: a port that nobody has, nor gets before the test listens on it.

Enters: nothing. Leaves: a port of loopback, below those that systems give to connections (32768 and up on Linux), of
which two suites side by side open thousands.
"""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Find a port that nobody listens on. Raises ``OSError`` when a hundred were tried in vain."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port of loopback is free")
