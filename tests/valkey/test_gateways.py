"""Two gateways on one server keep one limit; without the server, nobody is let in, and with it again, everybody."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.counting import Counted, counting
from tests.e2e.raw_http import Connection, ask, request
from tests.e2e.site import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.raw_http import Answer
    from tests.valkey.server import Server


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[tuple[Counted, Counted]]:
    """Run two gateways, each with engines of its own; one reaches the server by its socket, the other by TCP."""
    shared = {"LEDGER_PASSWORD": server.password}
    one, other = (tmp_path_factory.mktemp(name) for name in ("one", "other"))
    with (
        counting(one, LEDGER=f"unix:{server.path}", **shared) as first,
        counting(other, LEDGER=f"redis://127.0.0.1:{server.port}", **shared) as second,
    ):
        yield first, second


def refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code)


def ready(counted: Counted) -> tuple[int, list[str]]:
    """Ask whether a gateway can do its work, and what is wrong."""
    ops = counted.site.ops
    answer = ask(ops, request("/readyz", f"{ops[0]}:{ops[1]}"))
    return answer.status, answer.json["problems"]


def test_a_minute_is_one_for_both(both: tuple[Counted, Counted]) -> None:
    first, second = (counted.person("few", "shared-minute") for counted in both)
    answers = [person.ask() for person in (first, second, first, second, first)]
    assert [answer.value("x-ratelimit-remaining-requests") for answer in answers] == ["4", "3", "2", "1", "0"]
    refused(first.ask(), 429, "over-rate")
    refused(second.ask(), 429, "over-rate")
    assert both[1].person("few").ask().status == 200


def test_places_are_one_for_both_and_free_at_once(both: tuple[Counted, Counted]) -> None:
    first, second = (counted.person("single", "shared-place") for counted in both)
    with first.connect() as connection:
        connection.send(first.request(first.script("slow-but-steady")))
        assert connection.head().status == 200
        refused(second.ask(), 429, "over-concurrency")
        left_at = time.monotonic()
    wait(lambda: second.ask().status == 200, "a free place", 2.0)
    assert time.monotonic() - left_at < 2.0


def test_tokens_are_one_budget_for_both(both: tuple[Counted, Counted]) -> None:
    first, second = (counted.person("tokens", "shared-budget") for counted in both)
    answer = first.play("continuous-count", max_tokens=100)
    assert answer.status == 200
    answer = second.ask(max_tokens=16)
    assert int(answer.value("x-ratelimit-remaining-tokens") or "") < 250 - 24 - 16
    answer = first.ask(max_tokens=100)
    assert answer.status == 200
    assert both[0].site.record(answer)["usage"], "what was reserved and not used is given back before the record"
    assert second.play("continuous-count", max_tokens=20).status == 200
    refused(first.ask(max_tokens=100), 429, "over-tokens")
    refused(second.ask(max_tokens=100), 429, "over-tokens")


def test_without_the_server_nobody_is_let_in_and_with_it_again_everybody(
    both: tuple[Counted, Counted], server: Server
) -> None:
    person = both[0].person("few")
    server.hang()
    begun = time.monotonic()
    answer = person.ask()
    refused(answer, 503, "ledger-unavailable")
    assert answer.value("retry-after") == "1"
    assert time.monotonic() - begun < 2.0
    server.go_on()
    assert person.ask().status == 200
    server.stop()
    refused(person.ask(), 503, "ledger-unavailable")
    refused(both[1].person("few").ask(), 503, "ledger-unavailable")
    assert ready(both[0]) == (503, ["the ledger does not answer"])
    server.start()
    assert ready(both[0]) == (200, [])
    assert person.ask().status == 200
    assert both[1].person("few").ask().status == 200
    log = both[0].site.log()
    assert server.password not in log
    assert "the ledger does not answer" in log
    assert "the ledger answers again" in log


@pytest.mark.parametrize("asked", ["at the door", "for tokens"])
def test_who_got_no_answer_from_a_server_that_hung_keeps_no_place(
    both: tuple[Counted, Counted], server: Server, asked: str
) -> None:
    person = both[0].person("single" if asked == "at the door" else "both")
    assert person.ask(max_tokens=1).status == 200
    data = person.request(max_tokens=100)
    with person.connect() as connection:
        if asked == "for tokens":  # the place is asked for before the body is there
            connection.send(data[:-1])
            time.sleep(0.3)
            data = data[-1:]
        server.hang()
        connection.send(data)
        refused(connection.answer("POST"), 503, "ledger-unavailable")
        server.go_on()
    if asked == "at the door":
        wait(lambda: person.ask().status == 200, "a free place", 4.0)
    else:
        wait(lambda: person.ask().code == "over-rate", "a minute in which it counts", 4.0)
        time.sleep(1.5)
        answer = person.ask()
        assert int(answer.value("x-ratelimit-remaining-tokens") or "") > 5000 - 100, "what was reserved is given back"


def test_an_answer_that_is_under_way_ends_well_though_the_server_is_gone(
    both: tuple[Counted, Counted], server: Server
) -> None:
    person = both[0].person("single")
    with Connection(both[0].address, timeout=10.0) as connection:
        connection.send(person.request(person.script("five-events")))
        assert connection.head().status == 200
        server.stop()
        assert b"[DONE]" in b"".join(part for _, part in connection.chunks())
    server.start()
    assert person.ask().status == 200
