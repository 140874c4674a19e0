"""A deadline that may be put off and called off many times for one timer of the loop."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, cast

from gateway.adapters.alarm import Alarm

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Loop:
    """A clock that a test turns, with the timers that were set on it: as much of an event loop as an alarm needs."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []
        self.made = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        self.made += 1
        self.timers.append(Timer(self, when, callback))
        return self.timers[-1]

    def turn(self, now: float) -> None:
        self.now = now
        for timer in [timer for timer in self.timers if timer.when <= now]:
            self.timers.remove(timer)
            timer.ring()


class Timer:
    """One timer of the clock."""

    def __init__(self, loop: Loop, when: float, ring: Callable[[], None]) -> None:
        self._loop = loop
        self.when = when
        self.ring = ring

    def cancel(self) -> None:
        self._loop.timers.remove(self)


def alarm_of(loop: Loop, call: Callable[[], None]) -> Alarm:
    return Alarm(call, cast("asyncio.AbstractEventLoop", loop))


def made() -> tuple[Loop, Alarm, list[float]]:
    loop = Loop()
    rung: list[float] = []
    alarm = alarm_of(loop, lambda: rung.append(loop.now))
    return loop, alarm, rung


def test_it_rings_once_when_it_is_due() -> None:
    loop, alarm, rung = made()
    alarm.within(5)
    loop.turn(104.9)
    assert (rung, alarm.due) == ([], 105)
    loop.turn(105)
    loop.turn(200)
    assert (rung, alarm.due, loop.timers) == ([105], None, [])


def test_what_is_put_off_again_and_again_costs_one_timer() -> None:
    loop, alarm, rung = made()
    for second in range(50):
        loop.now = 100 + second / 10
        alarm.within(5)
    assert loop.made == 1
    loop.turn(105)
    assert (rung, loop.made) == ([], 2)
    loop.turn(109.9)
    assert rung == [109.9]


def test_what_is_called_off_does_not_ring_and_may_be_set_again() -> None:
    loop, alarm, rung = made()
    alarm.within(5)
    alarm.due = None
    loop.turn(105)
    assert (rung, loop.timers) == ([], [])
    alarm.at(107)
    loop.turn(107)
    assert rung == [107]


def test_an_earlier_deadline_takes_the_place_of_a_later_one() -> None:
    loop, alarm, rung = made()
    alarm.within(60)
    alarm.within(5)
    assert len(loop.timers) == 1
    loop.turn(105)
    assert rung == [105]


def test_it_may_be_set_again_by_what_it_calls() -> None:
    loop = Loop()
    rung: list[float] = []

    def ring() -> None:
        rung.append(loop.now)
        alarm.within(5)

    alarm = alarm_of(loop, ring)
    alarm.within(5)
    loop.turn(105)
    loop.turn(110)
    assert rung == [105, 110]


def test_what_has_ended_holds_nothing_any_more() -> None:
    class Owner:
        def __init__(self, loop: Loop) -> None:
            self.alarm = alarm_of(loop, self.ring)

        def ring(self) -> None:
            raise AssertionError

    loop = Loop()
    owner = Owner(loop)
    owner.alarm.within(5)
    alarm, kept = owner.alarm, weakref.ref(owner)
    alarm.end()
    alarm.end()
    alarm.within(1)
    gc.disable()
    try:
        del owner
        assert kept() is None
    finally:
        gc.enable()
    loop.turn(200)
