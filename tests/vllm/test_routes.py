"""All 83 routes that vLLM 0.32 is known to have, each in many spellings, sent raw with a good credential.

What counts is what vLLM's own access log shows afterwards, and what arrived on the wire.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tests.e2e.raw_http import ask
from tests.vllm.conftest import KEY
from tests.vllm.spellings import SPELLINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving
    from tests.vllm.tap import Tap

ROUTES = orjson.loads((Path(__file__).parent.parent / "simulator" / "routes-0.32.0.json").read_bytes())
PERMITTED = {("POST", "/v1/chat/completions"), ("POST", "/v1/messages"), ("GET", "/v1/models")}
"""Of what the policy opens, the routes for which ``BODY`` is a whole request."""
PROBES = {("GET", "/v1/models", 200), ("GET", "/v1/models", 401), ("GET", "/metrics", 200), ("GET", "/health", 200)}
"""What gateways ask on their own; one of these tests has a wrong key, and looks after its engine all the same.

That nobody else asked for these is seen on the wire, where the gateway's own requests say that they are.
"""
ANY = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BODY = b'{"model":"small","messages":[{"role":"user","content":"hi"}],"max_tokens":1}'
_HEAD = re.compile(rb"(?:^|[\r\n}])([A-Z]+) (\S+) HTTP/1\.1\r\n((?:[^\r\n]+\r\n)+)\r\n")


def known() -> Iterator[tuple[str, str]]:
    """Give method and path of every route; where a route takes any method or any name, each method and one name."""
    for route in ROUTES:
        path = re.sub(r"\{[a-z_]+\}", "x", route["path"])
        for method in route["methods"]:
            yield from ((one, path) for one in (ANY if method == "*" else [method.split(" ")[0]]))


def written(method: str, target: str, host: str) -> bytes:
    """Write a request that every route would understand, with a good key."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {KEY}", "Connection: close"]
    if target == "/v1/realtime":
        lines += ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
        lines[3] = "Connection: Upgrade"
    body = BODY if method in {"POST", "PUT", "PATCH"} else b""
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def test_the_engine_alone_serves_anyone_who_reaches_it(engine: RealEngine) -> None:
    """A control: what the gateway keeps away works, without a key, and shows in the log."""
    mark = engine.mark()
    assert engine.ask("POST", "/invocations", BODY)[0] == 200
    assert engine.ask("GET", "/is_sleeping")[0] == 200
    served = [seen for seen in engine.served_since(mark) if seen not in PROBES]
    assert served == [("POST", "/invocations", 200), ("GET", "/is_sleeping", 200)]


def test_of_all_known_routes_only_the_permitted_reach_the_engine(
    over_tcp: Serving, engine: RealEngine, tap: Tap
) -> None:
    routes = set(known())
    assert len({path for _, path in routes}) >= 80
    mark, wire = engine.mark(), tap.mark()
    statuses = {
        (method, path): ask(over_tcp.address, written(method, path, over_tcp.host)).status
        for method, path in sorted(routes)
    }
    assert {route for route, status in statuses.items() if status < 400} == PERMITTED
    assert {route for route, status in statuses.items() if status >= 500} == set()
    served = engine.served_since(mark)
    asked = [(method, path, 200) for method, path in sorted(PERMITTED) if method == "POST"]
    assert sorted(one for one in served if one not in PROBES) == asked
    assert_only_ours(tap.sent(wire), [(method.encode(), path.encode()) for method, path, _ in asked])


def test_no_other_spelling_of_a_known_route_reaches_the_engine(over_tcp: Serving, engine: RealEngine, tap: Tap) -> None:
    assert len(SPELLINGS) >= 40
    canonical = {path for _, path in known()} | {path for _, path in PERMITTED}
    attempts = {
        (method, spelled)
        for method, path in known()
        for spell in SPELLINGS.values()
        if (spelled := spell(path)) not in canonical and (method, spelled.partition(" ")[0]) not in PERMITTED
    }
    mark, wire = engine.mark(), tap.mark()
    statuses = {attempt: ask(over_tcp.address, written(*attempt, over_tcp.host)).status for attempt in sorted(attempts)}
    assert {attempt: status for attempt, status in statuses.items() if not 400 <= status < 500} == {}
    assert set(engine.served_since(mark)) - PROBES == set()
    assert_only_ours(tap.sent(wire), [])
    print(f"{len(attempts)} requests: {len(set(known()))} routes and methods in {len(SPELLINGS)} spellings")  # noqa: T201


def assert_only_ours(sent: bytes, relayed: list[tuple[bytes, bytes]]) -> None:
    """See that the wire bore nothing but the gateway's own requests, and nothing of the client's."""
    assert KEY.encode() not in sent
    heads = _HEAD.findall(sent)
    assert [(method, target) for method, target, fields in heads if b"(probe)" not in fields] == relayed
    for _, _, fields in heads:
        assert re.search(rb"(?im)^user-agent: vllm-gateway/", fields)
