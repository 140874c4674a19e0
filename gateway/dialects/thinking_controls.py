"""Which fields of one API say whether the model thinks.

Leaves: ``ThinkingControls``, a value that each dialect states. What follows from a wish is for ``policy.thinking``.
"""

from __future__ import annotations

from dataclasses import dataclass

ENABLE = "chat_template_kwargs.enable_thinking"
THINKING = "chat_template_kwargs.thinking"
"""The two switches that chat templates know. Every API whose bodies go through a template takes both."""


@dataclass(frozen=True, slots=True)
class ThinkingControls:
    """Dotted names of the fields, ``None`` for what the API does not have.

    ``templated``: bodies go through the chat template, so its switches can be set. ``effort``: how much to think; where
    it has the word ``none``, that one is off (``effort_has_none``). ``mode``: a word, ``disabled`` for off, whatever
    the effort, and any other for on. ``budget``: the most tokens for it; alone it is a wish to think. ``budget_below``:
    the field of the longest answer, where a budget must be less than that and at least ``least_budget``.
    """

    templated: bool = False
    effort: str | None = None
    effort_has_none: bool = True
    mode: str | None = None
    budget: str | None = None
    budget_below: str | None = None
    least_budget: int = 0


NO_CONTROLS = ThinkingControls()
