"""The ops listener has the door of the planes: what never ends, is too long or is no HTTP ends there."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from gateway.adapters.edge_limits import HEAD_AT_MOST, EdgeLimits
from gateway.adapters.ops_door import HEADERS, OpsDoor
from tests.adapters.wiring import serving

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from tests.adapters.wiring import Answer

HEAD = b"GET /seen?a=%62 HTTP/1.1\r\nhost: x\r\nX-One: 1\r\n"


async def _seen(request: Request) -> Response:
    async with asyncio.timeout(5):  # only a task may
        await asyncio.sleep(0)
    seen = {"path": request.url.path, "query": request.url.query, "one": request.headers["x-one"]}
    return JSONResponse(seen, headers={"x-more": "2"})


async def _broken(_request: Request) -> Response:
    raise RuntimeError("of ours")


async def _failed(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": "The gateway failed."}, 500)


DOOR = OpsDoor(Starlette(routes=[Route("/seen", _seen), Route("/broken", _broken)], exception_handlers={500: _failed}))


async def ask(data: bytes, method: str = "GET") -> Answer:
    async with serving(DOOR, EdgeLimits(head_s=0.2)) as served, served.client() as client:
        client.send(data)
        return await client.answer(method)


def refused(answer: Answer) -> int:
    """Give the status of a refusal, which has what every answer of this listener has."""
    assert answer.headers.items() >= HEADERS.items()
    assert len(answer.headers["x-request-id"]) == 32
    assert set(json.loads(answer.body)) == {"error"}
    return answer.status


async def test_the_application_sees_the_request_and_its_answer_goes_out_with_an_id() -> None:
    answer = await ask(HEAD + b"\r\n")
    assert (answer.status, answer.headers["x-more"]) == (200, "2")
    assert json.loads(answer.body) == {"path": "/seen", "query": "a=%62", "one": "1"}
    assert len(answer.headers["x-request-id"]) == 32


async def test_an_answer_to_head_has_no_body_and_the_length_of_the_one_to_get() -> None:
    whole = await ask(HEAD + b"\r\n")
    answer = await ask(HEAD.replace(b"GET", b"HEAD") + b"\r\n", "HEAD")
    assert (answer.status, answer.headers["content-length"]) == (200, str(len(whole.body)))


async def test_connections_are_kept() -> None:
    async with serving(DOOR) as served, served.client() as client:
        ids = set()
        for _ in range(3):
            client.send(HEAD + b"\r\n")
            ids.add((await client.answer("GET")).headers["x-request-id"])
    assert len(ids) == 3


async def test_a_head_that_does_not_end_is_given_up() -> None:
    assert refused(await ask(HEAD)) == 408


async def test_a_head_that_is_too_long_is_refused() -> None:
    assert refused(await ask(HEAD + b"x-two: " + b"a" * HEAD_AT_MOST)) == 431


@pytest.mark.parametrize(
    "data, status",
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET http://x/seen HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET /%73een HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    ],
)
async def test_what_is_no_plain_request_is_refused(data: bytes, status: int) -> None:
    assert refused(await ask(data)) == status


async def test_further_connections_than_may_be_open_are_closed() -> None:
    async with serving(DOOR, EdgeLimits(connections=1)) as served, served.client(), served.client() as second:
        assert await second.rest() == b""


async def test_a_bug_is_answered_and_reported() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    assert (await ask(b"GET /broken HTTP/1.1\r\nhost: x\r\n\r\n")).status == 500
    assert [str(error) for error in reported] == ["of ours"]
