"""Two engines in processes of their own, and a gateway in front of them.

Enters: a policy, and settings that differ from the usual. Leaves: ``Two``, with which a test asks the gateway and looks
at what reached each engine since its last start.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from gateway.simulator.record import read
from tests.e2e.raw_http import Connection, NotHttp, ask, request
from tests.e2e.site import CHAT, HOST, command
from tests.free_port import free_port
from tests.small_house import KEY, POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gateway.simulator.record import Recorded

TOKENS = 8
TWO_MODELS = POLICY.replace(
    "\nmodels:\n", "\nmodels:\n  other: {engine: second, served_as: org/other, most_tokens: 256}\n"
).replace("    models: [local", "    models: [other, local")


@dataclass
class Engine:
    """A simulator in a process of its own; each start has a record of its own."""

    folder: Path
    port: int
    model: str = "local"
    key: str | None = None
    latency: str = "0.01"
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def requests(self) -> list[Recorded]:
        """What has reached this start."""
        record = self.folder / f"{self.port}-{self.starts}.jsonl"
        return read(record) if record.exists() else []

    @property
    def asked(self) -> list[Recorded]:
        """Of that, what some caller caused."""
        return [seen for seen in self.requests if not seen.own_traffic]

    def start(self) -> None:
        self.starts += 1
        record = self.folder / f"{self.port}-{self.starts}.jsonl"
        options = ["--port", str(self.port), "--served-model-name", self.model, "--latency", self.latency]
        if self.key is not None:
            options += ["--api-key", self.key]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gateway.simulator", *options, "--tokens", str(TOKENS), "--record", str(record)],
            stdout=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """End it as the kernel would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@dataclass
class Two:
    """A gateway in front of two engines."""

    address: tuple[str, int]
    ops: tuple[str, int]
    engines: list[Engine]
    folder: Path
    process: subprocess.Popen[bytes]
    settings: Mapping[str, str]

    def chat(self, **body: object) -> tuple[int, dict[str, Any], str, str | None]:
        """Chat; give status, last object, id and reason. A stream that breaks gives its error event."""
        asked = {"model": "local", "messages": [{"role": "user", "content": "hi"}], **body}
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        data = request(CHAT, f"{HOST}:{self.address[1]}", method="POST", headers=headers, body=orjson.dumps(asked))
        answer = ask(self.address, data)
        whole = orjson.loads(answer.body)
        return answer.status, whole, answer.value("x-request-id") or "", answer.value("proxy-status")

    def stream(self) -> bool:
        """Stream a chat; tell whether it came to its end. Its failure must be an event with a reason."""
        asked = {"model": "local", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        data = request(CHAT, f"{HOST}:{self.address[1]}", method="POST", headers=headers, body=orjson.dumps(asked))
        try:
            answer = ask(self.address, data)
        except NotHttp:
            return False
        if answer.status == 200:
            return answer.body.rstrip().endswith(b"[DONE]")
        assert orjson.loads(answer.body)["error"]["code"].startswith("engine-")
        return False

    @contextlib.contextmanager
    def open_stream(self) -> Iterator[Connection]:
        """Begin a stream; give its connection behind the first chunk."""
        asked = {"model": "local", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        data = orjson.dumps(asked)
        with Connection(self.address, timeout=20.0) as connection:
            connection.send(request(CHAT, f"{HOST}:{self.address[1]}", method="POST", headers=headers, body=data))
            assert connection.head().status == 200
            next(connection.chunks())
            yield connection

    def name(self, number: int) -> str:
        """Give the name of the only replica of an engine of its own: its address, as it was set."""
        return list(self.settings.values())[number]

    def replicas(self, engine: str = "main") -> dict[str, dict[str, Any]]:
        report = ask(self.ops, request("/readyz", f"{HOST}:{self.ops[1]}")).json
        found: dict[str, dict[str, Any]] = report["planes"]["demo"]["engines"][engine]["replicas"]
        return found

    def state(self, replica: str, engine: str = "main") -> str:
        """Give what is told of a replica; nothing while the gateway does not answer yet."""
        with contextlib.suppress(OSError):
            return str(self.replicas(engine)[replica]["state"])
        return ""

    def ready(self, number: int) -> bool:
        with contextlib.suppress(OSError, KeyError):
            return bool(self.replicas()[self.engines[number].url]["ready"])
        return False

    def log(self) -> str:
        return (self.folder / "gateway.log").read_text("utf-8")

    def records(self) -> Counter[tuple[str, str]]:
        lines = (self.folder / "audit.jsonl").read_bytes().splitlines()
        return Counter((record["verdict"], record["outcome"]) for record in map(orjson.loads, lines))


@contextlib.contextmanager
def two(
    folder: Path,
    policy: str = POLICY,
    *,
    models: tuple[str, str] = ("local", "local"),
    key: str | None = None,
    latency: str = "0.01",
    **settings: str,
) -> Iterator[Two]:
    """Run two engines and a gateway; without further settings both are replicas of the engine ``main``.

    ``{0}`` and ``{1}`` in a setting are the engines' URLs. ``key``: what the second engine asks for.
    """
    engines = [
        Engine(folder, free_port(), models[0], None, latency),
        Engine(folder, free_port(), models[1], key, latency),
    ]
    public, ops = free_port(), free_port()
    (folder / "policies").mkdir()
    (folder / "policies" / "demo.yaml").write_text(policy.replace("600", "60000"), "utf-8")
    urls = settings or {"ENGINES__MAIN__URLS": ",".join(engine.url for engine in engines)}
    environment = {
        "GATEWAY_POLICIES": str(folder / "policies"),
        "GATEWAY_LISTENERS__PUBLIC": f"{HOST}:{public}",
        "GATEWAY_LISTENERS__OPS": f"{HOST}:{ops}",
        "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
        **{f"GATEWAY_{name}": value.format(*(engine.url for engine in engines)) for name, value in urls.items()},
    }
    try:
        for engine in engines:
            engine.start()
        with command(folder / "gateway.log", environment) as process:
            yield Two((HOST, public), (HOST, ops), engines, folder, process, urls)
    finally:
        for engine in engines:
            if engine.process is not None:
                engine.kill()
