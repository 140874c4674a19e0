from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import anyio
import pytest
from httpx2 import AsyncClient, AsyncHTTPTransport

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.raw_http import request
from tests.simulator.conftest import KEY, Asking, hi

if TYPE_CHECKING:
    from pathlib import Path

HOST = "127.0.0.1:8000"

# Target, status without a key and with it, as seen on a real vLLM 0.32.0.
TARGETS = [
    ("/v1/models", 401, 200),
    ("/v1//models", 401, 404),
    ("//v1/models", 404, 404),
    ("/v1/models/", 401, 307),
    ("/V1/models", 404, 404),
    ("/v1/models?x=1", 401, 200),
    ("/v1/models#frag", 401, 200),
    ("/v1/models;x=1", 401, 404),
    ("/v1/../v1/models", 401, 404),
    ("/x/../v1/models", 404, 404),
    ("/%76%31/models", 401, 200),
    ("/v1%2fmodels", 401, 200),
    ("/%2fv1/models", 404, 404),
    ("/v1/models%0a", 401, 200),
    ("/v1/models%0a%0a", 401, 404),
    ("/v1/models%00", 401, 404),
    ("/%2576%2531/models", 404, 404),
    ("v1/models", 400, 400),
    ("*", 404, 404),
    ("http://evil.example/v1/models", 401, 200),
    ("http://evil.example/health", 200, 200),
    ("/metricsfoo", 200, 200),
    ("/metrics/../v1/models", 200, 200),
    ("/health/", 307, 307),
    ("/static/swagger-ui.css", 404, 404),
    ("/favicon.ico", 404, 404),
]


@pytest.mark.parametrize("target, without_key, with_key", TARGETS)
async def test_a_target_is_decoded_guarded_and_matched_as_by_vllm(
    asking: Asking, target: str, without_key: int, with_key: int
) -> None:
    assert (await asking.raw(request(target, HOST))).status == without_key
    keyed = request(target, HOST, headers={"Authorization": f"Bearer {KEY}"})
    assert (await asking.raw(keyed)).status == with_key


@pytest.mark.parametrize("target", ["/invocations", "/%69nvocations", "/invocations%0a", "/invocations#/v1/models"])
async def test_invocations_answers_a_whole_chat_without_a_key(asking: Asking, target: str) -> None:
    body = b'{"messages":[{"role":"user","content":"hi"}]}'
    json = {"Content-Type": "application/json"}
    answer = await asking.raw(request(target, HOST, method="POST", headers=json, body=body))
    assert answer.status == 200
    assert answer.json["usage"]["prompt_tokens"] == 14


@pytest.mark.parametrize(
    "authorization, status",
    [
        (f"Bearer {KEY}", 200),
        (f"bEARER {KEY}", 200),
        (f"Bearer  {KEY}", 401),
        (f"Basic {KEY}", 401),
        (KEY, 401),
        ("Bearer wrong", 401),
    ],
)
async def test_the_key_is_asked_for_as_by_vllm(asking: Asking, authorization: str, status: int) -> None:
    answer = await asking.raw(request("/v1/models", HOST, headers={"Authorization": authorization}))
    assert answer.status == status
    assert (answer.json == {"error": "Unauthorized"}) is (status == 401)
    assert answer.value("vary") == (None if status == 401 else "Origin")


async def test_of_two_authorization_fields_the_first_counts(asking: Asking) -> None:
    head = f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nAuthorization: Bearer no\r\n\r\n"
    assert (await asking.raw(head.encode())).status == 200


@pytest.mark.parametrize(
    "method, target, status, allow",
    [
        ("HEAD", "/health", 405, "GET"),
        ("OPTIONS", "/v1/models", 405, "GET"),
        ("POST", "/v1/models", 405, "GET"),
        ("GET", "/invocations", 405, "POST"),
        ("TRACE", "/health", 405, "GET"),
        ("DELETE", "/metrics", 200, None),
        ("OPTIONS", "/metrics/x", 200, None),
        ("get", "/health", 400, None),
        ("FOO", "/health", 400, None),
    ],
)
async def test_methods_are_judged_as_by_vllm(
    asking: Asking, method: str, target: str, status: int, allow: str | None
) -> None:
    answer = await asking.raw(request(target, HOST, method=method, headers={"Authorization": f"Bearer {KEY}"}))
    assert (answer.status, answer.value("allow")) == (status, allow)


async def test_a_redirect_copies_the_host_that_was_asked_for(asking: Asking) -> None:
    answer = await asking.raw(request("/invocations/", "evil.example", method="POST", body=b""))
    assert (answer.status, answer.value("location")) == (307, "http://evil.example/invocations")


async def test_a_websocket_is_refused_with_403_behind_the_key(asking: Asking) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    assert (await asking.raw(request("/v1/realtime", HOST, headers=upgrade))).status == 401
    assert (await asking.raw(request("/nothing", HOST, headers=upgrade))).status == 403


async def test_without_a_key_nothing_is_asked_and_without_dev_mode_nothing_sleeps() -> None:
    engine = EngineSimulator(EngineState(("a", "b")), dev_mode=False)
    async with engine, AsyncClient(base_url=engine.url, trust_env=False) as client:
        models = (await client.get("/v1/models")).json()
        assert [model["id"] for model in models["data"]] == ["a", "b"]
        assert (await client.post("/sleep")).status_code == 404
        assert (await client.post("/invocations", json=hi())).status_code == 200


async def test_a_unix_socket_serves_as_well(tmp_path: Path) -> None:
    transport = AsyncHTTPTransport(uds=str(tmp_path / "s"))
    async with EngineSimulator(uds=tmp_path / "s") as engine, AsyncClient(transport=transport) as client:
        assert engine.url == f"unix:{tmp_path / 's'}"
        assert (await client.get("http://engine/health")).status_code == 200


async def test_the_simulator_ends_while_it_is_asked() -> None:
    state = EngineState(latency_s=60)
    async with EngineSimulator(state) as engine, AsyncClient(base_url=engine.url, trust_env=False) as client:
        async with client.stream("POST", "/v1/chat/completions", json=hi(stream=True)) as answer:
            assert answer.status_code == 200
        with anyio.fail_after(5):
            await state.drained()
    assert engine.requests[0].left


async def test_where_somebody_else_listens_it_says_so_in_one_line() -> None:
    async with EngineSimulator() as engine:
        port = engine.url.rpartition(":")[2]
        with pytest.raises(OSError, match="in use"):
            await EngineSimulator(port=int(port)).__aenter__()
        command = [sys.executable, "-m", "gateway.simulator", "--port", port]
        ended = await anyio.run_process(command, check=False)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert re.fullmatch(rb"python -m gateway\.simulator: .*in use.*\n", ended.stderr)
