from __future__ import annotations

import anyio

from gateway.simulator.state import until
from tests.simulator.conftest import Asking, hi


async def test_the_gauges_follow_what_runs(asking: Asking) -> None:
    async def sample(name: str) -> str:
        text = (await asking.client.get("/metrics")).text
        line = next(line for line in text.splitlines() if line.startswith(f"vllm:{name}{{"))
        return line.partition("} ")[2]

    await asking.post("/v1/chat/completions", hi(max_tokens=2))
    assert await sample("num_requests_running") == "0.0"
    assert await sample("prompt_tokens_total") == "14.0"
    assert await sample("generation_tokens_total") == "2.0"
    asking.engine.state.latency_s = 60
    async with anyio.create_task_group() as group:
        group.start_soon(asking.post, "/v1/chat/completions", hi())
        await until(lambda: asking.engine.state.running)
        assert await sample("num_requests_running") == "1.0"
        asking.engine.state.paused = True
        assert await sample("num_requests_running") == "0.0"
        assert await sample("num_requests_waiting") == "1.0"
        asking.engine.state.abort_all()


async def test_the_content_type_is_prometheus_own(asking: Asking) -> None:
    response = await asking.client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    assert 'vllm:engine_sleep_state{engine="0",model_name="local",sleep_state="awake"} 1.0' in response.text


async def test_it_tells_when_it_was_started(asking: Asking) -> None:
    asking.engine.state.started = 1700000000.25
    response = await asking.client.get("/metrics")
    assert "\nprocess_start_time_seconds 1700000000.25\n" in response.text
