"""A client that leaves frees the engine at once: streaming or not, before the first token or after it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.e2e.raw_http import Connection, request
from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving
    from tests.vllm.tap import Tap, Tapped

LONG = {"model": "small", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 450, "ignore_eos": True}
"""About a second of work."""


def ask_for_long(gateway: Serving, *, stream: bool) -> Connection:
    """Send a request that keeps the engine busy."""
    connection = Connection(gateway.address)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    body = orjson.dumps(LONG | {"stream": stream})
    connection.send(request("/v1/chat/completions", gateway.host, method="POST", headers=headers, body=body))
    return connection


def wait_for(what: str, happened: object) -> None:
    """Wait up to five seconds until a function says yes."""
    deadline = time.monotonic() + 5
    while not (callable(happened) and happened()):
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.005)


def chat_on(tap: Tap) -> Tapped | None:
    """Find the open connection that bears the request."""
    chats = (c for c in tap.connections if b"POST /v1/chat/completions" in c.sent and c.left is None)
    return next(chats, None)


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
@pytest.mark.parametrize("tokens_first", [False, True], ids=["before the first token", "after it"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_client_that_leaves_frees_the_engine(
    over_tcp: Serving, engine: RealEngine, tap: Tap, *, stream: bool, tokens_first: bool, reset: bool
) -> None:
    assert engine.idle_within(5)
    left_before, finished = len(over_tcp.records(outcome="client-left")), engine.finished()
    for idle in [c for c in tap.connections if c.left is None and b"POST /v1/chat" in c.sent]:
        wait_for("the end of connections kept from before", lambda idle=idle: idle.left is not None)
    with ask_for_long(over_tcp, stream=stream) as client:
        wait_for("the request's arrival at the engine", lambda: chat_on(tap))
        tapped = chat_on(tap)
        if tokens_first:
            wait_for("work on the request", engine.running)
            if stream:
                client.head()
                next(client.chunks())
        if reset:
            client.reset()
        else:
            client.socket.close()
        left = time.monotonic()
    assert tapped
    wait_for("the end of the engine's connection", lambda: tapped.left is not None)
    assert tapped.left
    assert tapped.left - left < 0.1
    assert engine.idle_within(1 - (time.monotonic() - left))
    assert engine.finished() == finished, "it gave up, and did not just come to the end of its work"
    wait_for("the audit record", lambda: len(over_tcp.records(outcome="client-left")) == left_before + 1)


def test_a_client_that_reads_to_the_end_leaves_the_connection_for_the_next(over_tcp: Serving, tap: Tap) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    body = orjson.dumps(LONG | {"max_tokens": 2})
    ask = request("/v1/chat/completions", over_tcp.host, method="POST", headers=headers, body=body)
    with Connection(over_tcp.address) as client:
        client.send(ask)
        assert client.answer().status == 200
        before = len(tap.connections)
        client.send(ask)
        assert client.answer().status == 200
    assert len(tap.connections) == before
