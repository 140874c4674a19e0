"""Measure gateways side by side: all up at once, in turn A B C A B C, on one core, with engine and load on the other.

    make bench                                     the project against nginx and vllm-router, and the goals
    python bench/run.py gateway,haproxy_jwt ns64,p200 --rounds 5
    python bench/run.py --list

README.md says what each test is good for and how to read the tables.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import keys
import process
import report

BENCH = Path(__file__).resolve().parent
OUT, BIN, PEERS = BENCH / "out", BENCH / "bin", BENCH / "peers"
ENGINE_PORT, ISSUER_PORT = 9100, 9101
TESTS = {  # arguments of bin/load
    "rss1000": "-m st -c 1000 -n 100 -p 999999 -d 6 -w 4",
    "rss5000": "-m st -c 5000 -n 100 -p 999999 -d 15 -w 11",
    "ns64": "-m ns -c 64 -d 1.6 -w 0.4",
    "ns8": "-m ns -c 8 -d 1.4 -w 0.4",
    "ns_r200": "-m ns -c 50 -r 200 -d 2.0 -w 0.4",
    "ns100k": "-m ns -c 32 -b 100000 -d 2.0 -w 0.4",
    "st64": "-m st -c 64 -n 64 -d 1.8 -w 0.5",
    "st512": "-m st -c 512 -n 256 -d 2.4 -w 0.8",
    "p200": "-m st -c 200 -n 1000 -p 20000 -d 2.4 -w 0.8",
    "s200": "-m st -c 200 -n 1000 -p 1020000 -d 2.4 -w 0.8",
    "m200": "-m st -c 200 -n 1000 -p 200000 -d 2.8 -w 1.2",
    "t200": "-m st -c 200 -n 50 -p 20000 -d 2.6 -w 1.2",
    "p512": "-m st -c 512 -n 2000 -p 10000 -d 2.6 -w 1.0",
    "storm": "-m st -c 5000 -n 100 -p 999999 -d 15 -w 0 -1",
}
DEFAULT = "gateway,nginx,vllm_router,direct", "rss1000,ns64,st64,p200,s200,m200"
ONCE = ("rss1000", "rss5000", "storm")  # memory is told by the first run of a fresh process alone
FEW = "-m st -c 100 -n 100 -p 999999 -d 2.5 -w 2"  # what grows from these streams to many is the price of a stream


class Candidate:
    """One gateway: its process, and what a request to it needs."""

    def __init__(self, name: str, entry: dict[str, Any], values: dict[str, str]) -> None:
        self.name, self.port = name, int(entry["port"])
        self.values = {**values, "port": str(self.port), "conf": str(OUT / "conf" / name)}
        self.command = shlex.split(self.fill(entry.get("command", "")))
        self.headers = [self.fill(line) for line in entry.get("headers", [])]
        self.env = {key: self.fill(text) for key, text in entry.get("env", {}).items()}
        self.model: str = entry.get("model", "bench")
        self.package: str | None = entry.get("package")
        self.hint: str = entry.get("hint", "")
        self.warm_up: float = entry.get("warm_up", 30)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process that was started, if there is one to start."""
        return self.process.pid if self.process else None

    def fill(self, text: str) -> str:
        """Put the values of this run into a text."""
        for key, value in self.values.items():
            text = text.replace(f"{{{key}}}", value)
        return text

    def find(self) -> str:
        """Give the path of the command, installed if that is possible; raises ``FileNotFoundError``."""
        folder = PEERS / self.name / "bin"
        path = os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath), "/usr/sbin"])
        if self.package and not shutil.which(self.command[0], path=path):
            print(f"installing {self.package} into {os.path.relpath(folder.parent)}", file=sys.stderr)
            subprocess.run([sys.executable, "-m", "venv", folder.parent], check=False)
            subprocess.run([folder / "pip", "install", "-q", "--disable-pip-version-check", self.package], check=False)
        if found := shutil.which(self.command[0], path=path):
            return found
        raise FileNotFoundError(f"{self.command[0]} is not installed; {self.hint or f'PyPI has {self.package}'}")

    def start(self, core: int) -> None:
        """Start it on its core, with its own filled-in copy of conf/."""
        if not self.command:
            return
        command = self.find()
        conf = Path(self.values["conf"])
        conf.mkdir(parents=True, exist_ok=True)
        for file in (BENCH / "conf").iterdir():
            (conf / file.name).write_text(self.fill(file.read_text()))
        with (OUT / f"{self.name}.log").open("wb") as log:
            self.process = process.start(
                core,
                [command, *self.command[1:]],
                cwd=BENCH.parent,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self.env,
            )

    def check(self) -> None:
        """Wait until a stream of three tokens comes through whole; raises ``RuntimeError``."""
        body = {"model": self.model, "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 3}
        headers = {"content-type": "application/json"} | dict(line.split(": ", 1) for line in self.headers)
        why, end = "", time.monotonic() + self.warm_up
        while time.monotonic() < end and (self.process is None or self.process.poll() is None):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3)
            try:
                connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
                answer = connection.getresponse().read()
                tokens = answer.count(b'"content":"T') + answer.count(b'"content": "T')
                if tokens == body["max_tokens"] and b"[DONE]" in answer:
                    return
                why = repr(answer[:300])
            except (OSError, http.client.HTTPException) as e:
                why = str(e)
            finally:
                connection.close()
            time.sleep(0.25)
        raise RuntimeError(f"no stream on port {self.port}: {why}; see {os.path.relpath(OUT / self.name)}.log")

    def stop(self) -> None:
        """End the process and what it started."""
        if self.process is None:
            return
        family = process.tree(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill(family)
            self.process.wait()


def start_load(c: Candidate, arguments: list[str], core: int) -> subprocess.Popen[bytes]:
    """Start the load generator against a candidate."""
    fields = [part for line in c.headers for part in ("-H", line)]
    command = [str(BIN / "load"), "-P", str(c.port), "-M", c.model, *arguments, *fields]
    return process.start(core, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def memory_with_few(c: Candidate, core: int) -> int:
    """Give the bytes in memory with a few streams open, when all that is made once has been made."""
    load = start_load(c, FEW.split(), core)
    time.sleep(2)
    rss = process.rss(c.pid)
    load.communicate(timeout=60)
    return rss


def measure(c: Candidate, test: str, load_core: int, gateway_core: int) -> dict[str, Any]:
    """Run one test against one candidate; the result is what bin/load printed and what the process used meanwhile."""
    arguments = TESTS[test].split()
    warm_up, duration, connections = (float(arguments[arguments.index(flag) + 1]) for flag in ("-w", "-d", "-c"))
    few_rss = few = 0.0
    if test.startswith("rss"):
        few, few_rss = 100, memory_with_few(c, load_core)
    load = start_load(c, arguments, load_core)
    time.sleep(warm_up)
    before = process.cpu(c.pid), process.core_busy(gateway_core), time.monotonic()
    time.sleep(max(0.1, duration - warm_up - 0.05))
    after = process.cpu(c.pid), process.core_busy(gateway_core), time.monotonic()
    rss = process.rss(c.pid)
    out, err = load.communicate(timeout=60)
    if c.pid and not process.settle(c.pid):
        print(f"{c.name} is still busy 20 s after its load ended: rows measured after it are void", file=sys.stderr)
    used, busy, seconds = (b - a for a, b in zip(before, after, strict=True))
    result: dict[str, Any] = json.loads(out)
    per_second = result["cps"] if "st" in arguments else result["rps"]
    return result | {
        "cpu": used / seconds,
        "other": max(0.0, busy - used) / seconds,
        "us_per": used / seconds / per_second * 1e6 if per_second else 0.0,
        "rss": rss / 2**20,
        "kb_per_stream": (rss - few_rss) / (connections - few) / 1000 if few else 0.0,
        "said": err.decode(errors="replace")[:300],
    }


def build() -> None:
    """Compile engine and load generator, unless they are newer than their source."""
    BIN.mkdir(exist_ok=True)
    for name in ("engine", "load"):
        source, binary = BENCH / "src" / f"{name}.c", BIN / name
        if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-o", binary, source], check=True)


def serve_keys(folder: Path) -> ThreadingHTTPServer:
    """Serve the key set on loopback for as long as this process lives."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", ISSUER_PORT), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def bring_up(group: list[Candidate], core: int) -> list[Candidate]:
    """Start all, and give those that answer; name the others."""
    up = []
    for c in group:
        try:
            c.start(core)
        except OSError as e:
            print(f"left out: {c.name}: {e}", file=sys.stderr)
    for c in group:
        if c.command and not c.process:
            continue
        try:
            c.check()
            up.append(c)
        except RuntimeError as e:
            print(f"left out: {c.name}: {e}", file=sys.stderr)
            c.stop()
    return up


def arguments(table: dict[str, Any]) -> argparse.Namespace:
    """Read the command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("candidates", nargs="?", default=DEFAULT[0], help="comma separated; ratios are against nginx")
    p.add_argument("tests", nargs="?", default=DEFAULT[1], help="comma separated: " + " ".join(TESTS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--out", type=Path, help="JSON file (out/results/<time>.json without)")
    p.add_argument("--load-core", type=int, default=0, help="core of engine and load generator")
    p.add_argument("--gateway-core", type=int, default=1, help="core of the candidates")
    p.add_argument("--python", default=sys.executable, help="interpreter with the project's packages, for the project")
    p.add_argument("--list", action="store_true", help="who can be measured")
    a = p.parse_args()
    a.candidates, a.tests = a.candidates.split(","), a.tests.split(",")
    a.tests.sort(key=lambda test: not test.startswith("rss"))  # before others leave memory that is used again
    if unknown := [x for x in a.candidates if x not in table] + [x for x in a.tests if x not in TESTS]:
        p.error(f"unknown: {', '.join(unknown)}")
    if len(os.sched_getaffinity(0)) < 2:
        p.error("two cores are needed: one for the gateway, one for engine and load")
    return a


def resolved(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Give the entry of a candidate, with what it takes over from the one that it is ``like``."""
    entry = table[name]
    other = table.get(entry.get("like", ""), {})
    return {**other, **entry, "env": {**other.get("env", {}), **entry.get("env", {})}}


def main() -> int:
    """Measure, print the tables, then the goals. Status 1 when the project itself failed or lost a request."""
    table = tomllib.loads((BENCH / "candidates.toml").read_text())
    a = arguments(table)
    if a.list:
        for name, entry in table.items():
            print(f"{name:12} {entry.get('note', '')}")
        return 0
    build()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    result_file = a.out or OUT / "results" / time.strftime("%Y%m%d-%H%M%S.json")
    result_file.parent.mkdir(parents=True, exist_ok=True)
    folder = keys.make()
    values = {
        "out": str(OUT),
        "keys": str(folder),
        "python": a.python,
        "engine": f"127.0.0.1:{ENGINE_PORT}",
        "engine_socket": str(OUT / "engine.sock"),
        "issuer": f"http://127.0.0.1:{ISSUER_PORT}",
        "token": (folder / "rs256.jwt").read_text(),
        "api_key": (folder / "api.key").read_text(),
    }
    group = [Candidate(name, resolved(table, name), values) for name in a.candidates]
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for records in OUT.glob("audit*.jsonl"):
        records.unlink()
    engine = process.start(a.load_core, [str(BIN / "engine"), str(ENGINE_PORT), values["engine_socket"]])
    issuer = serve_keys(folder)
    try:
        up = bring_up(group, a.gateway_core)
        for test in a.tests:
            rows = results.setdefault(test, {c.name: [] for c in up})
            for _ in range(1 if test in ONCE else a.rounds):
                for c in up:
                    rows[c.name].append(measure(c, test, a.load_core, a.gateway_core))
                    time.sleep(0.05)
            result_file.write_text(json.dumps(results))
            print(report.table(test, rows, TESTS[test]), flush=True)
    finally:
        for c in group:
            c.stop()
        engine.terminate()
        engine.wait()
        issuer.shutdown()
    if any(c.name == "gateway" for c in up):
        print(report.goals(results))
    print(f"\nraw figures: {os.path.relpath(result_file)}")
    ours = [r for rows in results.values() for r in rows.get("gateway", [])]
    return int("gateway" in a.candidates and (not ours or any(r["errs"] for r in ours)))


if __name__ == "__main__":
    sys.exit(main())
