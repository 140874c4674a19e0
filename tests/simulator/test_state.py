from __future__ import annotations

import anyio

from gateway.simulator.state import EngineState


async def test_an_answer_has_its_natural_length_or_is_cut() -> None:
    engine = EngineState(tokens=4)
    assert len([token async for token in engine.generate(None)]) == 4
    assert [token async for token in engine.generate(2)] == [" The", " quick"]
    assert engine.finished == {"stop": 1, "length": 1, "abort": 0}
    assert engine.generation_tokens == 6
    assert not engine.running


async def test_a_longer_answer_repeats_itself() -> None:
    assert len([token async for token in EngineState(tokens=100).generate(None)]) == 100


async def test_a_request_stands_still_while_the_engine_does() -> None:
    engine = EngineState(tokens=3, paused=True)
    said = []

    async def ask() -> None:
        said.extend([token async for token in engine.generate(None)])

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.sleep(0.05)
        assert not said
        assert len(engine.running) == 1
        engine.paused = False
        await engine.drained()
    assert len(said) == 3


async def test_aborting_ends_every_running_request_even_of_a_sleeping_engine() -> None:
    engine = EngineState(latency_s=60)
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            assert [token async for token in engine.generate(None)] == []

        group.start_soon(ask)
        group.start_soon(ask)
        await anyio.sleep(0.01)
        engine.sleep_level = 1
        engine.abort_all()
    assert engine.finished["abort"] == 2
    assert not engine.scheduling
