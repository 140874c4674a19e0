"""What only a real server can show: the contract on its arithmetic, its clock, its keys, its death and its return."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from valkey.asyncio import Valkey

from gateway.adapters.ledger_scripts import SERVER_CLOCK, Scripts
from gateway.adapters.ledger_valkey import ValkeyLedger
from gateway.addresses import LedgerAddress, Tcp, Unix
from gateway.limits.ledger import MINUTE_US, Holder, Lease
from gateway.limits.limit import Limit
from gateway.limits.tally import DAY_US
from gateway.reasons import Reason, Unavailable
from tests.ledgers import ACME, BIG, COUNTED, NOON, SMALL, LedgerContract, Ledgers, kept_out, let_in, of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.valkey.server import Server

CLOCK = "local clock = redis.call('HMGET', 'clock-of-the-tests', 's', 'us')\n"
PLACES = Limit("places", 1000, 2)


def ledger(server: Server, *, clock: str = SERVER_CLOCK, lease_s: float = 30.0, answer_s: float = 1.0) -> ValkeyLedger:
    """Make the ledger of one gateway."""
    return ValkeyLedger(
        LedgerAddress(Unix(server.path), tls=False),
        server.password,
        scripts=Scripts.on(clock),
        lease_s=lease_s,
        answer_s=answer_s,
    )


@pytest.fixture
async def raw(server: Server) -> AsyncIterator[Any]:
    """Look at the server itself; nothing is left in it from the test before."""
    client = Valkey(unix_socket_path=server.path, password=server.password)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def ledgers(server: Server, raw: Any) -> AsyncIterator[Ledgers]:  # noqa: ANN401  (valkey's client has loose types)
    """Two gateways on one server, whose clock stands at noon."""

    async def move(to: int) -> None:
        await raw.hset("clock-of-the-tests", mapping={"s": to // 1_000_000, "us": to % 1_000_000})

    await move(NOON)
    one, other = ledger(server, clock=CLOCK, lease_s=10**6), ledger(server, clock=CLOCK, lease_s=10**6)
    async with one.running(), other.running():
        yield Ledgers(one, other, move)


class TestOnAServer(LedgerContract):
    """The contract, kept by a server for two gateways."""


@pytest.mark.usefixtures("raw")
async def test_the_servers_own_clock_counts(server: Server) -> None:
    one = ledger(server)
    async with one.running():
        lease = await let_in(one, COUNTED)
        assert await one.reserve(lease, 10) is None
        assert lease.day is not None
        assert abs(lease.day.reset_us // 1_000_000 - (86_400 - time.time() % 86_400)) < 5
        for _ in range(2):
            await let_in(one, Limit("few", 3, 9))
        assert 55 <= (await kept_out(one, Limit("few", 3, 9))).retry_after <= 60


async def test_every_key_has_an_end_and_one_tag_and_names_nobody(server: Server, raw: Any) -> None:  # noqa: ANN401
    one = ledger(server)
    async with one.running():
        lease = await let_in(one, COUNTED, Holder("partner", "acme", "ann@example.com"))
        assert await one.reserve(lease, 10) is None
        keys = sorted(key.decode() for key in await raw.keys())
        assert [key.rpartition(":")[2] for key in keys] == ["calls", "leases", "requests", "sums"]
        assert len({key[key.index("{") : key.index("}")] for key in keys}) == 1
        assert not any("acme" in key or "ann" in key for key in keys)
        assert all([0 < await raw.pttl(key) <= 86_500_000 for key in keys])
        assert 0 < await raw.pttl(keys[2]) <= 61_000
        await one.settle(lease, 3)
        await one.settle(await let_in(one, PLACES, Holder("partner", "no tokens")), 0)
        (learnt,) = [key for key in await raw.keys("*:sums") if key.decode() not in keys]
        assert 0 < await raw.pttl(learnt) <= 86_500_000


async def test_each_step_is_one_question(server: Server, raw: Any) -> None:  # noqa: ANN401
    async def asked() -> int:
        stats = await raw.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval", "script|load"))

    one = ledger(server)
    async with one.running():
        await one.settle(await let_in(one, COUNTED), 0)
        lease = await let_in(one, COUNTED)
        assert await one.reserve(lease, 10) is None
        await one.settle(lease, 0)
        before = await asked()
        lease = await let_in(one, COUNTED)
        assert await asked() == before + 1
        assert await one.reserve(lease, 10) is None
        assert await asked() == before + 2
        await one.settle(lease, 5)
        assert await asked() == before + 3


async def test_the_places_of_a_gateway_that_died_are_free_after_its_leases_and_those_of_one_that_lives_are_not(
    server: Server,
    raw: Any,  # noqa: ANN401
) -> None:
    dead, alive = ledger(server, lease_s=0.3), ledger(server, lease_s=0.3)
    await let_in(dead, PLACES)
    await dead.close()  # it never ran, so it renews nothing and settles nothing
    async with alive.running():
        held = (await let_in(alive, PLACES)).id
        ((key, first),) = [(key, await raw.zscore(key, held)) for key in await raw.keys("*:leases")]
        assert (await kept_out(alive, PLACES)).reason is Reason.OVER_CONCURRENCY
        while await raw.zscore(key, held) < first + 600_000:  # renewed until far behind the first lease
            pass
        await let_in(alive, PLACES)
        assert (await kept_out(alive, PLACES)).reason is Reason.OVER_CONCURRENCY


async def test_nobody_gets_in_while_the_server_is_dead_or_hangs_and_all_is_well_behind_it(
    server: Server,
    raw: Any,  # noqa: ANN401
) -> None:
    one = ledger(server, answer_s=0.3)
    async with one.running():
        lease = await let_in(one, COUNTED)
        assert await one.reserve(lease, 500) is None
        server.hang()
        begun = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            await one.enter(ACME, COUNTED)
        assert caught.value.reason is Reason.LEDGER_UNAVAILABLE
        assert time.monotonic() - begun < 1
        assert one.ready is False
        await one.settle(lease, 20)
        server.go_on()
        await one.keep()
        later = await let_in(one, COUNTED)
        assert await one.reserve(later, 1) is None
        assert later.minute is not None
        assert later.minute.left == 1000 - 21, "what could not be settled was settled later"
        server.stop()
        with pytest.raises(Unavailable):
            await one.enter(ACME, SMALL)
        server.start()
        await let_in(one)
    await raw.connection_pool.disconnect()


async def test_a_minute_that_nobody_used_is_forgotten_though_its_calls_have_expired(
    ledgers: Ledgers,
    raw: Any,  # noqa: ANN401
) -> None:
    one, stream = ledgers.one, await let_in(ledgers.one, COUNTED)
    assert await of(one.reserve(stream, 600)) is None
    await ledgers.move(NOON + 2 * MINUTE_US)
    await raw.delete(*await raw.keys("*:calls"))  # as the server does by itself after 61 s
    second = await let_in(one, COUNTED)
    assert await of(one.reserve(second, 900)) is None
    assert (second.minute, second.day) == ((1000, 100, MINUTE_US), (2500, 1000, DAY_US // 2 - 2 * MINUTE_US))
    await of(one.settle(stream, 10))
    third = await let_in(one, COUNTED)
    refusal = await of(one.reserve(third, 200))
    assert refusal is not None, "what a call of an earlier minute used less is no room in this one"
    assert (refusal.minute, refusal.day) == ((1000, 100, MINUTE_US), (2500, 1590, DAY_US // 2 - 2 * MINUTE_US))


async def test_what_a_server_did_that_hung_is_undone_when_it_goes_on(
    server: Server,
    raw: Any,  # noqa: ANN401
) -> None:
    one, other = ledger(server, answer_s=0.3), ledger(server)
    limit, model = Limit("one", 100, 1, tokens_per_day=1000), (BIG[0], Limit("model", 100, 1, tokens_per_day=1000))
    async with one.running():
        lease = await let_in(one, limit)
        assert await one.reserve(lease, 100, model) is None
        await one.settle(lease, 40)
        server.hang()
        with pytest.raises(Unavailable):
            await one.enter(ACME, limit)
        server.go_on()
        assert (await kept_out(other, limit)).reason is Reason.OVER_CONCURRENCY, "it was let in, and nobody told it"
        await until_let_in(other, limit)
        lease = await let_in(one, limit, Holder("partner", "other"))
        server.hang()
        with pytest.raises(Unavailable):
            await one.reserve(lease, 100, model)
        await one.settle(lease, 0)
        server.go_on()
        lease = await until_let_in(one, limit, Holder("partner", "other"))
        assert await other.reserve(lease, 10, model) is None
        assert lease.day is not None
        assert lease.day.left == 990
        assert [await raw.hget(key, "spent") for key in sorted(await raw.keys("*:sums"))].count(b"50") == 1, (
            "the model's"
        )
    await other.close()


async def until_let_in(one: ValkeyLedger, limit: Limit, holder: Holder = ACME) -> Lease:
    """Ask until somebody is let in."""
    begun = time.monotonic()
    while not isinstance(answer := await one.enter(holder, limit), Lease):
        assert time.monotonic() - begun < 5
        await asyncio.sleep(0.05)
    return answer


async def test_a_server_that_only_reads_is_not_there_for_a_ledger(
    server: Server,
    raw: Any,  # noqa: ANN401
) -> None:
    one = ledger(server)
    assert await one.answers()
    await raw.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        with pytest.raises(Unavailable, match="ReadOnlyError"):
            await one.ping()
        assert not await one.answers()
    finally:
        await raw.execute_command("REPLICAOF", "NO", "ONE")
    assert await one.answers()
    await one.close()


@pytest.mark.usefixtures("raw")
async def test_a_wrong_password_lets_nobody_in_and_stands_in_no_error(server: Server) -> None:
    wrong = ValkeyLedger(LedgerAddress(Tcp("127.0.0.1", server.port), tls=False), "wrong-password")
    with pytest.raises(Unavailable) as caught:
        await wrong.enter(ACME, SMALL)
    await wrong.close()
    assert "wrong-password" not in f"{caught.value!r} {caught.value.detail}"


async def test_a_step_takes_less_than_two_milliseconds(server: Server, raw: Any) -> None:  # noqa: ANN401
    """Far above what it takes (0.3 ms), and far below what anybody would notice."""
    one = ledger(server)
    limit = Limit("wide", 100_000, 1000, 10**9, 10**9)
    async with one.running():
        times = []
        for _ in range(200):
            begun = time.perf_counter()
            lease = await let_in(one, limit)
            assert await one.reserve(lease, 10) is None
            await one.settle(lease, 5)
            times.append(time.perf_counter() - begun)
        assert sorted(times)[100] < 0.006
    assert cast("int", await raw.dbsize()) > 0
    assert MINUTE_US == 60_000_000
