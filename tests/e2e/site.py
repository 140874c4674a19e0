"""The whole thing on loopback: the real command, a recording engine, an engine that does as told, and an issuer.

Enters: settings that differ from the usual. Leaves: ``Site``, with which a test asks the gateway and looks at what
reached the engine and what was recorded. The gateway is a process of its own; engines and issuer run in threads of the
test's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from anyio.from_thread import start_blocking_portal

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.raw_http import Answer, Connection, ask, request
from tests.free_port import free_port
from tests.simulators.issuer import Issuer
from tests.simulators.raw_engine import RawEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gateway.simulator.record import Recorded

HOST = "127.0.0.1"
ENGINE_KEY = "engine-key-that-nobody-outside-may-see"
REAL_MODEL = "org/real"
MOST_TOKENS = 64
BODY_LIMIT = 4 * 1024 * 1024
KEYS = {
    "KEY-ABCD": "ak_live_abcd",
    "KEY-ABC": "ak_live_abc",
    "KEY-FORMER": "ak_live_former",
    "KEY-BARRED": "ak_live_barred",
    "KEY-INSIDE": "ak_inside",
}
DEADLINES = {
    "HEAD": "2s",
    "BODY": "3s",
    "CONNECT": "1s",
    "FIRST_BYTE": "2s",
    "IDLE": "2s",
    "TOTAL": "20s",
    "DRAIN": "2s",
}
CHAT = "/v1/chat/completions"
MODELS = "/v1/models"
HI: Mapping[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@dataclass(slots=True, repr=False)
class Site:
    """Everything that runs, and how to ask it."""

    address: tuple[str, int]
    inside: tuple[str, int]
    ops: tuple[str, int]
    engine: EngineSimulator
    raw: RawEngine
    issuer: Issuer
    folder: Path
    process: subprocess.Popen[bytes]
    _read: int = 0
    _records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Give the address alone: what the engines saw is long, and Hypothesis shows every argument."""
        return f"Site({self.host})"

    @property
    def host(self) -> str:
        """What the Host field must say."""
        return f"{self.address[0]}:{self.address[1]}"

    def connect(self, timeout: float = 10.0) -> Connection:
        """Open a connection to the gateway."""
        return Connection(self.address, timeout=timeout)

    def ask(self, data: bytes, *, trickle: bool = False) -> Answer:
        """Send one request on a connection of its own."""
        return ask(self.address, data, trickle=trickle)

    def request(
        self,
        target: str = CHAT,
        method: str | None = None,
        *,
        token: str | None = "",
        body: object = None,
        fields: Mapping[str, str] | None = None,
    ) -> bytes:
        """Write a request with a good token, unless another or ``None`` is given; a body is JSON, if not ``bytes``."""
        headers = {} if token is None else {"Authorization": f"Bearer {token or self.issuer.token()}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        method = method or ("GET" if body is None else "POST")
        return request(target, self.host, method=method, headers={**headers, **(fields or {})}, body=data)

    def chat(self, *, token: str | None = "", fields: Mapping[str, str] | None = None, **body: object) -> Answer:
        """Ask for a chat."""
        return self.ask(self.request(token=token, body={**HI, **body}, fields=fields))

    def chat_inside(self, **body: object) -> Answer:
        """Ask for a chat on the lenient plane."""
        headers = {"Authorization": f"Bearer {KEYS['KEY-INSIDE']}", "Content-Type": "application/json"}
        data = orjson.dumps({**HI, "model": "gpt-4.1", **body})
        host = f"{self.inside[0]}:{self.inside[1]}"
        return ask(self.inside, request(CHAT, host, method="POST", headers=headers, body=data))

    def script(self, name: str, *, token: str = "", **body: object) -> bytes:
        """Write a chat by the tester that makes the raw engine play a script."""
        message = [{"role": "user", "content": f"script:{name}"}]
        token = token or self.issuer.token(client_id="cli-2")
        return self.request(token=token, body={"model": "raw", "messages": message, "stream": True, **body})

    def reached(self) -> list[Recorded]:
        """Give the requests that reached the engine and that a caller caused."""
        return [seen for seen in self.engine.requests if not seen.own_traffic]

    def records(self, request_id: str) -> list[dict[str, Any]]:
        """Give the audit records of one request; waits a little for the first."""
        wait(lambda: self._look().get(request_id), "an audit record")
        return self._look()[request_id]

    def record(self, answer: Answer) -> dict[str, Any]:
        """Give the one audit record of an answer."""
        (found,) = self.records(answer.value("x-request-id") or "")
        return found

    def log(self) -> str:
        """Give what the gateway said to its operator."""
        return (self.folder / "gateway.log").read_text("utf-8")

    def audit(self) -> bytes:
        """Give the whole audit log."""
        return (self.folder / "audit.jsonl").read_bytes()

    def metrics(self) -> str:
        """Give the gateway's metrics."""
        return ask(self.ops, request("/metrics", f"{self.ops[0]}:{self.ops[1]}")).body.decode()

    def memory(self) -> int:
        """Give the gateway's resident memory in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def nameless_files(self) -> list[str]:
        """Give the gateway's open files that have no name."""
        links = []
        for descriptor in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                links.append(str(descriptor.readlink()))
        return [link for link in links if link.endswith(" (deleted)")]

    def cpu(self) -> float:
        """Give the processor time that the gateway has used, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _look(self) -> dict[str, list[dict[str, Any]]]:
        with (self.folder / "audit.jsonl").open("rb") as log:
            log.seek(self._read)
            for line in log:
                if line.endswith(b"\n"):
                    self._read += len(line)
                    record = orjson.loads(line)
                    self._records.setdefault(record["id"], []).append(record)
        return self._records


def wait(condition: Callable[[], object], what: str, within: float = 5.0) -> None:
    """Wait until a condition holds, for a time in seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {within} s"
        time.sleep(0.01)


@contextlib.contextmanager
def running(
    folder: Path,
    edited: Callable[[str], str] = str,
    /,
    *,
    program: Sequence[str] = ("-m", "gateway"),
    policies: Sequence[str] = ("policy.yaml", "lenient.yaml"),
    **settings: str,
) -> Iterator[Site]:
    """Run everything within this block.

    ``settings`` are added to the gateway's, without their prefix; ``policies`` are files of this folder, for the
    listeners ``public`` and ``inside``; ``edited`` changes them.
    """
    with contextlib.ExitStack() as stack:
        begin = stack.enter_context
        portal = begin(start_blocking_portal())
        state = EngineState((REAL_MODEL,))
        engine = begin(portal.wrap_async_context_manager(EngineSimulator(state, api_key=ENGINE_KEY)))
        raw = begin(portal.wrap_async_context_manager(RawEngine()))
        issuer = begin(Issuer())
        public, inside, ops, down = (free_port() for _ in range(4))
        folder_of_policies = folder / "policies"
        folder_of_policies.mkdir()
        for name in policies:
            (folder_of_policies / name).write_text(edited(policy_text(name, issuer.url)), encoding="utf-8")
        environment = {
            "GATEWAY_POLICIES": str(folder_of_policies),
            "GATEWAY_LISTENERS__PUBLIC": f"{HOST}:{public}",
            "GATEWAY_LISTENERS__INSIDE": f"{HOST}:{inside}",
            "GATEWAY_LISTENERS__OPS": f"{HOST}:{ops}",
            "GATEWAY_ENGINES__MAIN__URLS": engine.url,
            "GATEWAY_ENGINES__MAIN__API_KEY": ENGINE_KEY,
            "GATEWAY_ENGINES__RAW__URLS": raw.url,
            "GATEWAY_ENGINES__RAW__API_KEY": ENGINE_KEY,
            "GATEWAY_ENGINES__DOWN__URLS": f"http://{HOST}:{down}",
            "GATEWAY_ISSUERS__CORP__JWKS_URL": issuer.jwks_url,
            "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
            "GATEWAY_LOG_LEVEL": "debug",
            **{f"GATEWAY_DEADLINES__{name}": value for name, value in DEADLINES.items()},
            **{f"GATEWAY_{name}": value for name, value in settings.items()},
        }
        process = begin(command(folder / "gateway.log", environment, program))
        site = Site((HOST, public), (HOST, inside), (HOST, ops), engine, raw, issuer, folder, process)
        ready = request("/readyz", f"{HOST}:{ops}")

        def up() -> bool:
            assert process.poll() is None, f"the gateway ended: {site.log()}"
            with contextlib.suppress(OSError):
                return ask(site.ops, ready).status == 200
            return False

        wait(up, "the gateway", 20.0)
        yield site


@contextlib.contextmanager
def command(
    log: Path, environment: Mapping[str, str], program: Sequence[str] = ("-m", "gateway")
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``serve``; it must end well when it is told to."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    with (
        log.open("wb") as said,
        subprocess.Popen(
            [sys.executable, *program, "serve"], env={**inherited, **environment}, stdout=said, stderr=said
        ) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert status == 0, f"ended with {status}: {log.read_text('utf-8')[-4000:]}"


def policy_text(name: str, issuer: str = "https://login.example") -> str:
    """Give a policy of this folder, for an issuer's URL."""
    text = Path(__file__).with_name(name).read_text("utf-8").replace("ISSUER", issuer)
    for placeholder, key in KEYS.items():
        text = text.replace(placeholder, sha256(key.encode()).hexdigest())
    return text
