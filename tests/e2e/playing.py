"""Chats that make the raw engine play a script, and what came of them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import orjson

from tests.e2e.raw_http import NotHttp
from tests.e2e.site import wait

if TYPE_CHECKING:
    from tests.e2e.raw_http import Answer, Connection
    from tests.e2e.site import Site
    from tests.simulators.raw_engine import Seen


def play(site: Site, connection: Connection, script: str, *, token: str = "") -> Seen:
    """Ask for a script on a connection; give the request as it came to the engine."""
    before = len(site.raw.asked)
    connection.send(site.script(script, token=token))
    wait(lambda: len(site.raw.asked) > before, "the request")
    return site.raw.asked[before]


def answer_to(site: Site, script: str, *, token: str = "") -> Answer:
    """Ask for a script and read the whole answer."""
    return site.ask(site.script(script, token=token))


def played_whole(site: Site, script: str) -> Seen:
    """Ask for a script that ends well; give the request as it came to the engine."""
    assert answer_to(site, script).status == 200
    return site.raw.asked[-1]


def flows(site: Site, script: str) -> tuple[bytes, Seen]:
    """Ask for a stream that ends badly; give what came until the connection was cut, and the engine's side."""
    data = b""
    with site.connect() as connection:
        played = play(site, connection, script)
        assert connection.head().status == 200
        with contextlib.suppress(NotHttp):
            for _, part in connection.chunks():
                data += part
            raise AssertionError("the stream that failed ended as if it had not")
        assert connection.ended()
    return data, played


def last_record(site: Site) -> dict[str, Any]:
    """Give the last line of the audit log; waits a little for the first."""
    wait(site.audit, "an audit record")
    record: dict[str, Any] = orjson.loads(site.audit().splitlines()[-1])
    return record
