"""The engine's gauges and counters, as ``GET /metrics`` shows them to anyone who asks.

Enters: the engine's state. Leaves: the Prometheus text. Only the series that a gateway or an operator reads are here,
under their names in vLLM 0.32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.requests import Request

    from gateway.simulator.state import EngineState

_CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


async def metrics(engine: EngineState, _: Request) -> Response:
    """Answer with every series, whatever the method and whatever follows ``/metrics``."""
    return Response("\n".join([*_lines(engine), ""]), headers={"content-type": _CONTENT_TYPE})


def _lines(engine: EngineState) -> Iterator[str]:
    yield "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds."
    yield "# TYPE process_start_time_seconds gauge"
    yield f"process_start_time_seconds {engine.started}"
    labels = f'engine="0",model_name="{engine.models[0]}"'
    moving = len(engine.running)
    yield from _series("num_requests_running", "gauge", {labels: moving if engine.scheduling else 0})
    yield from _series("num_requests_waiting", "gauge", {labels: 0 if engine.scheduling else moving})
    yield from _series("kv_cache_usage_perc", "gauge", {labels: min(1.0, moving / 256)})
    yield from _series("prompt_tokens_total", "counter", {labels: engine.prompt_tokens})
    yield from _series("generation_tokens_total", "counter", {labels: engine.generation_tokens})
    by_reason = {f'{labels},finished_reason="{reason}"': count for reason, count in engine.finished.items()}
    yield from _series("request_success_total", "counter", by_reason)
    asleep = {"awake": None, "weights_offloaded": 1, "discard_all": 2}
    states = {f'{labels},sleep_state="{name}"': int(engine.sleep_level == level) for name, level in asleep.items()}
    yield from _series("engine_sleep_state", "gauge", states)


def _series(name: str, kind: str, samples: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP vllm:{name} See vLLM's documentation."
    yield f"# TYPE vllm:{name} {kind}"
    for labels, value in samples.items():
        yield f"vllm:{name}{{{labels}}} {float(value)}"
