"""What clients tell on kept connections: requests of every size, whole and in pieces, and refusals between them.

Enters: a running site, a seed and a name. Leaves: for each request that was answered, what it was and its answer. A
story is the same each time; how its bytes meet those of other stories is not.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from gateway.adapters.edge_limits import HEAD_AT_MOST
from tests.e2e.raw_http import request
from tests.e2e.site import BODY_LIMIT, CHAT, HI, KEYS, MODELS
from tests.simulators.raw_engine import LAST, chunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.e2e.raw_http import Answer, Connection
    from tests.e2e.site import Site

KIB = 1024
SIZES = (0, KIB, HEAD_AT_MOST - 600, HEAD_AT_MOST, 63 * KIB, 66 * KIB, 150 * KIB, 2048 * KIB)
PATIENCE_S = 20.0
PAUSES_S = (0.0, 0.0, 0.001, 0.02, 0.1)


@dataclass(frozen=True, slots=True)
class Sort:
    """What may be asked: how it differs from a good chat, and the status that it must get."""

    status: int
    method: str = "POST"
    target: str = CHAT
    fields: Mapping[str, str] = field(default_factory=dict)
    call: Mapping[str, object] = field(default_factory=dict)
    unsent: int = 0


CHATS = Sort(200)
LISTS = Sort(200, "GET", MODELS)
REFUSED = (
    Sort(401, fields={"Authorization": "Basic bm9ib2R5"}),
    Sort(404, target="/metrics"),
    Sort(404, call={"model": "nobody-has-it"}),
    Sort(405, "PUT"),
    Sort(400, call={"unknown": 1}),
    Sort(400, unsent=1),
    Sort(413, call={"padding": "z" * BODY_LIMIT}),
    Sort(415, fields={"Content-Type": "text/plain"}),
)
SORTS = (*[CHATS] * 12, *[LISTS] * 4, *REFUSED)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. ``reaches``: whether the engine must see it; ``waits``: whether its body waits to be wanted."""

    name: str
    method: str
    data: bytes
    status: int
    reaches: bool
    waits: bool = False


def asked(site: Site, chance: random.Random, name: str) -> Asked:
    """Think of one request, which bears its name in a field and, where it has one, in its body."""
    sort = chance.choice(SORTS)
    fields = {"Authorization": f"Bearer {KEYS['KEY-ABC']}", "X-Request-Id": name}
    if sort is LISTS:
        return Asked(name, "GET", request(MODELS, site.host, method="GET", headers=fields), 200, reaches=False)
    message = {"role": "user", "content": f"{name} " + "z" * chance.choice(SIZES)}
    call = {**HI, "messages": [message], "stream": chance.random() < 0.3, **sort.call}
    body = orjson.dumps(call)
    body = body[: len(body) - sort.unsent]
    fields = {**fields, "Content-Type": "application/json", **sort.fields}
    waits = chance.random() < 0.1
    if waits:
        fields["Expect"] = "100-continue"
    if chance.random() < 0.3:
        fields["Transfer-Encoding"] = "chunked"
        data = request(sort.target, site.host, method=sort.method, headers=fields)
        data += b"".join(_chunks(body, chance.choice([1000, 65536, 10**7])))
    else:
        data = request(sort.target, site.host, method=sort.method, headers=fields, body=body)
    return Asked(name, sort.method, data, sort.status, reaches=sort is CHATS, waits=waits)


def tell(site: Site, seed: int, length: int) -> Iterator[tuple[Asked, Answer]]:
    """Tell one story: ask one request after the other, on a connection for as long as that lives."""
    chance = random.Random(seed)  # noqa: S311  (a game, not a key)
    connection = site.connect(PATIENCE_S)
    try:
        for number in range(length):
            one = asked(site, chance, f"story-{seed}-{number}-end")
            _send(connection, one, chance)
            answer = connection.answer(one.method)
            yield one, answer
            if answer.closes:
                assert connection.ended()
                connection.socket.close()
                connection = site.connect(PATIENCE_S)
    finally:
        connection.socket.close()


def _send(connection: Connection, one: Asked, chance: random.Random) -> None:
    """Send a request in pieces."""
    cuts = {chance.randrange(len(one.data)) for _ in range(chance.choice([0, 0, 1, 4]))}
    if one.waits:
        cuts.add(one.data.index(b"\r\n\r\n") + 4)
    begin = 0
    for end in (*sorted(cuts), len(one.data)):
        connection.send(one.data[begin:end])
        time.sleep(chance.choice(PAUSES_S))
        begin = end


def _chunks(body: bytes, size: int) -> Iterator[bytes]:
    for begin in range(0, len(body), size):
        yield chunk(body[begin : begin + size])
    yield LAST
