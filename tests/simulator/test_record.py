from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from httpx2 import AsyncClient

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.record import read
from gateway.simulator.state import EngineState, until
from tests.e2e.raw_http import request
from tests.simulator.conftest import Asking, hi

if TYPE_CHECKING:
    from pathlib import Path

JSON = b"Content-Type: application/json\r\n"


@pytest.mark.parametrize("target", ["/health?", "/health#x", "/he%61lth?a=b", "//x", "http://other/health", "*"])
async def test_the_target_is_kept_as_it_was_sent(asking: Asking, target: str) -> None:
    await asking.raw(request(target, "h"))
    assert asking.engine.requests[0].target == target


async def test_a_request_is_kept_with_every_field_and_its_body(asking: Asking) -> None:
    fields = "Host: h\r\nX-A: 1\r\nx-a: 2\r\nUser-Agent: vllm-gateway/1 (probe)\r\nContent-Length: 2\r\n"
    await asking.raw(f"POST /tokenize HTTP/1.1\r\n{fields}Content-Type: application/json\r\n\r\n{{}}".encode())
    seen = asking.engine.requests[0]
    assert (seen.method, seen.body, seen.body_complete) == ("POST", "{}", True)
    assert (seen.status, seen.finished, seen.left) == (400, True, False)
    assert seen.header("x-a") == ["1", "2"]
    assert seen.json == {}
    assert seen.own_traffic


async def test_a_request_is_kept_before_its_body_came_and_its_going_is_noticed(asking: Asking) -> None:
    host, port = asking.engine.url.removeprefix("http://").split(":")
    async with await anyio.connect_tcp(host, int(port)) as client:
        await client.send(b"POST /invocations HTTP/1.1\r\nHost: h\r\n" + JSON + b"Content-Length: 9\r\n\r\n{")
        await until(lambda: asking.engine.requests)
        assert not asking.engine.requests[0].body_complete
    with anyio.fail_after(5):
        await until(lambda: asking.engine.requests[0].left)


async def test_another_process_reads_the_same_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    assert read(file) == []
    async with (
        EngineSimulator(EngineState(latency_s=60), record=file) as engine,
        AsyncClient(base_url=engine.url, trust_env=False) as client,
    ):
        await client.get("/health")
        assert read(file) == engine.requests
        with anyio.move_on_after(0.1):
            await client.post("/v1/chat/completions", json=hi())
        with anyio.fail_after(5):
            await until(lambda: read(file)[1].left)
        assert read(file) == engine.requests
