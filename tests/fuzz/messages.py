"""Fuzz targets for messages: any body, judged and written anew, and any events of an engine, searched for their count.

Enters: any bytes. Leaves: nothing, or an ``AssertionError``.
"""

from __future__ import annotations

from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.decision import Deny, Grant
from gateway.policy.judge import judge
from gateway.policy.model import Endpoint, ParameterRules, ThinkingRule
from gateway.reasons import ANSWERS, Malformed, Reason
from gateway.wire import strict_json
from tests.policy.planes import plane, principal

_MESSAGES = DIALECTS["anthropic-messages"]
_FACTS = FACTS["anthropic-messages"]
_KNOWN = {name.partition(".")[0] for name in _FACTS.fields}
_HOSTED = {"container", "mcp_servers", "thread", "compaction", "cache_control", "metadata", "context_management"}
_RULES = (
    ParameterRules(_FACTS.standard, refuse_special_tokens=True),
    ParameterRules(
        frozenset(name for name in _FACTS.fields if _FACTS.why_not_accepted(name) is None),
        drop_unlisted=True,
        thinking=ThinkingRule(everyone=False, disable_otherwise=True),
    ),
)
_ENDPOINTS = [Endpoint("messages", "POST", b"/v1/messages", "anthropic-messages", parameters=rules) for rules in _RULES]
PLANES = tuple(plane(endpoints=[endpoint]) for endpoint in _ENDPOINTS)


def fuzz_messages(data: bytes) -> None:
    """Check that what the engine gets is bounded, asks for nothing that a service runs, and is judged alike."""
    for number in range(len(PLANES)):
        sent, alias = _sent(data, number)
        if sent:
            again = strict_json.loads(sent) | {"model": alias}  # the engine knows the model by another name
            assert _sent(strict_json.dumps(again), number) == (sent, alias)


def fuzz_message_events(data: bytes) -> None:
    """Check that a count is a count, and that looking for one never fails."""
    usage = _MESSAGES.usage(data)
    assert usage is None or all(count is None or count >= 0 for count in (usage.prompt, usage.completion))
    assert _MESSAGES.ends(data) in {True, False}


def _sent(data: bytes, number: int) -> tuple[bytes, str]:
    try:
        call = _MESSAGES.read(data)
    except Malformed as malformed:
        assert malformed.reason is Reason.BODY_MALFORMED  # noqa: PT017
        return b"", ""
    rules = PLANES[number]
    verdict = judge(rules, Grant(rules.clients["acme"], _ENDPOINTS[number], principal("acme")), call)
    if isinstance(verdict, Deny):
        assert 400 <= ANSWERS[verdict.reason].status < 500
        return b"", ""
    written = _MESSAGES.write(call, verdict.changes)
    body = strict_json.loads(written)
    assert verdict.model is not None
    assert body["model"] == verdict.model.served_as
    assert body.keys() <= _KNOWN - _HOSTED
    assert 0 < body["max_tokens"] <= (verdict.model.most_tokens or 0)
    thinking = body.get("thinking", {})
    assert thinking.get("budget_tokens", 0) < body["max_tokens"]
    if not _RULES[number].thinking.everyone:
        switches = body.get("chat_template_kwargs", {})
        assert not switches.get("enable_thinking")
        assert not switches.get("thinking")
        assert thinking.get("type", "disabled") == "disabled"
    assert all(tool.get("type") in {"custom", None} for tool in body.get("tools", ()))
    return written, verdict.model.alias
