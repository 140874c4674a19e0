"""What an engine is told, and what it may answer to questions of our own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from gateway import __version__
from gateway.adapters.engine_client import FETCHED_AT_MOST, EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.addresses import engine_address
from gateway.dialects.registry import DIALECTS
from gateway.policy.model import Deadlines
from gateway.ports import Upload, UpstreamRequest
from gateway.reasons import Reason, Unavailable
from tests.adapters.relaying import LAST, chunk, head, playing, whole

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from tests.adapters.relaying import Line, Play, PlayedEngine

pytestmark = pytest.mark.usefixtures("nothing_left")


def client_of(url: str, key: str | None = "KEY") -> EngineClient:
    return EngineClient(EnginePool(engine_address(url), idle=1, keep_alive_s=9, connect_s=1), key)


def request(body: bytes = b"{}", *, stream: bool = False, path: str = "/v1/chat/completions") -> UpstreamRequest:
    return UpstreamRequest(
        "ab" * 16, "public", "main", "POST", path, body, stream, DIALECTS["openai-chat"], Deadlines(1, 1, 1), []
    )


@asynccontextmanager
async def asking(play: Play) -> AsyncIterator[tuple[EngineClient, PlayedEngine]]:
    async with playing(play) as (engine, url):
        yield client_of(url), engine


class Kept:
    """A spool that was written."""

    size = 40

    async def write(self, data: bytes) -> None:
        raise AssertionError("a head needs nothing written")

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        yield b""

    def close(self) -> None:
        raise AssertionError("a head closes nothing")


async def test_the_head_of_a_form_has_its_boundary_and_its_whole_length() -> None:
    client = client_of("http://[::1]:8000")
    asked = request(b"12345", stream=True, path="/v1/audio/transcriptions")
    asked.upload = Upload("B0", Kept(), b"678")
    head = client.head(asked).decode("ascii")
    assert head.startswith("POST /v1/audio/transcriptions HTTP/1.1\r\nhost: [::1]:8000\r\n")
    assert head.endswith(
        "accept: text/event-stream\r\n"
        "content-type: multipart/form-data; boundary=B0\r\n"
        "x-request-id: abababababababababababababababab\r\n"
        "content-length: 48\r\n\r\n"
    )


async def test_the_head_of_a_relayed_request_is_built_of_constants_an_id_and_a_length() -> None:
    client = client_of("http://[::1]:8000")
    assert (
        client.head(request(b"abc"))
        == (
            b"POST /v1/chat/completions HTTP/1.1\r\n"
            b"host: [::1]:8000\r\n"
            b"user-agent: vllm-gateway/%b\r\n"
            b"accept-encoding: identity\r\n"
            b"authorization: Bearer KEY\r\n"
            b"accept: application/json\r\n"
            b"content-type: application/json\r\n"
            b"x-request-id: abababababababababababababababab\r\n"
            b"content-length: 3\r\n\r\n"
        )
        % __version__.encode()
    )


async def test_each_kind_of_request_has_its_own_head() -> None:
    client = client_of("http://engine.internal", key=None)
    plain, stream, other = (
        client.head(one) for one in (request(), request(stream=True), request(path="/v1/embeddings"))
    )
    assert b"accept: text/event-stream\r\n" in stream
    assert b"accept: application/json\r\n" in plain
    assert other.startswith(b"POST /v1/embeddings HTTP/1.1\r\nhost: engine.internal\r\n")
    assert client.head(request()) == plain


async def test_an_engine_without_a_key_gets_none() -> None:
    assert b"authorization" not in client_of("http://engine.internal", key=None).head(request())


async def test_a_client_does_not_show_its_key() -> None:
    assert "KEY" not in repr(client_of("http://engine.internal"))


async def test_a_question_of_our_own_says_so_and_closes() -> None:
    seen: list[bytes] = []

    async def play(line: Line) -> None:
        seen.append(line.head + line.body)
        await line.send(whole(b"pong"))

    async with asking(play) as (client, _):
        assert await client.fetch("GET", "/v1/models", timeout_s=1) == (200, b"pong")
        assert await client.fetch("POST", "/sleep", timeout_s=1, body=b"abc") == (200, b"pong")
    for sent in seen:
        assert f"user-agent: vllm-gateway/{__version__} (probe)\r\n".encode() in sent
        assert b"authorization: Bearer KEY\r\n" in sent
        assert b"connection: close\r\n" in sent
    assert seen[0].endswith(b"\r\n\r\n")
    assert seen[1].endswith(b"content-length: 3\r\nconnection: close\r\n\r\nabc")


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    "said",
    [
        whole(b"pong"),
        head("transfer-encoding: chunked") + chunk(b"po") + chunk(b"ng") + LAST,
        head() + b"pong",
        whole(b"pong") + b"excess",
    ],
)
async def test_the_answer_is_read_whatever_its_framing(said: bytes, step: int) -> None:
    async def play(line: Line) -> None:
        await line.send(said, step=step)
        line.close()

    async with asking(play) as (client, _):
        assert await client.fetch("GET", "/", timeout_s=2) == (200, b"pong")


@pytest.mark.parametrize(
    "said, reason, detail",
    [
        (b"garbage\r\n\r\n", Reason.ENGINE_MALFORMED, "head"),
        (whole(b"x" * (FETCHED_AT_MOST + 1)), Reason.ENGINE_MALFORMED, "answer too long"),
        (head("content-length: 9") + b"half", Reason.ENGINE_UNAVAILABLE, "connection closed"),
        (b"", Reason.ENGINE_UNAVAILABLE, "connection closed"),
    ],
)
async def test_an_answer_that_is_none_makes_the_engine_unavailable(said: bytes, reason: Reason, detail: str) -> None:
    async def play(line: Line) -> None:
        await line.send(said)
        line.close()

    async with asking(play) as (client, _):
        with pytest.raises(Unavailable) as unavailable:
            await client.fetch("GET", "/", timeout_s=2)
        assert (unavailable.value.reason, unavailable.value.detail) == (reason, detail)


async def test_an_engine_that_does_not_answer_in_time_is_late_and_is_left() -> None:
    gone = asyncio.Event()

    async def play(line: Line) -> None:
        await line.gone()
        gone.set()

    async with asking(play) as (client, _):
        with pytest.raises(Unavailable) as unavailable:
            await client.fetch("GET", "/", timeout_s=0.1)
        assert (unavailable.value.reason, unavailable.value.detail) == (Reason.ENGINE_TIMEOUT, "total")
        async with asyncio.timeout(1):
            await gone.wait()


async def test_a_question_that_is_given_up_leaves_the_engine() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def play(line: Line) -> None:
        asked.set()
        await line.gone()
        gone.set()

    async with asking(play) as (client, _), asyncio.TaskGroup() as tasks:
        question = tasks.create_task(client.fetch("GET", "/", timeout_s=9))
        await asked.wait()
        question.cancel()
        async with asyncio.timeout(1):
            await gone.wait()
