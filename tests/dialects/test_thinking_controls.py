from __future__ import annotations

import pytest

from gateway.dialects.fields import Treatment
from gateway.dialects.registry import FACTS
from gateway.dialects.thinking_controls import ENABLE, NO_CONTROLS, THINKING, ThinkingControls


def named(controls: ThinkingControls) -> set[str]:
    switches = {ENABLE, THINKING} if controls.templated else set()
    return switches | {name for name in (controls.effort, controls.mode, controls.budget) if name is not None}


@pytest.mark.parametrize("dialect", sorted(FACTS))
def test_every_control_of_a_dialect_is_judged_by_the_rule_about_thinking_and_nothing_else_is(dialect: str) -> None:
    fields = FACTS[dialect].fields.values()
    assert named(FACTS[dialect].controls) == {one.name for one in fields if one.treatment is Treatment.THINKING}


def test_an_api_without_controls_names_none() -> None:
    assert named(NO_CONTROLS) == set()
