"""Fuzz targets for responses: any body, judged and written anew, and any events of an engine, searched for their count.

Enters: any bytes. Leaves: nothing, or an ``AssertionError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.registry import FACTS
from gateway.policy.model import ParameterRules
from tests.fuzz.judging import Judging

if TYPE_CHECKING:
    from gateway.policy.model import Model

_FACTS = FACTS["openai-responses"]
_KEPT = {"previous_response_id", "conversation", "prompt", "background", "previous_input_messages"}
_WAYS = (
    ParameterRules(_FACTS.standard, refuse_special_tokens=True),
    ParameterRules(
        frozenset(name for name in _FACTS.fields if _FACTS.why_not_accepted(name) is None), drop_unlisted=True
    ),
)


def _holds(body: dict[str, Any], _rules: ParameterRules, model: Model) -> None:
    """Check that an answer is bounded and stored nowhere, and that none is continued."""
    assert body["store"] is False
    assert _KEPT.isdisjoint(body)
    assert 0 < body["max_output_tokens"] <= (model.most_tokens or 0)
    items: list[dict[str, Any]] = body["input"] if isinstance(body["input"], list) else []
    assert not any(item.get("status") for item in items)
    assert all(tool["type"] == "function" for tool in body.get("tools", ()))


_JUDGING = Judging("openai-responses", b"/v1/responses", _WAYS, _holds)
fuzz_responses, fuzz_response_events = _JUDGING.bodies, _JUDGING.events
