"""What a flood of failing tokens does to the callers whose tokens hold: ``python bench/flood.py`` (a minute).

A caller sends 200 requests a second by schedule. In every second round, others send 1,000 distinct tokens a second that
do not hold: half of them noise, half well-formed with a signature that does not fit. Printed is the caller's 99th
percentile of both, round by round, and the median of their ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import resource
import secrets
import statistics
import sys
import threading
import time
import tomllib

import keys
import process
import run

RATE = 1000  # tokens a second
CONNECTIONS = 8
LOAD = ["-m", "ns", "-c", "50", "-r", "200", "-d", "6.0", "-w", "1.0"]


def failing_token(model: str) -> str:
    """Give a token of the same header and claims whose signature is noise, or noise alone."""
    if secrets.randbits(1):
        return secrets.token_urlsafe(300)
    head, claims, _ = model.split(".")
    return f"{head}.{claims}.{base64.urlsafe_b64encode(secrets.token_bytes(256)).rstrip(b'=').decode()}"


async def flood(port: int, model: str, seconds: float) -> dict[int, int]:
    """Send failing tokens at the rate; give how many got which status."""
    os.nice(19)  # of this thread alone: the caller, whose times are taken, goes first on their core
    answers: dict[int, int] = {}
    body = json.dumps({"model": "local", "messages": [{"role": "user", "content": "hi"}]}).encode()

    async def connection(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        begun = time.monotonic()
        sent = 0
        while (now := time.monotonic() - begun) < seconds:
            due = (sent + number / CONNECTIONS) * CONNECTIONS / RATE
            if now < due:
                await asyncio.sleep(due - now)
                continue
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
                b"authorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b"
                % (port, failing_token(model).encode(), len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            status = int(head[9:12])
            answers[status] = answers.get(status, 0) + 1
            sent += 1
            if b"\r\nconnection: close" in head:
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    await asyncio.gather(*(connection(number) for number in range(CONNECTIONS)))
    return answers


def p99_us(candidate: run.Candidate, core: int, *, flooded: bool, model: str) -> tuple[float, dict[int, int]]:
    """Measure one round."""
    load = run.start_load(candidate, LOAD, core)
    answers: dict[int, int] = {}
    if flooded:
        thread = threading.Thread(target=lambda: answers.update(asyncio.run(flood(candidate.port, model, 5.5))))
        thread.start()
        thread.join()
    out, _ = load.communicate(timeout=60)
    result = json.loads(out)
    if result["errs"]:
        sys.exit(f"{result['errs']} requests of the caller failed")
    return float(result["lat_p99"]), answers


def main() -> None:
    """Measure both in turn and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--load-core", type=int, default=0)
    parser.add_argument("--gateway-core", type=int, default=1)
    a = parser.parse_args()
    run.build()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = keys.make()
    token = (folder / "rs256.jwt").read_text()
    values = {
        "out": str(run.OUT),
        "keys": str(folder),
        "python": sys.executable,
        "engine": f"127.0.0.1:{run.ENGINE_PORT}",
        "issuer": f"http://127.0.0.1:{run.ISSUER_PORT}",
        "token": token,
        "api_key": (folder / "api.key").read_text(),
    }
    entry = tomllib.loads((run.BENCH / "candidates.toml").read_text())["gateway"]
    candidate = run.Candidate("gateway", entry, values)
    engine = process.start(a.load_core, [str(run.BIN / "engine"), str(run.ENGINE_PORT)])
    issuer = run.serve_keys(folder)
    os.sched_setaffinity(0, {a.load_core})
    try:
        candidate.start(a.gateway_core)
        candidate.check()
        ratios = []
        for number in range(1, a.rounds + 1):
            quiet, _ = p99_us(candidate, a.load_core, flooded=False, model=token)
            flooded, answers = p99_us(candidate, a.load_core, flooded=True, model=token)
            ratios.append(flooded / quiet)
            told = ", ".join(f"{count} times {status}" for status, count in sorted(answers.items()))
            print(f"round {number}: p99 {quiet:.0f} µs alone, {flooded:.0f} µs beside the flood ({told})", flush=True)
        print(f"median of the ratios: {statistics.median(ratios):.2f} (goal: at most 1.20)")
    finally:
        candidate.stop()
        engine.terminate()
        engine.wait()
        issuer.shutdown()


if __name__ == "__main__":
    main()
