"""What an engine serves is what its ready replicas listed at the last look; nobody waits for an answer."""

from __future__ import annotations

import pytest

from gateway.adapters.catalogue import EngineCatalogue
from gateway.adapters.engine import Engine
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.addresses import engine_address
from gateway.dialects.openai_models import ServedModel
from gateway.reasons import Reason, Unavailable


def engine_of(*served: dict[str, ServedModel] | None) -> Engine:
    """Give an engine whose replicas list these models; one that lists ``None`` is not ready."""
    pools = [
        EnginePool(engine_address(f"http://127.0.0.1:{number}"), idle=1, keep_alive_s=1, connect_s=1)
        for number, _ in enumerate(served, 1)
    ]
    engine = Engine("main", [EngineClient(pool, None) for pool in pools], 0, lambda: 0.0)
    for replica, models in zip(engine.replicas, served, strict=True):
        if models is not None:
            replica.served = models
            replica.circuit.pass_trial()
    return engine


async def test_the_models_are_those_that_the_ready_replicas_list() -> None:
    a, b = ServedModel(17, 8), ServedModel(18, 9)
    engine = engine_of({"a": a}, {"a": a, "b": b}, None)
    engine.replicas[2].served = {"c": b}
    assert await EngineCatalogue({"main": engine}).served("main") == {"a": a, "b": b}


async def test_an_engine_without_a_ready_replica_serves_nothing() -> None:
    with pytest.raises(Unavailable) as unavailable:
        await EngineCatalogue({"main": engine_of(None)}).served("main")
    assert (unavailable.value.reason, unavailable.value.status) == (Reason.ENGINE_UNAVAILABLE, 503)
