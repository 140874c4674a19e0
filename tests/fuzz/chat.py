"""Fuzz target for the court and the workshop: any body, read, judged and written anew.

Enters: any bytes. Leaves: nothing, or an ``AssertionError``. The planes are those of the court's own tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.decision import Deny, Grant
from gateway.policy.judge import judge
from gateway.reasons import ANSWERS, Malformed, Reason
from gateway.wire import strict_json
from tests.policy.planes import INTERNAL, PARTNER, plane, principal

if TYPE_CHECKING:
    from gateway.policy.model import Plane

PLANES = (plane(PARTNER), plane(INTERNAL), plane(INTERNAL, media_hosts=frozenset({"media.example"})))
_CHAT = DIALECTS["openai-chat"]
_KNOWN = {name.partition(".")[0] for name in FACTS["openai-chat"].fields}
_OFF: dict[str, Any] = {
    "local": {"enable_thinking": False},
    "reasoner": {"thinking": False},
    "twice": {"enable_thinking": False, "thinking": False},
}


def fuzz_chat(data: bytes) -> None:
    """Check that what the engine gets is bounded, has no field that nobody listed, and is judged alike."""
    for rules in PLANES:
        sent, alias = _sent(data, rules)
        if sent:
            again = strict_json.loads(sent) | {"model": alias}  # the engine knows the model by another name
            assert _sent(strict_json.dumps(again), rules) == (sent, alias)


def _sent(data: bytes, rules: Plane) -> tuple[bytes, str]:
    """Give what the engine gets, and the alias of its model; nothing when it gets nothing."""
    try:
        call = _CHAT.read(data)
    except Malformed as malformed:
        assert malformed.reason is Reason.BODY_MALFORMED  # noqa: PT017
        return b"", ""
    before = strict_json.dumps(call.fields)
    endpoint = rules.endpoints[b"/v1/chat/completions"]["POST"]
    verdict = judge(rules, Grant(rules.clients["acme"], endpoint, principal("acme")), call)
    assert strict_json.dumps(call.fields) == before, "the judge wrote to what it judged"
    if isinstance(verdict, Deny):
        assert 400 <= ANSWERS[verdict.reason].status < 500
        return b"", ""
    written = _CHAT.write(call, verdict.changes)
    body = strict_json.loads(written)
    assert verdict.model is not None
    assert body["model"] == verdict.model.served_as
    assert body.keys() <= _KNOWN
    caps = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
    assert caps
    assert all(type(cap) is int and 0 < cap <= (verdict.model.most_tokens or 0) for cap in caps)
    for switch, off in _OFF.get(verdict.model.alias, {}).items():
        assert body["chat_template_kwargs"][switch] is off
    assert not any(body.get(name) for name in ("user", "metadata", "store", "service_tier"))
    return written, verdict.model.alias
