from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from gateway.adapters.outbox import TOGETHER, Outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio


class Written:
    """A transport that notes in ``log`` what is written to it."""

    def __init__(self, name: str, log: list[tuple[str, bytes]]) -> None:
        self._name = name
        self._log = log
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        self._log.append((self._name, data))


def transports(log: list[tuple[str, bytes]], names: str) -> Sequence[asyncio.WriteTransport]:
    return [cast("asyncio.WriteTransport", Written(name, log)) for name in names]


async def test_what_is_written_in_one_turn_goes_out_at_its_end_in_order() -> None:
    log: list[tuple[str, bytes]] = []
    a, b = transports(log, "ab")
    outbox = Outbox()
    outbox.write(a, b"1")
    outbox.write(b, b"2")
    outbox.write(a, b"3")
    assert log == []
    await asyncio.sleep(0)
    assert log == [("a", b"1"), ("b", b"2"), ("a", b"3")]
    outbox.write(b, b"4")
    await asyncio.sleep(0)
    assert log[3:] == [("b", b"4")]


async def test_an_engine_is_not_kept_waiting_until_a_long_turn_has_ended() -> None:
    log: list[tuple[str, bytes]] = []
    (a,) = transports(log, "a")
    outbox = Outbox()
    for number in range(TOGETHER + 1):
        outbox.write(a, b"%d" % number)
    assert [data for _, data in log] == [b"%d" % number for number in range(TOGETHER)]
    await asyncio.sleep(0)
    assert len(log) == TOGETHER + 1


async def test_what_waits_is_written_when_somebody_asks_and_not_once_more() -> None:
    log: list[tuple[str, bytes]] = []
    (a,) = transports(log, "a")
    outbox = Outbox()
    outbox.flush()
    outbox.write(a, b"1")
    outbox.flush()
    assert log == [("a", b"1")]
    await asyncio.sleep(0)
    assert log == [("a", b"1")]


async def test_a_connection_that_is_closing_gets_nothing_more_and_the_others_do() -> None:
    log: list[tuple[str, bytes]] = []
    a, b = transports(log, "ab")
    outbox = Outbox()
    outbox.write(a, b"1")
    outbox.write(b, b"2")
    cast("Written", a).closing = True
    await asyncio.sleep(0)
    assert log == [("b", b"2")]
