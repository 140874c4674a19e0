"""Requests that begin alike stay together while that costs little; all others go where the fewest are open."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gateway.engine.choice import LOOKED_AT, choose, mark
from gateway.engine.replica import Replica


def replicas(*in_flight: int) -> list[Replica]:
    made = [Replica(f"http://127.0.0.1:{8000 + number}", in_flight=open_) for number, open_ in enumerate(in_flight)]
    for replica in made:
        replica.circuit.pass_trial()
    return made


def test_without_a_mark_the_least_busy_is_chosen() -> None:
    made = replicas(3, 1, 2)
    assert choose(made, None, 9) is made[1]


def test_among_equally_busy_ones_the_work_goes_round() -> None:
    made = replicas(0, 0, 0)
    for _ in range(30):
        chosen = choose(made, None, 9)
        assert chosen is not None
        chosen.sent += 1
    assert [replica.sent for replica in made] == [10, 10, 10]


def test_what_begins_alike_stays_together_while_it_is_not_busier_by_too_much() -> None:
    made = replicas(0, 0, 0)
    favourite = choose(made, b"acme\nYou are", 4)
    assert favourite is not None
    favourite.in_flight = 4
    assert choose(made, b"acme\nYou are", 4) is favourite
    favourite.in_flight = 5
    assert choose(made, b"acme\nYou are", 4) is not favourite


def test_marks_spread_over_the_replicas() -> None:
    made = replicas(0, 0, 0, 0)
    chosen = Counter(one.name for number in range(2000) if (one := choose(made, b"%d" % number, 0)) is not None)
    assert len(chosen) == 4
    assert all(400 < count < 600 for count in chosen.values())


def test_a_replica_that_leaves_moves_only_its_own_requests() -> None:
    made = replicas(0, 0, 0)
    before = {number: choose(made, b"%d" % number, 0) for number in range(300)}
    made[1].circuit.open("gone", 0.0)
    after = {number: choose(made, b"%d" % number, 0) for number in range(300)}
    assert all(after[number] is one for number, one in before.items() if one is not made[1])
    assert made[1] not in after.values()


def test_only_closed_circuits_that_were_not_tried_are_chosen() -> None:
    made = replicas(0, 0)
    assert choose(made, b"x", 0, [made[0]]) is made[1]
    assert choose(made, b"x", 0, made) is None
    made[1].circuit.open("gone", 0.0)
    assert choose(made, b"x", 0, [made[0]]) is None
    assert choose([], None, 0) is None


@pytest.mark.parametrize(
    "body, same",
    [
        ({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "b"}]}, True),
        ({"system": "Be brief.", "messages": [{"role": "user", "content": "c"}]}, True),
        ({"instructions": "Be brief.", "input": "d"}, True),
        ({"messages": [{"role": "user", "content": "Be long."}]}, False),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Be brief."}]}]}, False),
    ],
)
def test_a_mark_is_the_client_and_the_first_message(body: dict[str, Any], *, same: bool) -> None:
    first = mark("acme", {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}]})
    assert first is not None
    assert (mark("acme", body) == first) is same
    assert mark("other", body) != first


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": ["x"]}, {"messages": 3}, {"messages": [{}]}])
def test_without_a_first_message_there_is_no_mark(body: dict[str, Any]) -> None:
    assert mark("acme", body) is None


def test_a_long_first_message_is_told_by_its_beginning() -> None:
    long = "x" * LOOKED_AT
    assert mark("a", {"system": long + "y"}) == mark("a", {"system": long + "z"})
