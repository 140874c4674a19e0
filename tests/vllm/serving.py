"""A gateway as an operator starts it: ``vllm-gateway serve`` with settings in its environment, on a free port."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import orjson

from tests.free_port import free_port

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_START_TIMEOUT_S = 20


class Serving:
    """A running gateway in front of one engine or more: ``engine`` is the URLs of ``main``, ``others`` of others."""

    def __init__(
        self, folder: Path, policy: Path, *, engine: str, engine_key: str, jwks_url: str, **others: str
    ) -> None:
        folder.mkdir()
        self.address = ("127.0.0.1", free_port())
        self.host = f"127.0.0.1:{self.address[1]}"
        self.audit = folder / "audit.jsonl"
        self.log = folder / "gateway.log"
        self.ops = ("127.0.0.1", free_port())
        settings = {
            "GATEWAY_POLICIES": str(policy),
            "GATEWAY_LISTENERS__PUBLIC": self.host,
            "GATEWAY_LISTENERS__OPS": f"127.0.0.1:{self.ops[1]}",
            **{f"GATEWAY_ENGINES__{name.upper()}__URLS": urls for name, urls in ({"main": engine} | others).items()},
            **{f"GATEWAY_ENGINES__{name.upper()}__API_KEY": engine_key for name in ("main", *others)},
            "GATEWAY_ISSUERS__CORP__JWKS_URL": jwks_url,
            "GATEWAY_AUDIT_LOG": str(self.audit),
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "serve"],
                env=inherited | settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait_until_open()

    @property
    def url(self) -> str:
        """The base URL that an OpenAI SDK is given."""
        return f"http://{self.host}/v1"

    def records(self, **facts: object) -> list[dict[str, Any]]:
        """Give the audit records so far that state some facts."""
        records = [
            orjson.loads(line) for line in self.audit.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"
        ]
        return [record for record in records if facts.items() <= record.items()]

    def record(self, request_id: str) -> dict[str, Any]:
        """Give the record of an answer, which may be written a moment after it."""
        deadline = time.monotonic() + 5
        while not (found := self.records(id=request_id)):
            if time.monotonic() > deadline:
                raise LookupError(f"no audit record has the id {request_id}")
            time.sleep(0.01)
        return found[0]

    def stop(self) -> int:
        """End it in good order and give its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def _wait_until_open(self) -> None:
        """Wait until it listens and has tried its engine, which it may have found refusing."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(self.address, 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                if re.search("engine is (not )?ready", self.log.read_text()):
                    return
                time.sleep(0.05)
        self.process.kill()
        raise RuntimeError("the gateway did not start:\n" + self.log.read_text())
