"""The routes that run the engine rather than use it: dangerous, and none asks for the key.

Enters: the engine's state. Leaves: answers as vLLM 0.32 in development mode gives them, and visible effects: an engine
that sleeps, is paused, renamed, given adapters or emptied of requests answers differently afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from gateway.simulator.errors import Refused
from gateway.simulator.prompt import body

if TYPE_CHECKING:
    from starlette.requests import Request

    from gateway.simulator.state import EngineState


async def sleep(engine: EngineState, request: Request) -> Response:
    """Put the engine to sleep at a level; mode abort, the default, aborts every running request."""
    level = _level(request.query_params.get("level", "1"))
    await _settle(engine, request)
    engine.sleep_level = level
    return JSONResponse({"status": "sleeping", "level": level})


async def wake_up(engine: EngineState, request: Request) -> Response:
    """Wake the engine. With tags it stays asleep until the cache is back, too."""
    tags = request.query_params.getlist("tags")
    if not tags or "kv_cache" in tags:
        engine.sleep_level = None
    return JSONResponse({"status": "awake" if engine.sleep_level is None else "sleeping", "tags": tags or None})


async def is_sleeping(engine: EngineState, _: Request) -> Response:
    """Tell whether the engine sleeps."""
    return JSONResponse({"is_sleeping": engine.sleep_level is not None})


async def pause(engine: EngineState, request: Request) -> Response:
    """Stop scheduling: streams stand still, new requests hang."""
    await _settle(engine, request)
    engine.paused = True
    return JSONResponse({"status": "paused"})


async def resume(engine: EngineState, _: Request) -> Response:
    """Start scheduling again."""
    engine.paused = False
    return JSONResponse({"status": "resumed"})


async def is_paused(engine: EngineState, _: Request) -> Response:
    """Tell whether scheduling is stopped."""
    return JSONResponse({"is_paused": engine.paused})


async def abort_requests(engine: EngineState, _: Request) -> Response:
    """Abort every running request of every client."""
    engine.abort_all()
    return Response()


async def collective_rpc(_: EngineState, request: Request) -> Response:
    """Run any method of the workers; ``reload_weights`` is the one that exists here."""
    value = await _object(request)
    method = value.get("method")
    if method == "reload_weights":
        return JSONResponse({"results": [None]})
    text = f"AttributeError: 'CPUWorker' object has no attribute '{method}'"
    raise Refused(text, status=500, kind="Internal Server Error")


async def server_info(engine: EngineState, _: Request) -> Response:
    """Give the whole configuration away."""
    config = f"model='/models/{engine.models[0]}', max_seq_len={engine.max_model_len}"
    env = {"VLLM_SERVER_DEV_MODE": True, "VLLM_HOST_IP": "127.0.0.1"}
    return JSONResponse({"vllm_config": config, "vllm_env": env, "system_env": {"python": "3.11"}})


async def update_weight_version(engine: EngineState, request: Request) -> Response:
    """Rename the weights."""
    version = (await _object(request)).get("new_version")
    if not isinstance(version, str):
        raise Refused("new_version is required")
    engine.weight_version = version
    return JSONResponse({"success": True, "new_version": version})


async def weight_info(engine: EngineState, _: Request) -> Response:
    """Tell the name of the weights."""
    return JSONResponse({"weight_version": engine.weight_version})


async def weight_checker(_: EngineState, request: Request) -> Response:
    """Hash the weights, or zero them."""
    action = (await _object(request)).get("action")
    if action not in {"checksum", "reset", "compare"}:
        raise Refused("action must be one of checksum, reset, compare")
    return JSONResponse({"results": [{"lm_head.weight": "0" * 64}]})


async def no_weight_transfer(_: EngineState, __: Request) -> Response:
    """Answer as an engine without weight transfer does."""
    raise Refused("Weight transfer not configured", status=500, kind="Internal Server Error")


async def scale_elastic_ep(_: EngineState, request: Request) -> Response:
    """Change the number of data-parallel ranks: the same size does nothing, another fails."""
    size = (await _object(request)).get("new_data_parallel_size")
    if not isinstance(size, int) or size < 1:
        raise Refused("Invalid data parallel size")
    if size != 1:
        raise Refused("Scale failed", status=500, kind="Internal Server Error")
    return JSONResponse({"message": "Scaled to 1 data parallel engines"})


async def load_adapter(engine: EngineState, request: Request) -> Response:
    """Load an adapter from a path on disk; it is a model from then on."""
    value = await _object(request)
    name = value.get("lora_name") or value.get("name")
    if not isinstance(name, str):
        raise Refused("Both 'lora_name' and 'lora_path' must be provided.", kind="InvalidUserInput")
    engine.adapters.append(name)
    return Response(f"Success: LoRA adapter '{name}' added successfully.")


async def unload_adapter(engine: EngineState, request: Request) -> Response:
    """Unload an adapter."""
    name = request.path_params.get("adapter_name") or (await _object(request)).get("lora_name")
    if name not in engine.adapters:
        raise Refused(f"The lora adapter '{name}' cannot be found.", status=404, kind="NotFoundError")
    engine.adapters.remove(name)
    return Response(f"Success: LoRA adapter '{name}' removed successfully.")


def _level(text: str) -> int:
    if text not in {"0", "1", "2"}:
        raise Refused(f"invalid literal for int() with base 10: '{text}'", kind="Bad Request", param="query.level")
    return int(text)


async def _settle(engine: EngineState, request: Request) -> None:
    mode = request.query_params.get("mode", "abort")
    if mode == "abort":
        engine.abort_all()
    elif mode == "wait":
        await engine.drained()


async def _object(request: Request) -> dict[str, Any]:
    value = await body(request)
    if not isinstance(value, dict):
        raise Refused("Input should be a valid dictionary", kind="Bad Request", param="body")
    return value
