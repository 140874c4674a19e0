from __future__ import annotations

import asyncio
import ssl
import time
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.adapters.engine_pool import trust
from gateway.adapters.ledger_scripts import Scripts
from gateway.adapters.ledger_valkey import UNDECIDED_AT_MOST, ValkeyLedger
from gateway.addresses import LedgerAddress, Tcp, Unix
from gateway.limits.ledger import Holder, Lease, Refused
from gateway.limits.limit import Limit
from gateway.reasons import Reason, Unavailable
from tests.simulators.certificates import Authority
from tests.simulators.resp_server import HANG, RespServer, numbers, resp_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

ACME = Holder("partner", "acme", "ann@example.com")
LIMIT = Limit("small", 60, 4, 1000, 5000)
IN = numbers(0, 0, 1, 60_000_000, 1_728_000_000_000_000)
NO_SCRIPT = b"-NOSCRIPT No matching script.\r\n"


@pytest.fixture(autouse=True)
def told() -> Iterator[list[Any]]:
    """Catch what the operator is told, wherever it would go by now."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
async def server() -> AsyncIterator[RespServer]:
    async with resp_server() as server:
        yield server


@pytest.fixture
async def ledger(server: RespServer) -> AsyncIterator[ValkeyLedger]:
    ledger = ValkeyLedger(server.address, "a-password", answer_s=0.2)
    yield ledger
    await ledger.close()


async def let_in(ledger: ValkeyLedger) -> Lease:
    lease = await ledger.enter(ACME, LIMIT)
    assert isinstance(lease, Lease)
    return lease


async def test_each_step_is_one_question_by_digest_with_keys_of_one_slot(
    server: RespServer, ledger: ValkeyLedger
) -> None:
    server.answers = [IN, numbers(0, 0, 110, 60_000_000, 110, 20_000, 5), numbers(1)]
    lease = await let_in(ledger)
    assert lease.requests == (60, 59, 60_000_000)
    assert await ledger.reserve(lease, 110) is None
    assert (lease.reserved, lease.on_day) == (110, 20_000)
    assert ledger.open == {("partner", "acme"): 1}
    assert lease.minute == (1000, 890, 60_000_000)
    assert lease.day == (5000, 4890, 86_400_000_000 - 5)
    await ledger.settle(lease, 42)
    await ledger.settle(lease, 42)
    assert ledger.open == {("partner", "acme"): 0}
    scripts = Scripts.on()
    assert [command[:3] for command in server.asked] == [
        [b"EVALSHA", script.digest.encode(), keys]
        for script, keys in ((scripts.enter, b"4"), (scripts.reserve, b"3"), (scripts.settle, b"2"))
    ]
    keys = {key for command in server.asked for key in command[3:5]}
    assert len({key[key.index(b"{") : key.index(b"}")] for key in keys}) == 1
    assert not any(b"acme" in part or b"ann" in part for command in server.asked for part in command)
    assert lease.id.startswith("1728000000000000:"), "when it has begun, by the server's clock"
    assert server.asked[2][5:] == [lease.id.encode(), b"42", b"110", b"20000"]


async def test_the_password_is_sent_when_signing_in_and_nowhere_else(server: RespServer, ledger: ValkeyLedger) -> None:
    server.answers = [IN]
    await let_in(ledger)
    assert [b"AUTH", b"a-password"] in server.signed_in
    assert "a-password" not in repr(ledger)


@pytest.mark.parametrize("verdict,reason", [(1, Reason.OVER_RATE), (2, Reason.OVER_CONCURRENCY)])
async def test_a_refusal_is_told_with_its_wait(
    server: RespServer, ledger: ValkeyLedger, verdict: int, reason: Reason
) -> None:
    server.answers = [numbers(verdict, 1_500_000, 61, 2_000_000, 1_728_000_000_000_005, 110, 3_000_000, 210)]
    refusal = await ledger.enter(ACME, LIMIT)
    assert isinstance(refusal, Refused)
    assert (refusal.reason, refusal.retry_after, refusal.requests) == (reason, 2, (60, 0, 2_000_000))
    assert (refusal.minute, refusal.day) == ((1000, 890, 3_000_000), (5000, 4790, 86_400_000_000 - 5))


async def test_tokens_that_are_not_limited_are_told_so(server: RespServer, ledger: ValkeyLedger) -> None:
    server.answers = [IN, numbers(3, 7_000_000, 0, 0, 0, 20_000, 5)]
    lease = await ledger.enter(ACME, Limit("none", 60, 4))
    assert isinstance(lease, Lease)
    refusal = await ledger.reserve(lease, 10)
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after, refusal.minute, refusal.day) == (Reason.OVER_TOKENS, 7, None, None)
    assert server.asked[1][-3:] == [b"-1", b"-1", b"60"]


async def test_a_request_that_is_refused_already_is_counted_without_a_lease(
    server: RespServer, ledger: ValkeyLedger
) -> None:
    server.answers = [IN]
    await ledger.count(ACME, LIMIT)
    assert server.asked[0][9] == b""
    await ledger.keep()
    assert len(server.asked) == 1


async def test_a_server_that_has_not_seen_a_script_gets_its_text(server: RespServer, ledger: ValkeyLedger) -> None:
    server.answers = [NO_SCRIPT, IN]
    await let_in(ledger)
    assert [command[0] for command in server.asked] == [b"EVALSHA", b"EVAL"]
    assert server.asked[1][1].decode() == Scripts.on().enter.text


@pytest.mark.parametrize("answer", [b"-LOADING Redis is loading the dataset in memory\r\n", b"!!\r\n", HANG])
async def test_nobody_gets_in_when_the_server_fails_or_is_silent_and_it_is_asked_again_next_time(
    server: RespServer, ledger: ValkeyLedger, answer: bytes, told: list[Any]
) -> None:
    server.answers = [answer, IN]
    begun = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        await ledger.enter(ACME, LIMIT)
    assert time.monotonic() - begun < 2
    assert (caught.value.reason, caught.value.retry_after) == (Reason.LEDGER_UNAVAILABLE, 1)
    assert ledger.ready is False
    await let_in(ledger)
    assert [line["log_level"] for line in told] == ["error", "info"]


async def test_whether_the_server_is_there_is_asked_of_itself(server: RespServer, ledger: ValkeyLedger) -> None:
    server.answers = [b"-READONLY no\r\n", numbers(0)]
    assert not await ledger.answers()
    assert await ledger.answers()
    ping = Scripts.on().ping.digest.encode()
    assert server.asked == [[b"EVALSHA", ping, b"1", b"vgw:{ping}:sums"]] * 2


async def test_nobody_gets_in_when_there_is_no_server() -> None:
    ledger = ValkeyLedger(LedgerAddress(Unix("/nowhere/at/all.sock"), tls=False))
    for _ in range(2):
        with pytest.raises(Unavailable):
            await ledger.enter(ACME, LIMIT)
    await ledger.close()


async def test_what_is_held_is_renewed_and_what_is_settled_is_not(server: RespServer) -> None:
    ledger = ValkeyLedger(server.address, lease_s=0.03)
    server.answers = [IN]
    async with ledger.running():
        first, second = await let_in(ledger), await let_in(ledger)
        await ledger.settle(first, 0)
        server.asked.clear()
        await server.wait_for(1)
        await ledger.settle(second, 0)
    renewed = server.asked[0]
    assert renewed[1].decode() == Scripts.on().renew.digest
    assert renewed[4:] == [b"30000", second.id.encode()]


async def test_a_settlement_that_nobody_took_is_made_later(server: RespServer, ledger: ValkeyLedger) -> None:
    server.answers = [IN, b"-ERR no\r\n", b"-ERR no\r\n", numbers(1)]
    lease = await let_in(ledger)
    await ledger.settle(lease, 7)
    await ledger.keep()
    await ledger.keep()
    await ledger.keep()
    settled = [command[5:7] for command in server.asked if command[1].decode() == Scripts.on().settle.digest]
    assert settled == [[lease.id.encode(), b"7"]] * 3


async def test_a_settlement_that_is_cut_short_is_made_when_the_gateway_ends(server: RespServer) -> None:
    ledger = ValkeyLedger(server.address)
    server.answers = [IN, HANG, numbers(1)]
    async with ledger.running():
        lease = await let_in(ledger)
        async with asyncio.TaskGroup() as group:
            settling = group.create_task(ledger.settle(lease, 7))
            await server.wait_for(2)
            settling.cancel()
    assert server.asked[2][5:7] == [lease.id.encode(), b"7"]


async def test_who_never_learnt_whether_he_was_let_in_gives_back_what_he_may_hold(
    server: RespServer, ledger: ValkeyLedger
) -> None:
    server.answers = [HANG, b"-ERR no\r\n", numbers(1)]
    with pytest.raises(Unavailable):
        await ledger.enter(ACME, LIMIT)
    await ledger.keep()
    await ledger.keep()
    await ledger.keep()
    undone = [command[5:] for command in server.asked if command[1].decode() == Scripts.on().settle.digest]
    assert undone == [[b":" + server.asked[0][9], b"0", b"0", b"0"]] * 2
    assert ledger.open == {}


async def test_an_outage_does_not_fill_the_list_of_what_is_to_be_settled(
    server: RespServer, ledger: ValkeyLedger
) -> None:
    server.answers = [b"-ERR no\r\n"]
    for _ in range(UNDECIDED_AT_MOST + 3):
        with pytest.raises(Unavailable):
            await ledger.enter(ACME, LIMIT)
    assert len(ledger._unsettled) == UNDECIDED_AT_MOST


async def test_who_never_learnt_whether_tokens_were_reserved_settles_without_a_day_and_once_more(
    server: RespServer, ledger: ValkeyLedger
) -> None:
    server.answers = [IN, HANG, numbers(1), numbers(0)]
    model = (Holder.of_model("partner", "big"), Limit("big", 7, 3, 100))
    lease = await let_in(ledger)
    with pytest.raises(Unavailable):
        await ledger.reserve(lease, 110, model)
    await ledger.settle(lease, 0)
    await ledger.keep()
    settled = server.asked[2:]
    assert [command[2] for command in settled] == [b"4", b"4"], "the model's place as well"
    assert [command[7:] for command in settled] == [[lease.id.encode(), b"0", b"0", b"-1"]] * 2


async def test_what_is_left_is_settled_soon_and_not_only_with_the_next_renewal(server: RespServer) -> None:
    ledger = ValkeyLedger(server.address, lease_s=3600.0)
    server.answers = [IN, b"-ERR no\r\n", b"-ERR no\r\n", numbers(1)]
    async with ledger.running():
        await ledger.settle(await let_in(ledger), 7)
        async with asyncio.timeout(10):
            await server.wait_for(4)
            while not ledger.ready:  # noqa: ASYNC110  (who is told to end before the answer settles once more)
                await asyncio.sleep(0.01)
    assert [command[6] for command in server.asked[1:]] == [b"7"] * 3


async def test_whoever_is_cancelled_while_it_asks_ends_wherever_it_is(server: RespServer, ledger: ValkeyLedger) -> None:
    """The library's own time limit for a write would swallow it on Python 3.11; so the gateway once did not stop."""
    server.answers = [IN]
    await let_in(ledger)
    turns, asking = 0, asyncio.ensure_future(ledger.ping())
    while not asking.done():
        turns += 1
        for _ in range(turns):
            await asyncio.sleep(0)
        if asking.cancel():
            await asyncio.wait((asking,))
            assert asking.cancelled(), f"after {turns} turns"
            asking = asyncio.ensure_future(ledger.ping())
    assert turns > 3, "it had something to wait for"


async def test_a_certificate_must_be_good_and_for_the_host_that_was_named() -> None:
    ledger = ValkeyLedger(LedgerAddress(Tcp("cache.example.com", 6379), tls=True, database=3, name="gateway"), "x")
    connection = ledger._server.connection_pool.make_connection()
    context = connection.ssl_context.get()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert (connection.db, connection.username) == (3, "gateway")


def settled_keys(entered: list[bytes]) -> list[bytes]:
    """Give the keys of leases and sums of whoever entered with this command."""
    return [entered[4], entered[4].replace(b"leases", b"sums")]


async def test_a_model_is_asked_about_in_the_same_question_and_its_place_is_renewed_and_given_back(
    server: RespServer, ledger: ValkeyLedger
) -> None:
    server.answers = [IN, numbers(0, 0, 110, 60_000_000, 110, 20_000, 5), numbers(0)]
    model = (Holder.of_model("partner", "big"), Limit("big", 7, 3, 100))
    lease = await let_in(ledger)
    assert await ledger.reserve(lease, 110, model) is None
    asked = server.asked[1]
    assert asked[2] == b"7"
    assert len({key[key.index(b"{") : key.index(b"}")] for key in asked[3:10]}) == 1
    assert asked[11:] == [b"110", b"1000", b"5000", b"60", b"7", b"3", b"100", b"-1", b"30000000"]
    await ledger.keep()
    assert [command[4:] for command in server.asked[2:]] == [[b"30000000", lease.id.encode()]] * 2
    await ledger.settle(lease, 42)
    assert server.asked[4][2] == b"4"
    assert server.asked[4][3:7] == [*settled_keys(server.asked[0]), *asked[7:9]]
    await ledger.keep()
    assert len(server.asked) == 5, "nothing is held any more"
    assert ledger.open == {("partner", "acme"): 0}


@pytest.mark.parametrize(
    "verdict,reason", [(11, Reason.OVER_RATE), (12, Reason.OVER_CONCURRENCY), (13, Reason.OVER_TOKENS)]
)
async def test_a_refusal_of_a_model_is_told_apart_from_the_clients_own(
    server: RespServer, ledger: ValkeyLedger, verdict: int, reason: Reason
) -> None:
    server.answers = [IN, numbers(verdict, 1_500_000, 0, 0, 0, 20_000, 5)]
    lease = await let_in(ledger)
    refusal = await ledger.reserve(lease, 10, (Holder.of_model("partner", "big"), LIMIT))
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after, refusal.shared) == (reason, 2, True)
    assert lease.shared is None


async def test_with_a_file_of_authorities_those_are_believed_and_nobody_else_is(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    pair = ours.server()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.cert, pair.key)
    async with resp_server(tls) as server:
        server.answers = [IN]
        believing, doubting = (ValkeyLedger(server.address, tls=trust(one.ca)) for one in (ours, other))
        await let_in(believing)
        with pytest.raises(Unavailable):
            await doubting.enter(ACME, LIMIT)
        assert len(server.asked) == 1
        await believing.close()
        await doubting.close()


async def test_a_question_whether_it_is_there_says_what_is_wrong(server: RespServer, ledger: ValkeyLedger) -> None:
    server.answers = [b"-NOPERM no\r\n", numbers(0)]
    with pytest.raises(Unavailable, match="NoPermissionError"):
        await ledger.ping()
    await ledger.ping()
    assert ledger.ready
