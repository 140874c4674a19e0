"""The bounds of the edge fit those of the rooms behind it."""

from __future__ import annotations

from gateway.adapters.edge_limits import HEAD_AT_MOST, LINGER_S, EdgeLimits
from gateway.wire.headers import MOST_BYTES
from gateway.wire.target import LONGEST_TARGET


def test_a_head_that_a_later_room_would_take_has_room_here() -> None:
    assert HEAD_AT_MOST >= MOST_BYTES + LONGEST_TARGET


def test_a_close_has_its_time_where_the_listener_says_nothing_else() -> None:
    assert EdgeLimits().linger_s == LINGER_S
