from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.waiting_room import RANKS, Entry, WaitingRoom

HIGH, NORMAL, LOW = RANKS["high"], RANKS["normal"], RANKS["low"]
IN, WAITS, OUT = Entry(inside=True, waits=False), Entry(inside=False, waits=True), Entry(inside=False, waits=False)


def test_places_are_taken_then_seats_and_then_there_is_no_more_room() -> None:
    room = WaitingRoom[str](2, 1)
    assert [room.enter(NORMAL, name) for name in "abcd"] == [IN, IN, WAITS, OUT]
    assert (room.busy, len(room)) == (2, 1)


def test_who_leaves_gives_the_place_to_the_first_in_line() -> None:
    room = WaitingRoom[str](1, 2)
    for name in "abc":
        room.enter(NORMAL, name)
    assert [room.leave(), room.leave(), room.leave()] == ["b", "c", None]
    assert room.busy == 0
    assert room.enter(NORMAL, "d") == IN


def test_the_urgent_go_first_and_equals_in_the_order_of_their_arrival() -> None:
    room = WaitingRoom[str](1, 9)
    room.enter(NORMAL, "inside")
    for rank, name in ((LOW, "l1"), (NORMAL, "n1"), (HIGH, "h1"), (LOW, "l2"), (HIGH, "h2"), (NORMAL, "n2")):
        room.enter(rank, name)
    assert [room.leave() for _ in range(6)] == ["h1", "h2", "n1", "n2", "l1", "l2"]


def test_the_last_of_the_least_urgent_gives_up_its_seat_to_a_more_urgent_one() -> None:
    room = WaitingRoom[str](1, 2)
    room.enter(NORMAL, "inside")
    room.enter(LOW, "l1")
    room.enter(LOW, "l2")
    assert room.enter(LOW, "l3") == OUT
    assert room.enter(HIGH, "h1") == Entry(inside=False, waits=True, displaced="l2")
    assert room.enter(NORMAL, "n1") == Entry(inside=False, waits=True, displaced="l1")
    assert room.enter(NORMAL, "n2") == OUT
    assert [room.leave(), room.leave()] == ["h1", "n1"]


def test_who_waits_no_longer_frees_the_seat() -> None:
    room = WaitingRoom[str](1, 1)
    room.enter(NORMAL, "inside")
    room.enter(NORMAL, "leaves")
    assert room.give_up("leaves")
    assert not room.give_up("leaves")
    assert room.enter(NORMAL, "next") == WAITS
    assert room.leave() == "next"


def test_those_before_and_behind_one_who_gives_up_keep_their_turn() -> None:
    room = WaitingRoom[str](1, 3)
    for name in ("inside", "first", "leaves", "last"):
        room.enter(NORMAL, name)
    assert room.give_up("leaves")
    assert [room.leave(), room.leave()] == ["first", "last"]


def test_without_seats_nobody_waits() -> None:
    room = WaitingRoom[str](1, 0)
    assert [room.enter(HIGH, "a"), room.enter(HIGH, "b")] == [IN, OUT]


@given(st.lists(st.tuples(st.sampled_from(["enter", "leave", "give up"]), st.integers(0, 2))), st.integers(1, 3))
def test_whatever_happens_no_place_is_lost_and_none_is_given_twice(steps: list[tuple[str, int]], places: int) -> None:
    room, inside, waiting = WaitingRoom[object](places, 3), list[object](), list[object]()
    for action, number in steps:
        if action == "enter":
            waiter = object()
            entry = room.enter(number, waiter)
            if entry.displaced is not None:
                waiting.remove(entry.displaced)
            (inside if entry.inside else waiting if entry.waits else []).append(waiter)
        elif action == "leave" and inside:
            inside.pop()
            following = room.leave()
            if following is not None:
                waiting.remove(following)
                inside.append(following)
        elif waiting:
            assert room.give_up(waiting.pop(number % len(waiting)))
        assert room.busy == len(inside) <= places
        assert len(room) == len(waiting) <= 3
        assert not waiting or len(inside) == places, "nobody waits while a place is free"
