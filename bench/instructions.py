"""Instructions of one plain request, counted by callgrind: a figure that other work on the machine does not change.

    python bench/instructions.py [requests]        about half a minute; needs valgrind
    callgrind_annotate bench/out/callgrind.*.1     where they went, by function of the interpreter

The gateway runs as in ``run.py``, with the interpreter that runs this. Start-up and warm-up are not counted, and what
the kernel does is never seen. What the gateway does by itself meanwhile is counted afterwards, for as long, and taken
off: on a busy machine it was a tenth. OpenSSL finds no SHA instructions in valgrind's processor, so the hash of the
token counts some 20,000 instructions that a real one does not need.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from typing import TYPE_CHECKING

import keys
import run

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTIONS = 8
WARM_UP = 128  # requests; the interpreter adapts to what it runs often
BODY = b'{"model":"local","messages":[{"role":"user","content":"%b"}],"max_tokens":64,"temperature":0.7}' % (b"x" * 400)


def ask(connections: Sequence[socket.socket], request: bytes, times: int) -> None:
    """Send so many requests, one at a time on each connection, and read the answers."""
    answers, left = dict.fromkeys(connections, b""), times
    for connection in connections:
        connection.sendall(request)
    while left:
        for connection in select.select(connections, [], [], 60)[0]:
            answers[connection] += connection.recv(65536)
            head, end, body = answers[connection].partition(b"\r\n\r\n")
            length = re.search(rb"content-length: ([0-9]+)", head)
            if not end or length is None or len(body) < int(length[1]):
                continue
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            answers[connection], left = b"", left - 1
            if left >= len(connections):
                connection.sendall(request)


def control(process: subprocess.Popen[bytes], *arguments: str) -> None:
    """Tell callgrind what to do."""
    command = shutil.which("callgrind_control") or "callgrind_control"
    subprocess.run([command, *arguments, str(process.pid)], check=True, capture_output=True)


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    run.build()
    folder = keys.make()
    for old in run.OUT.glob("callgrind.*"):
        old.unlink()
    token = (folder / "rs256.jwt").read_text()
    engine, issuer = f"127.0.0.1:{run.ENGINE_PORT}", f"http://127.0.0.1:{run.ISSUER_PORT}"
    values = {"out": str(run.OUT), "token": token, "engine": engine, "issuer": issuer, "python": sys.executable}
    gateway = run.Candidate("gateway", tomllib.loads((run.BENCH / "candidates.toml").read_text())["gateway"], values)
    tool = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={run.OUT}/callgrind.%p"]
    gateway.command = ["valgrind", *tool, *gateway.command]
    os.environ["GATEWAY_ENGINES__MAIN__KEEP_ALIVE"] = "60s"
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{gateway.port}\r\nuser-agent: bench\r\naccept: */*\r\n"
    )
    fields = f"authorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
    request = (head + fields).encode() + BODY
    served = subprocess.Popen([run.BIN / "engine", str(run.ENGINE_PORT)])
    keys_served = run.serve_keys(folder)
    try:
        gateway.start(max(os.sched_getaffinity(0)))
        gateway.warm_up = 120
        gateway.check()
        process = gateway.process
        if process is None:
            raise RuntimeError("the gateway was not started")
        connections = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(CONNECTIONS)]
        ask(connections, request, WARM_UP)
        control(process, "-i", "on")
        ask(connections, request, CONNECTIONS)
        control(process, "-z")
        begun = time.monotonic()
        ask(connections, request, times)
        control(process, "-d")
        time.sleep(time.monotonic() - begun)
        control(process, "-d")
        time.sleep(1)
    finally:
        gateway.stop()
        served.terminate()
        served.wait()
        keys_served.shutdown()
    asked, idle = counted(1), counted(2)
    print(f"{(asked - idle) / times:,.0f} instructions for each request, and {idle / times:,.0f} of the process itself")


def counted(part: int) -> int:
    """Give the instructions of one part of the run."""
    (file,) = run.OUT.glob(f"callgrind.*.{part}")
    total = re.search(r"^(?:totals|summary): (\d+)", file.read_text(errors="replace"), re.MULTILINE)
    if total is None:
        raise RuntimeError(f"{file} has no total")
    return int(total[1])


if __name__ == "__main__":
    main()
