"""The edge and the relay alone: ``python bench/bare_relay.py PORT ENGINE_PORT``.

Every request is taken for a streamed chat and sent on as it came: no token, policy, limit, metric of a request or audit
record. What the gateway costs above this is the price of its judgement.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import time
from typing import TYPE_CHECKING, Any, cast

import uvicorn
import uvloop

from gateway.adapters.clock import new_request_id
from gateway.adapters.edge import EdgeProtocol
from gateway.adapters.edge_limits import EdgeLimits
from gateway.adapters.engine import Engine
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.metrics import Metrics
from gateway.adapters.relay import Relay
from gateway.addresses import engine_address
from gateway.dialects.registry import DIALECTS
from gateway.policy.model import Deadlines
from gateway.ports import UpstreamRequest

if TYPE_CHECKING:
    from gateway.adapters.downstream import Downstream

PATIENT = Deadlines(600, 600, 900)


async def serve(port: int, engine_port: int) -> None:
    """Serve until SIGTERM."""
    pool = EnginePool(engine_address(f"http://127.0.0.1:{engine_port}"), idle=6000, keep_alive_s=4, connect_s=5)
    engine = Engine("main", [EngineClient(pool, None)], 0, time.monotonic)
    for replica in engine.replicas:
        replica.circuit.pass_trial()
    relay = Relay({"main": engine}, Metrics(), 15)
    chat = DIALECTS["openai-chat"]

    async def app(inbound: Downstream) -> None:
        body = await inbound.read_body(1 << 20)
        request = UpstreamRequest(
            new_request_id(),
            "bare",
            "main",
            "POST",
            "/v1/chat/completions",
            body,
            stream=True,
            dialect=chat,
            deadlines=PATIENT,
            lines=[],
        )
        await relay.forward(request, inbound)

    protocol = functools.partial(EdgeProtocol, limits=EdgeLimits(connections=20_000))
    config = uvicorn.Config(
        cast("Any", app),
        port=port,
        http=cast("Any", protocol),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        backlog=4096,
    )
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # as the gateway does
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(*map(int, sys.argv[1:3])))
