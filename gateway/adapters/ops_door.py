"""The ops application behind the door that planes have: its deadline, its caps, its refusals.

Enters: requests of ``EdgeProtocol``, and an ASGI application. Leaves: that application's answers, each with an
``x-request-id``. An open port needs the bounds of that protocol whoever listens on it: uvicorn's own reads a head
without end for as long as it comes. Bodies are not read, since nothing here takes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from gateway.adapters.clock import new_request_id
from gateway.adapters.walk import in_task
from gateway.reasons import ANSWERS, Malformed
from gateway.wire.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from starlette.types import ASGIApp

    from gateway.adapters.downstream import Downstream

HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
"""What every answer of the ops listener has."""


class OpsDoor:
    """An application for ``EdgeProtocol`` out of one for ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, inbound: Downstream) -> None:
        """Answer one request."""
        try:
            if inbound.refusal is not None:
                raise inbound.refusal
            target = Target.parse(inbound.target)
        except Malformed as malformed:
            answer = ANSWERS[malformed.reason]
            fields = [*HEADERS.items(), ("content-type", "application/json")]
            _answer(inbound, answer.status, fields, orjson.dumps({"error": answer.sentence}))
            return
        await in_task()  # readiness asks others, with a deadline
        said: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request"}

        async def send(message: MutableMapping[str, Any]) -> None:
            said.append(message)

        try:
            await self._app(_scope(inbound, target), receive, send)
        finally:  # after a bug the answer is there all the same, and whoever runs this reports the error
            if said:
                head, *parts = said
                fields = [(name.decode(), value.decode()) for name, value in head["headers"]]
                _answer(inbound, head["status"], fields, b"".join(part["body"] for part in parts))


def _answer(inbound: Downstream, status: int, fields: Iterable[tuple[str, str]], body: bytes) -> None:
    """Write an answer; how long it is, is for the door to say."""
    named = [("x-request-id", new_request_id()), *(field for field in fields if field[0] != "content-length")]
    inbound.answer(status, [f"{name}: {value}\r\n".encode() for name, value in named], body)


def _scope(inbound: Downstream, target: Target) -> dict[str, Any]:
    """Describe a request as ASGI does; a canonical path has nothing to decode."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": inbound.http_version,
        "method": inbound.method,
        "scheme": "http",
        "path": target.path.decode("ascii"),
        "raw_path": target.path,
        "query_string": target.query or b"",
        "root_path": "",
        "headers": inbound.headers.pairs(),
        "client": None,
        "server": None,
    }
