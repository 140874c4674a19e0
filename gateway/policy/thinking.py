"""Whether the model will think: the caller's wish, who may have it, and the model's own switch.

Enters: a draft whose controls have the right types, the model, the rule. Leaves: changes in the draft, or
``Malformed(THINKING_NOT_PERMITTED)``. What a control means is vLLM's reading (0.32, 0.33): an explicit member of
``chat_template_kwargs`` beats ``reasoning_effort``; without one, ``reasoning_effort`` sets ``enable_thinking`` and no
other switch; a budget sets no switch at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.policy.decision import Grant
    from gateway.policy.draft import Draft
    from gateway.policy.model import Model, ThinkingRule

_KWARGS = "chat_template_kwargs"
_ENABLE = f"{_KWARGS}.enable_thinking"
_THINKING = f"{_KWARGS}.thinking"
_EFFORT = "reasoning_effort"
_BUDGET = "thinking_token_budget"
_CONTROLS = frozenset({_KWARGS, _EFFORT, _BUDGET})
_NO_EFFORT = "none"
# The only word that every engine with efforts knows besides none.
_SOME_EFFORT = "high"

SWITCHES: dict[str, tuple[str, ...]] = {
    "enable_thinking": (_ENABLE,),
    "thinking": (_THINKING,),
    "both": (_ENABLE, _THINKING),
    "reasoning_effort": (_EFFORT,),
    "none": (),
}


def settle(draft: Draft, model: Model, rule: ThinkingRule, grant: Grant) -> None:
    """Make the draft say what the rule permits, and say it under the name that the model heeds.

    Two wishes that contradict each other are sent as they are, once permitted: vLLM has an order for them, and a
    third voice would only hide which one the caller meant.
    """
    wishes: dict[str, bool] = {} if _CONTROLS.isdisjoint(draft.body) else _wishes(draft)
    if not wishes:
        _switch(draft, SWITCHES[model.thinking_switch], on=rule.default_enabled)
        return
    if any(wishes.values()) and not _may_enable(rule, grant):
        if not rule.disable_otherwise:
            wish = next(name for name, on in wishes.items() if on)
            raise Malformed(Reason.THINKING_NOT_PERMITTED, "is a wish to think", param=wish)
        _disable(draft, wishes)
    if len(set(wishes.values())) == 1:
        on = next(iter(wishes.values()))
        implied = {_ENABLE} if on and _EFFORT in wishes else set()
        missing = (name for name in SWITCHES[model.thinking_switch] if name not in wishes and name not in implied)
        _switch(draft, missing, on=on)


def side_door(draft: Draft) -> None:
    """Close what would begin the answer for the model. Raises ``Malformed(THINKING_NOT_PERMITTED)``."""
    for name, opened in (("add_generation_prompt", False), ("continue_final_message", True)):
        if draft.body.get(name) is opened:
            raise Malformed(Reason.THINKING_NOT_PERMITTED, "would go past the rule about thinking", param=name)


def _wishes(draft: Draft) -> dict[str, bool]:
    """Give the controls that were sent, each with whether it asks to think; a budget counts when it is alone."""
    wishes: dict[str, bool] = {}
    if draft.body.get(_KWARGS):
        wishes = {name: on for name in (_ENABLE, _THINKING) if (on := draft.get(name)) is not None}
    effort = draft.body.get(_EFFORT)
    if effort is not None:
        wishes[_EFFORT] = effort != _NO_EFFORT
    if not wishes and draft.body.get(_BUDGET) is not None:
        wishes[_BUDGET] = True
    return wishes


def _may_enable(rule: ThinkingRule, grant: Grant) -> bool:
    return rule.everyone or grant.client.name in rule.clients or not rule.groups.isdisjoint(grant.principal.groups)


def _disable(draft: Draft, wishes: dict[str, bool]) -> None:
    """Turn every control that was sent to off; a budget has no off and is taken away."""
    _switch(draft, (name for name in wishes if name != _BUDGET), on=False)
    if draft.body.get(_BUDGET) is not None:
        draft.drop(_BUDGET)
    wishes.update(dict.fromkeys(wishes, False))


def _switch(draft: Draft, names: Iterable[str], *, on: bool) -> None:
    for name in names:
        if name == _EFFORT:
            draft.put(name, _SOME_EFFORT if on else _NO_EFFORT)
        else:
            draft.put(name, on)
