"""The real vLLM behind these tests: its process, what its own access log says, and what runs on it.

It listens on a Unix socket alone, as in a deployment where the gateway is the only way in, or on a port. Nothing here
goes through the gateway: this is the other witness.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "the-engine-key"
SCRIPT = Path(__file__).parent / "vllm_cpu.sh"
_ACCESS = re.compile(r'"([^" ]+) (\S+) HTTP/[0-9.]+" ([0-9]{3})')
_START_TIMEOUT_S = 300


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class RealEngine:
    """A running ``vllm serve``: one that generates, unless arguments or another command say what else it does.

    With ``port`` it listens there on loopback, in place of the socket.
    """

    def __init__(
        self, folder: Path, name: str, *arguments: str, command: str = "serve", port: int | None = None
    ) -> None:
        self.socket_path = folder / f"{name}.sock"
        self.port = port
        self.log = folder / f"{name}.log"
        where = ["--uds", str(self.socket_path)] if port is None else ["--host", "127.0.0.1", "--port", str(port)]
        listening = [*where, "--api-key", KEY]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [SCRIPT, command, *listening, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                # So one signal ends the engine and its workers. It gets no session of its own: Linux shares out the
                # cores among sessions (sched_autogroup), and there the busy waiting of its workers, who yield to nobody
                # else, made gateway and tests stand still for up to a second.
                process_group=0,
            )

    def wait_until_ready(self) -> None:
        """Wait until it answers; raises ``RuntimeError`` with the end of its log."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                if self.ask("GET", "/health")[0] == http.client.OK:
                    return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError("vLLM did not start:\n" + "\n".join(self.log.read_text().splitlines()[-30:]))

    def ask(self, method: str, target: str, body: bytes | None = None, key: str | None = None) -> tuple[int, bytes]:
        """Ask it directly, without a key if none is given; gives status and body."""
        headers = {"content-type": "application/json"} if body else {}
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        connection = (
            _OverSocket(self.socket_path)
            if self.port is None
            else http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        )
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def running(self) -> int:
        """Tell how many requests it works on, by its own metrics."""
        return self._metric("vllm:num_requests_running")

    def finished(self) -> int:
        """Tell how many requests it has brought to their end; those that were given up are not among them."""
        return self._metric("vllm:request_success_total")

    def generated(self) -> int:
        """Tell how many tokens it has produced."""
        return self._metric("vllm:generation_tokens_total")

    def found_while(self, ask: Callable[[], object]) -> int:
        """Tell how many tokens of prompts it finds in its prefix cache while something is asked."""
        before = self._metric("vllm:prefix_cache_hits_total")
        ask()
        if not self.idle_within(10):
            raise RuntimeError("vLLM does not come to rest")
        time.sleep(0.2)  # its counters follow the answer
        return self._metric("vllm:prefix_cache_hits_total") - before

    def _metric(self, name: str) -> int:
        metrics = self.ask("GET", "/metrics")[1].decode()
        found = re.findall(rf"^{name}\{{[^}}]*\}} ([0-9.e+]+)", metrics, re.MULTILINE)
        if not found:
            raise RuntimeError(f"vLLM's metrics do not tell {name}")
        return int(sum(map(float, found)))

    def idle_within(self, seconds: float) -> bool:
        """Tell whether it has nothing to do any more within a time."""
        deadline = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def mark(self) -> int:
        """Give a place in its log."""
        return self.log.stat().st_size

    def served_since(self, mark: int) -> list[tuple[str, str, int]]:
        """Give method, target and status of every request that its access log shows after a mark."""
        with self.log.open("rb") as log:
            log.seek(mark)
            text = log.read().decode(errors="replace")
        return [(method, target, int(status)) for method, target, status in _ACCESS.findall(text)]

    def kill(self) -> None:
        """End it at once, workers included, as a crash or the out-of-memory killer would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it in good order, or else at once; does nothing when it has ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
