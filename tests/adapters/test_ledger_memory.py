from __future__ import annotations

import pytest

from gateway.adapters.ledger_memory import MemoryLedger
from gateway.limits.ledger import Holder, Lease
from gateway.limits.limit import Limit
from tests.ledgers import ACME, NOON, SECOND, LedgerContract, Ledgers, let_in


class Hands:
    """The hands of a clock."""

    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> int:
        return self.at * 1000  # the ledger counts in nanoseconds

    async def move(self, to: int) -> None:
        self.at = to


@pytest.fixture
def ledgers() -> Ledgers:
    clock = Hands()
    ledger = MemoryLedger(clock, clock)
    return Ledgers(ledger, ledger, clock.move)


class TestInMemory(LedgerContract):
    """The contract, kept in memory."""


async def test_who_was_not_here_lately_is_forgotten_and_who_holds_a_place_is_not() -> None:
    clock = Hands()
    ledger = MemoryLedger(clock, clock)
    limit = Limit("people", 10, 2)
    lease = await let_in(ledger, limit, Holder("p", "c", "stays"))
    for person in range(1000):
        ledger.settle(await let_in(ledger, limit, Holder("p", "c", str(person))), 0)
        clock.at += SECOND
    assert len(ledger) < 100
    assert ledger.open == {("p", "c"): 1}
    ledger.settle(lease, 0)
    assert ledger.open == {("p", "c"): 0}


async def test_the_clock_of_the_machine_is_the_default() -> None:
    ledger = MemoryLedger()
    lease = await let_in(ledger, Limit("l", 1, 1, 10, 10))
    assert ledger.reserve(lease, 5) is None
    assert isinstance(lease, Lease)
    assert lease.day is not None
    assert 0 < lease.day.reset_us <= 86_400 * SECOND
    assert ledger.open == {ACME[:2]: 1}
