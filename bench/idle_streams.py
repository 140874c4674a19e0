"""Memory of a stream that waits: ``python bench/idle_streams.py [clients]`` (1,000 clients of ten streams; a minute).

Each stream has had one token and then nothing. First before the edge and the relay alone, then before the gateway,
where each client has a token of its own and every kind of limit. Printed is what a stream adds to the resident memory,
from the first hundred on, and the difference. A process needs two descriptors for a stream: with fewer than 20,100
(``ulimit -n``) there are fewer clients, and it says so.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import select
import shutil
import socket
import sys
import time
import tomllib
from typing import TYPE_CHECKING, Any

import keys
import process
import run
from joserfc import jwk, jwt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

STREAMS = 10
FEW = 10  # clients, whose streams are open before the first look
AT_ONCE = 100
SPARE = 100  # descriptors that are no stream's
GOAL_KB = 30
LIMITS = "{requests_per_minute: 600, concurrent_requests: 20, tokens_per_minute: 100000, tokens_per_day: 10000000}"
BODY = json.dumps(
    {
        "model": "local",
        "messages": [{"role": "user", "content": "x" * 400}],
        "max_tokens": 64,
        "seed": -1,
        "stream": True,
    }
).encode()


def tokens(folder: Path, clients: int) -> list[str]:
    """Put a key set into a folder, and give a token for each client."""
    key = jwk.RSAKey.generate_key(2048, parameters={"kid": "idle"})
    public = key.as_dict(private=False) | {"alg": "RS256", "use": "sig"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
    now = int(time.time())
    claims = {"iss": keys.ISSUER, "aud": keys.AUDIENCE, "iat": now, "nbf": now, "exp": now + 3600}
    header = {"alg": "RS256", "kid": "idle", "typ": "at+jwt"}
    return [
        jwt.encode(header, claims | {"sub": name, "client_id": name, "azp": name, "jti": secrets.token_hex(16)}, key)
        for name in map(client, range(clients))
    ]


def client(number: int) -> str:
    """Name a client."""
    return f"client-{number:04}"


def policy(text: str, clients: int) -> str:
    """Give the policy of the benchmark with so many clients more, each with every kind of limit."""
    names = [client(number) for number in range(clients)]
    granted = "".join(f"  {n}: {{is: {{corp: {n}}}, may: [chat], models: [local], limits: counted}}\n" for n in names)
    who = "".join(f"    {n}: {{client: {n}}}\n" for n in names)
    ask = "ask: POST /v1/chat/completions, body: {model: local, messages: []}, permit: {}"
    cases = "".join(f"    - {{name: {n} may chat, who: {n}, {ask}}}\n" for n in names)
    for line, more in (("limits:\n", f"  counted: {LIMITS}\n"), ("clients:\n", granted), ("  who:\n", who)):
        text = text.replace(f"\n{line}", f"\n{line}{more}", 1)
    return text.replace("  expect:\n", f"  expect:\n{cases}", 1)


def opened(port: int, credentials: Sequence[str]) -> Iterator[socket.socket]:
    """Open streams, some at a time, and give each when its first token has come."""
    for start in range(0, len(credentials), AT_ONCE):
        waiting: dict[socket.socket, bytes] = {}
        for credential in credentials[start : start + AT_ONCE]:
            connection = socket.create_connection(("127.0.0.1", port))
            head = (
                f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nuser-agent: bench\r\n"
                f"authorization: Bearer {credential}\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}"
            )
            connection.sendall(head.encode() + b"\r\n\r\n" + BODY)
            waiting[connection] = b""
        poller = select.poll()
        by_number = {connection.fileno(): connection for connection in waiting}
        for number in by_number:
            poller.register(number, select.POLLIN)
        while waiting:
            ready = poller.poll(60_000)
            if not ready:
                raise RuntimeError(f"{len(waiting)} streams did not begin")
            for number, _ in ready:
                connection = by_number[number]
                said = waiting[connection] = waiting[connection] + connection.recv(65536)
                if b'"content":"T' in said:
                    poller.unregister(number)
                    del waiting[connection]
                    yield connection
                elif not said.startswith(b"HTTP/1.1 200"[: len(said)]) or not said:
                    raise RuntimeError(said.decode(errors="replace"))


def free_port() -> int:
    """Find a port that nobody listens on: other measurements may run beside this one, which takes no time."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bytes_for_each(candidate: run.Candidate, credentials: Sequence[str]) -> float:
    """Open all streams and give the bytes of resident memory that each has added behind the first few."""
    few = FEW * STREAMS
    streams = list(opened(candidate.port, credentials[:few]))
    time.sleep(2)
    before = process.rss(candidate.pid)
    streams += opened(candidate.port, credentials[few:])
    time.sleep(2)
    grown = process.rss(candidate.pid) - before
    still = process.rss(candidate.pid), len(streams)
    for stream in streams:
        stream.close()
    print(f"{candidate.name}: {still[1]} streams, {still[0] / 2**20:.0f} MiB in all")
    return grown / (len(credentials) - few)


def candidate(name: str, table: dict[str, Any], values: dict[str, str], **more: str) -> run.Candidate:
    """Give one of those that are measured."""
    made = run.Candidate(name, table, values)
    made.env |= more
    return made


def main() -> int:
    """Measure both. Status 1 when a stream costs more than it should."""
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if clients > (most := (hard - SPARE) // (2 * STREAMS)):
        print(f"{hard} descriptors are enough for {most} clients, not {clients}")
        clients = most
    run.build()
    folder = run.OUT / "idle"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    credentials = [token for token in tokens(folder, clients) for _ in range(STREAMS)]
    (folder / "policy.yaml").write_text(policy((run.BENCH / "conf" / "gateway.yaml").read_text(), clients))
    engine_port, run.ISSUER_PORT, ops = free_port(), free_port(), free_port()
    values = {
        "out": str(run.OUT),
        "token": credentials[0],
        "engine": f"127.0.0.1:{engine_port}",
        "issuer": f"http://127.0.0.1:{run.ISSUER_PORT}",
        "python": sys.executable,
    }
    bare = {"command": f"{{python}} {run.BENCH}/bare_relay.py {{port}} {engine_port}", "port": free_port()}
    gateway = tomllib.loads((run.BENCH / "candidates.toml").read_text())["gateway"]
    gateway["port"] = free_port()
    patient = {f"GATEWAY_DEADLINES__{name}": f"{time}s" for name, time in (("IDLE", 600), ("TOTAL", 900))}
    paths = {"GATEWAY_POLICIES": str(folder / "policy.yaml"), "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl")}
    patient["GATEWAY_LISTENERS__OPS"] = f"127.0.0.1:{ops}"
    group = [
        candidate("bare", bare, values),
        candidate("gateway", gateway, values, **paths, **patient),
    ]
    engine = process.start(0, [str(run.BIN / "engine"), str(engine_port)])
    issuer = run.serve_keys(folder)
    told = {}
    try:
        for one in group:
            one.warm_up = 120
            try:
                one.start(max(os.sched_getaffinity(0)))
                one.check()
                told[one.name] = bytes_for_each(one, credentials) / 1000
            finally:
                one.stop()
    finally:
        engine.terminate()
        engine.wait()
        issuer.shutdown()
    above = told["gateway"] - told["bare"]
    print(f"KB for each stream: {told['bare']:.1f} bare, {told['gateway']:.1f} with everything, {above:.1f} above it")
    return int(above >= GOAL_KB)


if __name__ == "__main__":
    sys.exit(main())
