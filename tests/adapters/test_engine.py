"""A request goes to a replica that is ready and has its model; where none is ready, that is said with a time."""

from __future__ import annotations

import pytest

from gateway.adapters.engine import Engine
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.addresses import engine_address
from gateway.dialects.openai_models import ServedModel
from gateway.reasons import Reason, Unavailable


def engine_of(count: int, *, now: float = 0.0, ready: bool = True) -> Engine:
    pools = [
        EnginePool(engine_address(f"http://127.0.0.1:{8000 + number}"), idle=1, keep_alive_s=1, connect_s=1)
        for number in range(count)
    ]
    engine = Engine("main", [EngineClient(pool, None) for pool in pools], 2, lambda: now)
    for replica in engine.replicas:
        replica.served = {"m": ServedModel()}
        if ready:
            replica.circuit.pass_trial()
    return engine


def test_each_replica_bears_its_address_and_its_own_connections() -> None:
    engine = engine_of(2)
    assert [replica.name for replica in engine.replicas] == ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    assert engine.replicas[0].client is not engine.replicas[1].client
    assert engine.ready == engine.replicas


def test_the_least_busy_gets_the_request() -> None:
    engine = engine_of(2)
    engine.replicas[0].send(0.0)
    assert engine.choose(None, "m") is engine.replicas[1]


def test_one_that_lists_the_model_goes_before_one_that_does_not() -> None:
    engine = engine_of(2)
    engine.replicas[0].served = {}
    engine.replicas[1].in_flight = 50
    assert engine.choose(None, "m") is engine.replicas[1]
    assert engine.choose(None, "listed by none") is engine.replicas[0]


def test_a_single_replica_is_asked_whatever_it_lists() -> None:
    engine = engine_of(1)
    assert engine.choose(None, "listed by none") is engine.replicas[0]


def test_what_was_tried_is_not_tried_again() -> None:
    engine = engine_of(2)
    tried = [engine.choose(b"mark", "m")]
    assert engine.another(tried)
    tried.append(engine.choose(b"mark", "m", tried))
    assert set(tried) == set(engine.replicas)
    assert not engine.another(tried)


@pytest.mark.parametrize("due, retry_after", [(103.2, 4), (100.0, 1), (90.0, 1)])
def test_none_ready_is_503_with_the_time_of_the_next_trial(due: float, retry_after: int) -> None:
    engine = engine_of(2, now=100.0, ready=False)
    for replica in engine.replicas:
        replica.circuit.fail_trial("connection refused", 0.0)
        replica.circuit.due = due
    with pytest.raises(Unavailable) as unavailable:
        engine.choose(None, "m")
    assert unavailable.value.reason is Reason.ENGINE_UNAVAILABLE
    assert (unavailable.value.status, unavailable.value.retry_after) == (503, retry_after)
    assert unavailable.value.detail == "none is ready: connection refused"


def test_where_every_replica_refuses_our_key_that_is_the_answer() -> None:
    engine = engine_of(2, ready=False)
    for replica in engine.replicas:
        replica.circuit.fail_trial("engine-refused-gateway", 0.0)
    with pytest.raises(Unavailable) as unavailable:
        engine.choose(None, "m")
    assert (unavailable.value.reason, unavailable.value.status) == (Reason.ENGINE_REFUSED_GATEWAY, None)


def test_where_every_replica_sleeps_that_is_the_answer() -> None:
    engine = engine_of(2, now=100.0, ready=False)
    for replica in engine.replicas:
        replica.circuit.fail_trial("engine-asleep", 100.0)
    with pytest.raises(Unavailable) as unavailable:
        engine.choose(None, "m")
    told = unavailable.value
    assert (told.reason, told.status, told.retry_after) == (Reason.ENGINE_ASLEEP, None, 1)


def test_all_tried_is_said_so() -> None:
    engine = engine_of(1)
    with pytest.raises(Unavailable, match="all were tried"):
        engine.choose(None, "m", engine.replicas)
