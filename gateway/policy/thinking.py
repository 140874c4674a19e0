"""Whether the model will think: the caller's wish, who may have it, and the model's own switch.

Enters: a draft whose controls have the right types, the model, the rule, and the names that this API has for the
controls. Leaves: changes in the draft, or ``Malformed(THINKING_NOT_PERMITTED)``. What a control means is vLLM's reading
(0.32, 0.33): an explicit member of ``chat_template_kwargs`` beats an effort; without one, an effort sets
``enable_thinking`` and no other switch; a mode that disables takes the place of the effort; a mode that enables and a
budget set no switch at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.thinking_controls import ENABLE, THINKING
from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.dialects.thinking_controls import ThinkingControls
    from gateway.policy.decision import Grant
    from gateway.policy.draft import Draft
    from gateway.policy.model import Model, ThinkingRule

SIDE_DOORS = {"add_generation_prompt": False, "continue_final_message": True}
"""Fields with the value that begins the answer for the model, or leaves out the mark that it does not think."""

_KWARGS = "chat_template_kwargs"
_NO_EFFORT = "none"
# The only word that every engine with efforts knows besides none.
_SOME_EFFORT = "high"
_DISABLED = "disabled"
_BY_EFFORT = "reasoning_effort"
_IN_TEMPLATE: dict[str, tuple[str, ...]] = {
    "enable_thinking": (ENABLE,),
    "thinking": (THINKING,),
    "both": (ENABLE, THINKING),
}


def settle(draft: Draft, model: Model, rule: ThinkingRule, grant: Grant, controls: ThinkingControls) -> None:
    """Make the draft say what the rule permits, and say it under the name that the model heeds.

    Two wishes that contradict each other are sent as they are, once permitted: vLLM has an order for them, and a
    third voice would only hide which one the caller meant.
    """
    wishes = _wishes(draft, controls)
    if not wishes:
        _switch(draft, _switches(model, controls, on=rule.default_enabled), controls, on=rule.default_enabled)
        return
    if any(wishes.values()) and not _may_enable(rule, grant):
        if not rule.disable_otherwise:
            wish = next(name for name, on in wishes.items() if on)
            raise Malformed(Reason.THINKING_NOT_PERMITTED, "is a wish to think", param=wish)
        _disable(draft, wishes, controls)
    if len(set(wishes.values())) == 1:
        on = next(iter(wishes.values()))
        implied = {ENABLE} if on and controls.effort in wishes else set()
        switches = _switches(model, controls, on=on)
        _switch(draft, (name for name in switches if name not in wishes and name not in implied), controls, on=on)
    _fit_budget(draft, controls)


def side_door(draft: Draft) -> None:
    """Close what would begin the answer for the model. Raises ``Malformed(THINKING_NOT_PERMITTED)``."""
    for name, opened in SIDE_DOORS.items():
        if draft.body.get(name) is opened:
            raise Malformed(Reason.THINKING_NOT_PERMITTED, "would go past the rule about thinking", param=name)


def _wishes(draft: Draft, controls: ThinkingControls) -> dict[str, bool]:
    """Give the controls that were sent, each with whether it asks to think; a budget counts when it is alone."""
    wishes: dict[str, bool] = {}
    if controls.templated and draft.body.get(_KWARGS):
        wishes = {name: on for name in (ENABLE, THINKING) if (on := draft.get(name)) is not None}
    mode = None
    if controls.mode and (mode := draft.get(controls.mode)) is not None:
        wishes[controls.mode] = mode != _DISABLED
    if controls.effort and mode != _DISABLED and (effort := draft.get(controls.effort)) is not None:
        wishes[controls.effort] = effort != _NO_EFFORT
    if not wishes and controls.budget and draft.get(controls.budget) is not None:
        wishes[controls.budget] = True
    return wishes


def _switches(model: Model, controls: ThinkingControls, *, on: bool) -> tuple[str, ...]:
    """Give the names under which this API sets the model's own switch; none where it cannot."""
    if model.thinking_switch == _BY_EFFORT:
        by_effort = controls.effort if on or controls.effort_has_none else controls.mode
        return () if by_effort is None else (by_effort,)
    return _IN_TEMPLATE.get(model.thinking_switch, ()) if controls.templated else ()


def _fit_budget(draft: Draft, controls: ThinkingControls) -> None:
    """Keep a budget below the longest answer, which may have been lowered: vLLM refuses any other.

    Raises ``Malformed(PARAMETER_OVER_CAP)`` where that leaves too little.
    """
    if controls.budget is None or controls.budget_below is None:
        return
    budget, answer = draft.get(controls.budget), draft.get(controls.budget_below)
    if budget is None or budget < answer:
        return
    if answer <= controls.least_budget:
        detail = f"has no room in an answer of at most {answer} tokens"
        raise Malformed(Reason.PARAMETER_OVER_CAP, detail, param=controls.budget)
    draft.lower(controls.budget, answer - 1)


def _may_enable(rule: ThinkingRule, grant: Grant) -> bool:
    return rule.everyone or grant.client.name in rule.clients or not rule.groups.isdisjoint(grant.principal.groups)


def _disable(draft: Draft, wishes: dict[str, bool], controls: ThinkingControls) -> None:
    """Turn every control that was sent to off; what has no off is taken away."""
    without_off = (controls.budget,) if controls.effort_has_none else (controls.effort, controls.budget)
    _switch(draft, (name for name in wishes if name not in without_off), controls, on=False)
    for name in without_off:
        if name is not None and draft.get(name) is not None:
            draft.drop(name)
    wishes.update(dict.fromkeys(wishes, False))


def _switch(draft: Draft, names: Iterable[str], controls: ThinkingControls, *, on: bool) -> None:
    for name in names:
        if name == controls.effort:
            draft.put(name, _SOME_EFFORT if on else _NO_EFFORT)
        elif name == controls.mode:
            draft.put(name, _DISABLED)
        else:
            draft.put(name, on)
