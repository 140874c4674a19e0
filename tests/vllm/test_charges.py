"""What callers are charged for is what a real engine produced, also for those who hang up."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import orjson

from tests.e2e.raw_http import Connection, request
from tests.vllm.conftest import KEY
from tests.vllm.test_disconnects import LONG, wait_for

if TYPE_CHECKING:
    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

STREAMS = 50
AT_ONCE = 8
_DELTA = b'"delta":{"content"'


def cut(gateway: Serving, after: int) -> None:
    """Read so many tokens of a stream and hang up."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    body = orjson.dumps(LONG | {"stream": True})
    with Connection(gateway.address, timeout=60.0) as client:
        client.send(request("/v1/chat/completions", gateway.host, method="POST", headers=headers, body=body))
        assert client.head().status == 200
        seen = 0
        for _, part in client.chunks():
            seen += part.count(_DELTA)
            if seen >= after:
                return


def test_fifty_streams_cut_at_random_are_charged_for_what_was_produced(
    over_socket: Serving, engine: RealEngine
) -> None:
    assert engine.idle_within(10)
    before, recorded = engine.generated(), len(over_socket.records(endpoint="chat"))
    dice = random.Random(50)  # noqa: S311  (a game, not a key)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda after: cut(over_socket, after), [dice.randint(50, 400) for _ in range(STREAMS)]))
    assert engine.idle_within(10)
    wait_for("every record", lambda: len(over_socket.records(endpoint="chat")) == recorded + STREAMS)
    usages = [record["usage"] for record in over_socket.records(endpoint="chat")[recorded:]]
    # One whose caller was slower than the engine is whole, and its count the engine's own.
    assert sum("estimated" in usage for usage in usages) > STREAMS / 2
    charged, produced = sum(usage["completion"] for usage in usages), engine.generated() - before
    assert abs(charged - produced) <= 0.02 * produced, (charged, produced)


def test_a_stream_that_is_read_to_its_end_is_charged_by_the_engines_count(
    over_socket: Serving, engine: RealEngine
) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    body = orjson.dumps(LONG | {"stream": True, "max_tokens": 20})
    before = engine.generated()
    with Connection(over_socket.address, timeout=60.0) as client:
        client.send(request("/v1/chat/completions", over_socket.host, method="POST", headers=headers, body=body))
        answer = client.answer("POST")
    assert b'"choices":[]' not in answer.body
    usage = over_socket.record(answer.value("x-request-id") or "")["usage"]
    assert usage["completion"] == engine.generated() - before == 20
    assert usage["prompt"] > 0
    assert "estimated" not in usage
