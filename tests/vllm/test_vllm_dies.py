"""The last file: vLLM is killed while it streams. Nothing in these tests runs on it afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
import orjson
import pytest

from tests.e2e.raw_http import Connection, Silence, request
from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving


def read_and_kill(client: Connection, engine: RealEngine, received: list[bytes]) -> None:
    """Read a stream to its end, and kill its engine after three chunks."""
    for _, chunk in client.chunks():
        received.append(chunk)
        if len(received) == 3:
            engine.kill()


def test_a_stream_whose_engine_dies_does_not_look_finished_and_later_callers_are_told(
    over_socket: Serving, engine: RealEngine
) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    body = {"model": "small", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 450, "ignore_eos": True}
    received: list[bytes] = []
    with Connection(over_socket.address) as client:
        data = orjson.dumps(body | {"stream": True})
        client.send(request("/v1/chat/completions", over_socket.host, method="POST", headers=headers, body=data))
        head = client.head()
        assert head.status == 200
        with pytest.raises(Silence):
            read_and_kill(client, engine, received)
    assert b"[DONE]" not in b"".join(received)
    last = b"".join(received).rstrip().rpartition(b"data: ")[2]
    assert orjson.loads(last)["error"]["code"].startswith("engine-")
    assert over_socket.record(head.value("x-request-id") or "")["outcome"] == "engine-died"
    with (
        openai.OpenAI(base_url=over_socket.url, api_key=KEY, max_retries=0) as sdk,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        sdk.chat.completions.create(model="small", messages=[{"role": "user", "content": "hi"}])
    assert caught.value.status_code in {502, 503}
    assert caught.value.code == "engine-unavailable"
