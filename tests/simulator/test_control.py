from __future__ import annotations

import anyio
import pytest

from tests.simulator.conftest import Asking, hi


async def test_a_sleeping_engine_is_healthy_and_answers_nobody(asking: Asking) -> None:
    assert await asking.post("/sleep?level=1", {}, key=None) == (200, {"status": "sleeping", "level": 1})
    assert await asking.get("/is_sleeping") == (200, {"is_sleeping": True})
    assert (await asking.get("/health"))[0] == 200
    with anyio.move_on_after(0.1) as waiting:
        await asking.post("/v1/chat/completions", hi())
    assert waiting.cancelled_caught
    assert (await asking.post("/wake_up?tags=weights", {}))[1]["status"] == "sleeping"
    assert (await asking.post("/wake_up?tags=kv_cache", {}))[1]["status"] == "awake"
    assert (await asking.post("/v1/chat/completions", hi()))[0] == 200


async def test_a_level_that_does_not_exist_is_refused(asking: Asking) -> None:
    assert (await asking.post("/sleep?level=x", {}))[0] == 400


async def test_sleep_waits_for_running_requests_when_told_to(asking: Asking) -> None:
    asking.engine.state.latency_s = 0.02
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            _, answer = await asking.post("/v1/chat/completions", hi(max_tokens=4))
            assert answer["choices"][0]["finish_reason"] == "length"

        group.start_soon(ask)
        await anyio.sleep(0.03)
        await asking.post("/sleep?mode=wait", {})
        assert not asking.engine.state.running


async def test_pause_stops_scheduling_until_resume(asking: Asking) -> None:
    await asking.post("/pause?mode=keep", {})
    assert await asking.get("/is_paused") == (200, {"is_paused": True})
    await asking.post("/resume", {})
    assert await asking.get("/is_paused") == (200, {"is_paused": False})


async def test_collective_rpc_reaches_the_workers(asking: Asking) -> None:
    status, answer = await asking.post("/collective_rpc", {"method": "nope"}, key=None)
    assert status == 500
    assert "AttributeError" in answer["error"]["message"]
    assert await asking.post("/collective_rpc", {"method": "reload_weights"}) == (200, {"results": [None]})
    assert (await asking.post("/collective_rpc", []))[0] == 400


async def test_the_weights_can_be_renamed_hashed_and_not_transferred(asking: Asking) -> None:
    assert (await asking.post("/update_weight_version", {}))[0] == 400
    assert (await asking.post("/update_weight_version", {"new_version": "evil"}))[0] == 200
    assert await asking.get("/weight_info") == (200, {"weight_version": "evil"})
    assert (await asking.post("/weight_checker", {}))[0] == 400
    assert (await asking.post("/weight_checker", {"action": "checksum"}))[0] == 200
    assert (await asking.post("/update_weights", {}))[0] == 500


@pytest.mark.parametrize("size, status", [(1, 200), (2, 500), (0, 400), (None, 400)])
async def test_scaling_needs_no_key(asking: Asking, size: int | None, status: int) -> None:
    assert (await asking.post("/scale_elastic_ep", {"new_data_parallel_size": size}, key=None))[0] == status


async def test_an_adapter_is_a_model_once_it_is_loaded(asking: Asking) -> None:
    assert (await asking.post("/adapters", {}, key=None))[0] == 400
    response = await asking.client.post("/adapters", json={"name": "lora"})
    assert response.status_code == 200
    assert (await asking.post("/v1/chat/completions", hi(model="lora")))[0] == 200
    assert (await asking.client.delete("/adapters/lora")).status_code == 200
    assert (await asking.client.delete("/adapters/lora")).status_code == 404


async def test_the_configuration_is_given_away(asking: Asking) -> None:
    _, info = await asking.get("/server_info")
    assert "/models/local" in info["vllm_config"]
