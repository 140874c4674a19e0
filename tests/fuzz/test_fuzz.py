"""Each fuzz target with what was kept, and with what Hypothesis makes of it; ``make fuzz`` looks for more."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.targets import KEPT, TARGETS, seeds, words


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """Take a seed, and cut, repeat, replace and insert: words of the grammar, other seeds, any bytes."""
    spoken = st.sampled_from(words(name))
    made = st.one_of(st.lists(spoken, max_size=20).map(b"".join), st.binary(max_size=200))
    data = draw(st.one_of(st.sampled_from(seeds(name)), made))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 40)))
        new = draw(st.one_of(spoken, st.binary(max_size=8), st.just(data[at:to] * 2), st.just(b"")))
        data = data[:at] + new + data[draw(st.sampled_from([at, to])) :]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_kept_holds(name: str) -> None:
    for seed in seeds(name):
        TARGETS[name](seed)


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_hold(name: str) -> None:
    @given(mutated(name))
    @example(b"")
    def hold(data: bytes) -> None:
        TARGETS[name](data)

    hold()


def test_every_target_has_something_to_begin_with() -> None:
    assert {path.name for path in KEPT.iterdir()} <= TARGETS.keys()
    assert all(seeds(name) and words(name) for name in TARGETS)
