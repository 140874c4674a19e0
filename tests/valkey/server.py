"""A server of Valkey or Redis for a test, on a socket of its own, without persistence."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from tests.free_port import free_port

if TYPE_CHECKING:
    from pathlib import Path


class Server:
    """One process, which can be stopped, started anew with nothing in memory, and made to hang."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found is None:
            message = "make test-valkey needs a server: apt-get install redis-server"
            raise RuntimeError(message)
        self._command = found
        self.path = str(folder / "valkey.sock")
        self.port = free_port()
        self.password = "a-password-of-the-tests"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                self._command, "--unixsocket", self.path, "--bind", "127.0.0.1", "--port", str(self.port),
                "--requirepass", self.password, "--save", "", "--appendonly", "no", "--daemonize", "no",
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(self.path)
                    probe.sendall(b"AUTH %b\r\nPING\r\n" % self.password.encode())
                    if probe.recv(64).startswith(b"+OK"):
                        return
            except OSError:
                time.sleep(0.02)
        message = "the server did not start"
        raise RuntimeError(message)

    def stop(self) -> None:
        """End it and all that it remembers."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        """Let it take connections and answer nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
