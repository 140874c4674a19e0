"""``vllm-gateway demo``: the whole thing on one machine, without a model.

Enters: nothing but free loopback ports. Leaves: an engine simulator with development mode on, this gateway before it
(the real ``serve``, in a process of its own), a fresh key, and a text that shows what goes through and what does not.
It stays until it is interrupted.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.review.key import new_key
from gateway.simulator.record import read
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

_HOST = "127.0.0.1"
_PORTS = range(12_000, 20_000)
"""Below those that systems give to connections, and that tests of ours take."""

_SOCKETS = 3
_START_S = 30.0
_STOP_S = 10.0
_POLL_S = 0.05
_NO_KEY = "0" * 64
_OK, _NOT_FOUND = 200, 404
_JSON = {"Content-Type": "application/json"}
_CHAT = {"model": "local", "messages": [{"role": "user", "content": "hi"}]}
_ATTEMPTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/invocations", _CHAT),
    ("/sleep", {}),
    ("/collective_rpc", {"method": "save_sharded_state"}),
)


_Ports = tuple[int, int, int]  # of planes, of operations, of the engine


class DemoFailed(Exception):  # noqa: N818  (says what is so)
    """A process of the demo did not come up; the text is a sentence."""


class _Interrupted(Exception):  # noqa: N818  (as above)
    """Somebody ended the demo before it was up."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo: ports on loopback, the key, and the folder with policy, records and logs."""

    gateway: int
    engine: int
    key: str
    folder: Path

    @property
    def url(self) -> str:
        """The gateway's URL."""
        return f"http://{_HOST}:{self.gateway}"

    @property
    def reached(self) -> int:
        """How many requests reached the engine that a caller caused."""
        return sum(not seen.own_traffic for seen in read(self.folder / "engine.jsonl"))


def run(out: TextIO, *, port: int = 0, once: bool = False) -> int:
    """Show the demo. Gives 0, or 1 when it did not hold: something went through, or ended. Raises ``DemoFailed``."""
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM):
            previous = signal.signal(number, lambda *_: stop.set())
            stack.callback(signal.signal, number, previous)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vllm-gateway-demo-")))
        try:
            demo, alive = stack.enter_context(_running(folder, _free_ports(port), stop))
        except _Interrupted:
            return 0
        holds = show(demo, out)
        while not once and alive() and not stop.wait(_POLL_S):
            pass
        return 0 if holds and alive() else 1


def policy(sha256: str) -> str:
    """Give the demo's policy for one key."""
    text = Path(__file__).with_name("demo.yaml").read_text(encoding="utf-8")
    return text.replace(_NO_KEY, sha256)


@contextlib.contextmanager
def _running(folder: Path, ports: _Ports, stop: threading.Event) -> Iterator[tuple[Demo, Callable[[], bool]]]:
    """Run engine and gateway within this block; with them comes a way to ask whether they still run."""
    key = new_key("visitor", secrets.token_bytes(24))
    engine_key = secrets.token_urlsafe(24)
    (folder / "policy.yaml").write_text(policy(key.sha256), encoding="utf-8")
    public, ops, engine = ports
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    settings = {
        "GATEWAY_POLICIES": str(folder / "policy.yaml"),
        "GATEWAY_LISTENERS__PUBLIC": f"{_HOST}:{public}",
        "GATEWAY_LISTENERS__OPS": f"{_HOST}:{ops}",
        "GATEWAY_ENGINES__MAIN__URLS": f"http://{_HOST}:{engine}",
        "GATEWAY_ENGINES__MAIN__API_KEY": engine_key,
        "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
    }
    with contextlib.ExitStack() as stack:
        begin = stack.enter_context
        simulator = begin(_process(folder / "engine.log", _engine(engine, engine_key, folder), environment))
        gateway = begin(_process(folder / "gateway.log", ["gateway", "serve"], {**environment, **settings}))
        deadline = time.monotonic() + _START_S
        while not _answers(engine, "/health") or not _answers(ops, "/readyz"):
            engine_ended = simulator.poll() is not None
            if engine_ended or gateway.poll() is not None or time.monotonic() > deadline:
                name = "engine" if engine_ended else "gateway"
                said = (folder / f"{name}.log").read_text(encoding="utf-8").strip().splitlines()
                raise DemoFailed(f"The {name} did not start: {said[-1] if said else 'it said nothing'}")
            if stop.wait(_POLL_S):
                raise _Interrupted
        yield Demo(public, engine, key.key, folder), lambda: gateway.poll() is None and simulator.poll() is None


def _engine(port: int, key: str, folder: Path) -> list[str]:
    """Give the command of the engine; a key in an argument of its own would be an option if it began with a dash."""
    record = str(folder / "engine.jsonl")
    return ["gateway.simulator", "--port", str(port), f"--api-key={key}", "--latency", "0.05", "--record", record]


@contextlib.contextmanager
def _process(log: Path, arguments: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module of ours in a process that ends with this block; an interrupt at the terminal is ours to pass on."""
    with log.open("wb") as said:
        process = subprocess.Popen(  # noqa: S603  (our own modules)
            [sys.executable, "-m", *arguments], env=environment, stdout=said, stderr=said, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def show(demo: Demo, out: TextIO) -> bool:
    """Ask what is permitted and what is not, and show the answers; tell whether all was as it must be."""

    def say(text: str = "") -> None:
        out.write(f"{text}\n")
        out.flush()

    say(demo.url)
    say("is the gateway. Behind it is an engine that does whatever it is asked. The only key, while this demo runs:")
    say(f"  {demo.key}")
    say()
    say("A chat with the key goes through. The answer as it streams:")
    out.write("  ")
    holds = _streamed(demo, out)
    say()
    say()
    say("These do not exist for anyone outside, although the engine itself serves them without asking for a key:")
    before = demo.reached
    for path, body in _ATTEMPTS:
        status, answer = _post(demo.gateway, path, body, {"Authorization": f"Bearer {demo.key}"})
        holds = holds and status == _NOT_FOUND
        say(f"  POST {path} -> {status} {answer}")
    reached = demo.reached - before
    say(f"Of these {len(_ATTEMPTS)} requests, {reached} reached the engine. Past the gateway it would have answered:")
    status, _ = _post(demo.engine, "/invocations", _CHAT, {})
    say(f"  POST http://{_HOST}:{demo.engine}/invocations, without a key -> {status}")
    say()
    say("To paste:")
    for line in commands(demo):
        say(f"  {line}")
    say()
    say(f"The audit log is {demo.folder / 'audit.jsonl'}, the policy {demo.folder / 'policy.yaml'}.")
    say("Ctrl-C ends the demo.")
    return holds and reached == 0


def commands(demo: Demo) -> list[str]:
    """Give the same requests as lines for a shell."""
    key = f"-H 'Authorization: Bearer {demo.key}'"
    json = "-H 'Content-Type: application/json'"
    chat = strict_json.dumps(_CHAT).decode()
    stream = strict_json.dumps({**_CHAT, "stream": True}).decode()
    file = "-F 'file=RIFF;filename=a.wav;type=audio/wav'"
    response = strict_json.dumps({"model": "local", "input": "hi"}).decode()
    message = strict_json.dumps({**_CHAT, "max_tokens": 64}).decode()
    rank = strict_json.dumps({"model": "ranker", "query": "red fox", "documents": ["a dog", "a fox"]}).decode()
    return [
        f"curl -s {demo.url}/v1/chat/completions {key} {json} -d '{chat}'",
        f"curl -sN {demo.url}/v1/chat/completions {key} {json} -d '{stream}'",
        f"curl -s {demo.url}/v1/responses {key} {json} -d '{response}'",
        f"curl -s {demo.url}/v1/messages {key} {json} -d '{message}'",
        f"curl -s {demo.url}/v1/models {key}",
        f"curl -s {demo.url}/v1/rerank {key} {json} -d '{rank}'",
        f"curl -s {demo.url}/v1/audio/transcriptions {key} -F model=whisper {file}",
        f"curl -si {demo.url}/invocations {key} {json} -d '{chat}'",
    ]


def _streamed(demo: Demo, out: TextIO) -> bool:
    """Ask for a stream and write its text as it comes; tell whether it came to its end."""
    with contextlib.closing(http.client.HTTPConnection(_HOST, demo.gateway, timeout=_START_S)) as connection:
        body = strict_json.dumps({**_CHAT, "stream": True})
        connection.request("POST", "/v1/chat/completions", body, {**_JSON, "Authorization": f"Bearer {demo.key}"})
        response = connection.getresponse()
        for line in response:
            event = line.removeprefix(b"data: ").strip()
            if event == b"[DONE]":
                return True
            if event.startswith(b"{"):
                out.write(_text(strict_json.loads(event)))
                out.flush()
    return False


def _text(event: dict[str, Any]) -> str:
    """Take the text out of an event of a chat, or the whole of an error."""
    if "choices" not in event:
        return str(event)
    return "".join(choice["delta"].get("content") or "" for choice in event["choices"])


def _post(port: int, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, str]:
    with contextlib.closing(http.client.HTTPConnection(_HOST, port, timeout=_START_S)) as connection:
        connection.request("POST", path, strict_json.dumps(body), {**_JSON, **headers})
        response = connection.getresponse()
        return response.status, response.read().decode()


def _answers(port: int, path: str) -> bool:
    """Tell whether a server is up and content."""
    with contextlib.closing(http.client.HTTPConnection(_HOST, port, timeout=1)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().status == _OK
        except (OSError, http.client.HTTPException):
            return False


def _free_ports(wanted: int, among: range = _PORTS) -> _Ports:
    """Find three ports that nobody listens on, the first the wanted one if that is not 0. Raises ``DemoFailed``."""
    others = [port for port in random.sample(among, min(100, len(among))) if port != wanted]
    found: list[int] = []
    for port in [wanted, *others] if wanted else others:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError as error:
                if port == wanted:
                    raise DemoFailed(f"Port {port} cannot be used: {error.strerror}.") from None
                continue
        found.append(port)
        if len(found) == _SOCKETS:
            public, ops, engine = found
            return public, ops, engine
    raise DemoFailed(f"Of the ports from {among.start} to {among.stop - 1} hardly any is free.")
