"""Clients that behave in every way, in front of an engine that does too: seeded, so that a run can be had again.

Enters: a running site, a seed and a number of requests. Leaves: for each request that was sent, by the ``x-request-id``
that it bore, how many audit records it must have: one where its head was complete, none where it was not.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import orjson

from tests.e2e.fault_matrix import FAULTS, FaultyEngine
from tests.e2e.site import CHAT, MODELS
from tests.simulators.raw_engine import DONE, LAST, MIB, Flood, chunk, stream, token

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.e2e.site import Site

STORY: list[str] = []
"""What the runs of this session say at its end."""

AT_ONCE = 24
PATIENCE_S = 30.0
_RESET = b"\x01\0\0\0\0\0\0\0"
_SLOW = ("slow-head", "slow-body")  # they hold a place for as long as a deadline: a few are enough
_SCRIPTS = [
    *(f"{name}{kind}" for name in FAULTS if name not in {"refused", "black-hole", *_SLOW} for kind in ("", "-stream")),
    *["chat", "chat-stream", "long-stream", "long-stream", "big-stream"] * 5,
]


class ChaoticEngine(FaultyEngine):
    """An engine with all faults, and with long and big answers from which a client can leave."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = {
            **self.scripts,
            "slow-stream": (stream(), *(step for n in range(40) for step in (token(str(n)), 0.2)), DONE, LAST),
            "long-stream": (stream(), *(step for n in range(12) for step in (token(str(n)), 0.01)), DONE, LAST),
            "big-stream": (stream(), Flood(chunk(b"data: " + b"x" * 65536 + b"\n\n"), 2 * MIB // 65536), DONE, LAST),
        }


@dataclass
class Chaos:
    """One run."""

    site: Site
    seed: int
    expected: dict[str, int] = field(default_factory=dict)
    ways: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    late: list[str] = field(default_factory=list)
    _token: str = ""

    async def run(self, requests: int) -> None:
        """Send so many requests, some at a time."""
        chance = random.Random(self.seed)  # noqa: S311  (a game, not a key)
        places = asyncio.Semaphore(AT_ONCE)

        async def visit(way: Callable[[Visit], Awaitable[None]], one: Visit) -> None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await way(one)
            except TimeoutError:
                self.late.append(f"{one.number} {way.__name__} {one.script}")
            except (ConnectionError, asyncio.IncompleteReadError):
                self.answers["cut"] += 1
            finally:
                places.release()

        async with asyncio.TaskGroup() as group:
            number = 0
            while number < requests:
                if number % 200 == 0:
                    self._token = self.site.issuer.token(client_id="cli-2")
                way, weight = chance.choice(_WAYS)
                self.ways[way.__name__] += weight
                await places.acquire()
                group.create_task(visit(way, Visit(self, number, random.Random(chance.random()))))  # noqa: S311
                number += weight

    @property
    def bearer(self) -> str:
        """A good token."""
        return self._token


class Visit:
    """One connection of one client."""

    def __init__(self, chaos: Chaos, number: int, chance: random.Random) -> None:
        self.chaos = chaos
        self.number = number
        self.chance = chance
        slow = chance.random() < 0.01
        self.script = chance.choice(_SLOW if slow else _SCRIPTS)
        self._sent = 0

    async def __aenter__(self) -> Self:
        """Connect."""
        made = socket.socket()
        if self.chance.random() < 0.2:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, self.chaos.site.address)
        self._socket = made
        self._reader, self._writer = await asyncio.open_connection(sock=made, limit=65536)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave in one of the ways there are."""
        self._writer.transport.abort()
        await asyncio.sleep(0)

    def request(self, *, good: bool = True) -> bytes:
        """Write a request with an id of its own, which must be recorded once."""
        name = f"chaos-{self.chaos.seed}-{self.number + self._sent}"
        self._sent += 1
        self.chaos.expected[name] = 1
        fields = {"host": self.chaos.site.host, "authorization": f"Bearer {self.chaos.bearer}", "x-request-id": name}
        method, target, body = "POST", CHAT, b""
        message = {"role": "user", "content": f"script:{self.script}"}
        call = {"model": "raw", "messages": [message], "stream": self.script.endswith("-stream")}
        if not good:
            match self.chance.randrange(6):
                case 0:
                    fields["authorization"] = "Bearer nobody"
                case 1:
                    target = "/metrics"
                case 2:
                    call["model"] = "no-such-model"
                case 3:
                    call["unknown"] = 1
                case 4:
                    fields["content-encoding"] = "gzip"
                case _:
                    method, target = "GET", MODELS
        if method == "POST":
            body = orjson.dumps(call)
            fields |= {"content-type": "application/json", "content-length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + body

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    async def trickle(self, data: bytes) -> None:
        """Send in small pieces."""
        step = self.chance.choice([1, 7, 64])
        for at in range(0, len(data), step):
            self._writer.write(data[at : at + step])
            await asyncio.sleep(0)

    async def answer(self, *, at_most: int | None = None) -> None:
        """Read one answer, or so many bytes of it and no more."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        self.chaos.answers[head[9:12].decode("ascii")] += 1
        if at_most is not None:
            await self._reader.read(at_most)
            return
        fields = dict(line.partition(b": ")[::2] for line in head.lower().split(b"\r\n")[1:-2])
        if b"content-length" in fields:
            await self._reader.readexactly(int(fields[b"content-length"]))
            return
        assert fields[b"transfer-encoding"] == b"chunked"
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            await self._reader.readexactly(size + 2)
        await self._reader.readexactly(2)

    async def pause(self) -> None:
        """Wait, often not at all."""
        await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.01, 0.05]))

    async def leave(self) -> None:
        """Go away: an orderly end, a half-close, or a reset."""
        await self.pause()
        match self.chance.randrange(3):
            case 0:
                self._writer.close()
            case 1:
                self._writer.write_eof()
                with contextlib.suppress(ConnectionError):
                    await self._reader.read()
            case _:
                with contextlib.suppress(OSError):  # the gateway was faster: the socket is closed
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                self._writer.transport.abort()
        await asyncio.sleep(0)


async def stays(visit: Visit) -> None:
    """Ask, and read the whole answer."""
    async with visit:
        visit.send(visit.request())
        await visit.answer()


async def asks_thrice(visit: Visit) -> None:
    """Ask three times on one connection, each time behind the answer."""
    async with visit:
        for _ in range(3):
            data = visit.request(good=visit.chance.random() < 0.7)
            visit.send(data)
            try:
                await visit.answer()
            except (ConnectionError, asyncio.IncompleteReadError):
                return


async def pipelines(visit: Visit) -> None:
    """Ask three times at once for what does not break; the answers come in order."""
    async with visit:
        visit.script = visit.chance.choice(["chat", "chat-stream"])
        visit.send(visit.request() + visit.request() + visit.request())
        for _ in range(3):
            await visit.answer()


async def leaves_a_pipeline(visit: Visit) -> None:
    """Ask three times at once, and leave while some of it waits: each head was complete."""
    async with visit:
        visit.send(visit.request() + visit.request() + visit.request())
        await visit.leave()


async def trickles(visit: Visit) -> None:
    """Send in small pieces."""
    async with visit:
        await visit.trickle(visit.request())
        await visit.answer()


async def errs(visit: Visit) -> None:
    """Ask for what is refused."""
    async with visit:
        visit.send(visit.request(good=False))
        await visit.answer()


async def leaves_in_the_head(visit: Visit) -> None:
    """Leave before the head is complete: there is no request."""
    async with visit:
        head = visit.request().partition(b"\r\n\r\n")[0]
        visit.chaos.expected[f"chaos-{visit.chaos.seed}-{visit.number}"] = 0
        visit.send(head[: visit.chance.randrange(1, len(head))])
        await visit.leave()


async def leaves_in_the_body(visit: Visit) -> None:
    """Leave with a part of the body unsent."""
    async with visit:
        head, mark, body = visit.request().partition(b"\r\n\r\n")
        visit.send(head + mark + body[: visit.chance.randrange(len(body))])
        await visit.leave()


async def leaves_unanswered(visit: Visit) -> None:
    """Leave as soon as the request is out, or a little later."""
    async with visit:
        visit.send(visit.request())
        await visit.leave()


async def leaves_in_the_answer(visit: Visit) -> None:
    """Leave in the middle of the answer."""
    async with visit:
        visit.send(visit.request())
        await visit.answer(at_most=visit.chance.choice([0, 1, 100, 20_000, 300_000]))
        await visit.leave()


async def sends_garbage(visit: Visit) -> None:
    """Send what is no HTTP behind a good request, which is answered or cut off."""
    async with visit:
        visit.send(visit.request() + visit.chance.randbytes(visit.chance.randrange(1, 200)))
        await visit.answer()


_WAYS: list[tuple[Callable[[Visit], Awaitable[None]], int]] = [
    (stays, 1),
    (stays, 1),
    (stays, 1),
    (asks_thrice, 3),
    (pipelines, 3),
    (leaves_a_pipeline, 3),
    (trickles, 1),
    (errs, 1),
    (leaves_in_the_head, 1),
    (leaves_in_the_body, 1),
    (leaves_unanswered, 1),
    (leaves_unanswered, 1),
    (leaves_in_the_answer, 1),
    (leaves_in_the_answer, 1),
    (sends_garbage, 1),
]
"""Each way with the number of requests that it is."""
