"""Fuzz targets for messages: any body, judged and written anew, and any events of an engine, searched for their count.

Enters: any bytes. Leaves: nothing, or an ``AssertionError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.registry import FACTS
from gateway.policy.model import ParameterRules, ThinkingRule
from tests.fuzz.judging import Judging

if TYPE_CHECKING:
    from gateway.policy.model import Model

_FACTS = FACTS["anthropic-messages"]
_HOSTED = {"container", "mcp_servers", "thread", "compaction", "cache_control", "metadata", "context_management"}
_WAYS = (
    ParameterRules(_FACTS.standard, refuse_special_tokens=True),
    ParameterRules(
        frozenset(name for name in _FACTS.fields if _FACTS.why_not_accepted(name) is None),
        drop_unlisted=True,
        thinking=ThinkingRule(everyone=False, disable_otherwise=True),
    ),
)


def _holds(body: dict[str, Any], rules: ParameterRules, model: Model) -> None:
    """Check that an answer is bounded, and that nothing is asked for that a service runs."""
    assert _HOSTED.isdisjoint(body)
    assert 0 < body["max_tokens"] <= (model.most_tokens or 0)
    thinking = body.get("thinking", {})
    assert thinking.get("budget_tokens", 0) < body["max_tokens"]
    if not rules.thinking.everyone:
        switches = body.get("chat_template_kwargs", {})
        assert not switches.get("enable_thinking")
        assert not switches.get("thinking")
        assert thinking.get("type", "disabled") == "disabled"
    assert all(tool.get("type") in {"custom", None} for tool in body.get("tools", ()))


_JUDGING = Judging("anthropic-messages", b"/v1/messages", _WAYS, _holds)
fuzz_messages, fuzz_message_events = _JUDGING.bodies, _JUDGING.events
