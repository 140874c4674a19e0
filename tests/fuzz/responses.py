"""Fuzz targets for responses: any body, judged and written anew, and any events of an engine, searched for their count.

Enters: any bytes. Leaves: nothing, or an ``AssertionError``.
"""

from __future__ import annotations

from typing import Any

from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.decision import Deny, Grant
from gateway.policy.judge import judge
from gateway.policy.model import Endpoint, ParameterRules
from gateway.reasons import ANSWERS, Malformed, Reason
from gateway.wire import strict_json
from tests.policy.planes import plane, principal

_RESPONSES = DIALECTS["openai-responses"]
_FACTS = FACTS["openai-responses"]
_KNOWN = {name.partition(".")[0] for name in _FACTS.fields}
_KEPT = {"previous_response_id", "conversation", "prompt", "background", "previous_input_messages"}
_RULES = (
    ParameterRules(_FACTS.standard, refuse_special_tokens=True),
    ParameterRules(
        frozenset(name for name in _FACTS.fields if _FACTS.why_not_accepted(name) is None), drop_unlisted=True
    ),
)
_ENDPOINTS = [Endpoint("responses", "POST", b"/v1/responses", "openai-responses", parameters=rules) for rules in _RULES]
PLANES = tuple(plane(endpoints=[endpoint]) for endpoint in _ENDPOINTS)


def fuzz_responses(data: bytes) -> None:
    """Check that what the engine gets is stored nowhere, continues nothing, and is judged alike."""
    for number in range(len(PLANES)):
        sent, alias = _sent(data, number)
        if sent:
            again = strict_json.loads(sent) | {"model": alias}  # the engine knows the model by another name
            assert _sent(strict_json.dumps(again), number) == (sent, alias)


def fuzz_response_events(data: bytes) -> None:
    """Check that a count is a count, and that looking for one never fails."""
    usage = _RESPONSES.usage(data)
    assert usage is None or all(count is None or count >= 0 for count in (usage.prompt, usage.completion))
    assert _RESPONSES.ends(data) in {True, False}


def _sent(data: bytes, number: int) -> tuple[bytes, str]:
    try:
        call = _RESPONSES.read(data)
    except Malformed as malformed:
        assert malformed.reason is Reason.BODY_MALFORMED  # noqa: PT017
        return b"", ""
    rules = PLANES[number]
    verdict = judge(rules, Grant(rules.clients["acme"], _ENDPOINTS[number], principal("acme")), call)
    if isinstance(verdict, Deny):
        assert 400 <= ANSWERS[verdict.reason].status < 500
        return b"", ""
    written = _RESPONSES.write(call, verdict.changes)
    body = strict_json.loads(written)
    assert verdict.model is not None
    assert body["store"] is False
    assert body["model"] == verdict.model.served_as
    assert body.keys() <= _KNOWN - _KEPT
    assert 0 < body["max_output_tokens"] <= (verdict.model.most_tokens or 0)
    items: list[dict[str, Any]] = body["input"] if isinstance(body["input"], list) else []
    assert not any(item.get("status") for item in items)
    assert all(tool["type"] == "function" for tool in body.get("tools", ()))
    return written, verdict.model.alias
