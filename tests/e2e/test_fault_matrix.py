"""Every fault of an engine, with a stream and without: the answer, the record, and that nothing is left of it."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from anyio.from_thread import start_blocking_portal

from tests.e2e.fault_matrix import APIS, FAULTS, MATRIX, FaultyEngine, Row, black_hole
from tests.e2e.raw_http import Answer, Connection, NotHttp, request
from tests.e2e.site import HOST, KEYS, running, wait
from tests.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.site import Site

DEADLINES = {"CONNECT": "700ms", "FIRST_BYTE": "1s", "IDLE": "1s", "TOTAL": "3s"}
SECONDS = {"slow-head": (1.0, 3.0), "slow-body": (1.0, 3.0)}


@pytest.fixture(scope="module")
def engine() -> Iterator[FaultyEngine]:
    """Run the engine with the faults."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(FaultyEngine()) as one:
        assert isinstance(one, FaultyEngine)
        yield one


@pytest.fixture(scope="module")
def down() -> int:
    """Give a port that nobody listens on."""
    return free_port()


@pytest.fixture(scope="module")
def messages() -> int:
    """Give the port on which Anthropic's API is served."""
    return free_port()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, engine: FaultyEngine, down: int, messages: int) -> Iterator[Site]:
    """Run a gateway of little patience in front of it."""
    settings = {f"DEADLINES__{name}": value for name, value in DEADLINES.items()}
    engines = {"ENGINES__RAW__URLS": engine.url, "ENGINES__DOWN__URLS": f"http://127.0.0.1:{down}"}
    policies = ("policy.yaml", "lenient.yaml", "messages.yaml")
    listener = {"LISTENERS__MESSAGES": f"{HOST}:{messages}"}
    with running(tmp_path_factory.mktemp("faults"), policies=policies, **settings, **engines, **listener) as one:
        yield one


@pytest.fixture(params=list(APIS))
def asking(request: pytest.FixtureRequest, faulty: Site, messages: int) -> Asking:
    """Ask over one API."""
    return Asking(faulty, str(request.param), messages)


@dataclass(frozen=True)
class Asking:
    """How a caller of one API asks for a fault."""

    site: Site
    api: str
    port: int

    def __call__(self, fault: str, *, streams: bool) -> tuple[Answer, bool]:
        """Give the answer with what came of its body, and whether it was cut off."""
        model = "down" if fault in {"refused", "black-hole"} else "raw"
        script = f"{APIS[self.api].prefix}{fault}{'-stream' * streams}"
        if self.api == "openai":
            return read(self.site.connect(), self.site.script(script, stream=streams, model=model))
        body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": f"script:{script}"}]}
        headers = {"Authorization": f"Bearer {KEYS['KEY-INSIDE']}", "Content-Type": "application/json"}
        data = orjson.dumps({**body, "stream": streams})
        host = f"{HOST}:{self.port}"
        asked = request(APIS[self.api].path, host, method="POST", headers=headers, body=data)
        return read(Connection((HOST, self.port)), asked)


def read(opened: Connection, asked: bytes) -> tuple[Answer, bool]:
    """Send a request and read what comes, as far as it comes."""
    with opened as connection:
        connection.send(asked)
        headed = connection.head()
        length, body = headed.value("content-length"), bytearray()
        try:
            if length is None:
                for _, part in connection.chunks():
                    body += part
            else:
                while len(body) < int(length):
                    body += connection._exactly(1)
        except NotHttp:
            return Answer(headed.status, headed.headers, bytes(body), "cut"), True
    return Answer(headed.status, headed.headers, bytes(body), "whole"), False


def streams_open(site: Site) -> int:
    """Read the gauge of open streams, over all engines."""
    return sum(int(float(found)) for found in re.findall(r"(?m)^gateway_streams_open\{.*\} (\S+)$", site.metrics()))


def leases_held(site: Site) -> int:
    """Read the gauge of the places that requests hold, which names each client that asked within the minute."""
    found = re.findall(r"(?m)^gateway_requests_open\{.*\} (\S+)$", site.metrics())
    assert found
    return sum(int(float(one)) for one in found)


def descriptors(site: Site) -> int:
    """Count the gateway's sockets and files."""
    return sum(1 for _ in Path(f"/proc/{site.process.pid}/fd").iterdir())


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_answered_recorded_and_forgotten(
    faulty: Site, asking: Asking, engine: FaultyEngine, down: int, fault: str, *, streams: bool
) -> None:
    expected = APIS[asking.api].faults()[fault].expects(streams=streams)
    assert_healthy(asking)
    if fault == "stale-keep-alive":
        assert engine.asked[-1].script == f"{APIS[asking.api].prefix}chat-stream"
    played = len(engine.asked)
    begun = time.monotonic()
    with black_hole(down) if fault == "black-hole" else nullcontext():
        answer, cut = asking(fault, streams=streams)
    took = time.monotonic() - begun
    records = faulty.records(answer.value("x-request-id") or "")
    left, held = streams_open(faulty), leases_held(faulty)
    reason = reason_of(answer)
    error = re.search(r"error=([a-z_]+)", answer.value("proxy-status") or "")
    status = f"{answer.status}{' cut' * cut}"
    assert_healthy(asking)
    MATRIX.rows.append(
        Row(
            fault,
            asking.api,
            "stream" if streams else "plain",
            status,
            reason or records[0]["reason"] or "-",
            error[1] if error else "-",
            f"{records[0]['outcome']}",
            len(records),
            left,
            held,
            "ok",
        )
    )
    assert (answer.status, cut) == (expected.status, expected.cut)
    assert reason == (expected.reason if streams or not cut else None)
    assert (error and error[1]) == expected.proxy_error
    assert len(records) == 1
    record = records[0]
    assert (record["verdict"], record["outcome"]) == (expected.verdict, expected.outcome)
    assert record["reason"] == expected.reason
    assert (left, held) == (0, 0)
    if fault == "stale-keep-alive":
        first, second = engine.asked[played : played + 2]
        assert first.connection != second.connection
        assert first.body == second.body
    elif fault not in {"refused", "black-hole"}:
        # Once, or once more on a fresh connection where a used one ended without a byte: nobody can tell it from stale.
        asked = [
            one.connection for one in engine.asked[played:] if one.script.startswith(APIS[asking.api].prefix + fault)
        ]
        assert len(set(asked)) == len(asked) == (2 if fault in {"reset-before-head", "close-before-head"} else 1)
    least, *more = patience if isinstance(patience := SECONDS.get(fault, 0.0), tuple) else (patience,)
    assert took >= (more[0] if more and not streams else least)
    assert took < 5.0


def reason_of(answer: Answer) -> str | None:
    """Give the reason in an error body, or in the last event of a stream."""
    if answer.code is not None:
        return answer.code
    last = answer.body.removesuffix(b"\n\n").rpartition(b"\n\n")[2].rpartition(b"data: ")[2]
    if b'"error"' in last:
        return str(orjson.loads(last)["error"]["code"])
    return None


def assert_healthy(asking: Asking) -> None:
    """Check that the next requests are served as if nothing had happened."""
    for streams in (False, True):
        answer, cut = asking("chat", streams=streams)
        assert (answer.status, cut) == (200, False)
    assert streams_open(asking.site) == 0


def test_no_descriptor_is_left_of_any_fault(faulty: Site, asking: Asking) -> None:
    """Runs behind them all: the listeners, the log, a few idle connections, and nothing that grows with the faults."""
    assert_healthy(asking)
    wait(lambda: descriptors(faulty) < 40, "few descriptors")
    assert "internal error" not in faulty.log()
    assert Path(f"/proc/{faulty.process.pid}").exists()
