"""What shows whether a model that should not think does not: one short question, with its switch off and on.

Enters: planes. Leaves: ``ThinkingTrial`` for each model and each API that makes text by a chat template, with the body
that a caller's would become who says nothing about thinking, and the same with the switch on. The two make prompts of
different lengths where the template heeds the switch; the first must bring no thought.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.warm_up import asked, written
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gateway.dialects.thinking_controls import ThinkingControls
    from gateway.policy.model import Endpoint, Model, Plane

TOKENS: Final = 16
"""The longest answer: enough for a thought to begin."""

_KWARGS: Final = "chat_template_kwargs"


@dataclass(frozen=True, slots=True)
class ThinkingTrial:
    """One question. ``on`` is ``None`` where the model's switch cannot be set by this API, or there is none."""

    alias: str
    engine: str
    served_as: str
    dialect: str
    switch: str
    method: str
    path: str
    off: bytes = field(repr=False)
    on: bytes | None = field(repr=False)


def thinking_trials(planes: Iterable[Plane]) -> list[ThinkingTrial]:
    """Give one trial for each model of each engine and each API whose endpoint has thinking off by default."""
    found: dict[tuple[str, str, str], ThinkingTrial] = {}
    for plane in planes:
        for model in plane.models.values():
            for endpoint in _quiet(plane):
                key = (model.engine, model.served_as, endpoint.dialect)
                trial = None if key in found else _trial(plane, endpoint, model)
                if trial is not None:
                    found[key] = trial
    return list(found.values())


def _quiet(plane: Plane) -> Iterator[Endpoint]:
    """Give the endpoints that answer in text by a template, and where nobody thinks who does not ask for it."""
    for methods in plane.endpoints.values():
        for endpoint in methods.values():
            facts = FACTS[endpoint.dialect]
            makes_text = facts.counts_tokens and facts.controls.templated
            if makes_text and endpoint.parameters is not None and not endpoint.parameters.thinking.default_enabled:
                yield endpoint


def _trial(plane: Plane, endpoint: Endpoint, model: Model) -> ThinkingTrial | None:
    upstream = DIALECTS[endpoint.dialect].upstream
    off = written(plane, endpoint, model, asked(endpoint.dialect), tokens=TOKENS)
    if off is None or upstream is None:
        return None
    on = _on(strict_json.loads(off), FACTS[endpoint.dialect].controls)
    return ThinkingTrial(
        model.alias, model.engine, model.served_as, endpoint.dialect, model.thinking_switch, *upstream, off, on
    )


def _on(body: dict[str, Any], controls: ThinkingControls) -> bytes | None:
    """Turn every switch in a body on; ``None`` if there is none."""
    switches = body.get(_KWARGS, {})
    turned = [name for name, value in switches.items() if value is False]
    switches.update(dict.fromkeys(turned, True))
    for dotted, off in ((controls.effort, "none"), (controls.mode, "disabled")):
        name, _, member = (dotted or "").partition(".")
        value = body.get(name)
        if (value.get(member) if isinstance(value, dict) else value) == off:
            del body[name]  # what the model does by itself
            turned.append(name)
    return strict_json.dumps(body) if turned else None
