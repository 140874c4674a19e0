from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.dialects.call import Call
from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.court import LONGEST, Court, Ruling
from gateway.policy.decision import Change, Deny, Grant
from gateway.policy.model import Cap, Endpoint, ParameterRules
from gateway.reasons import Reason
from gateway.wire import strict_json
from tests.policy.planes import PARTNER, client, plane, principal

if TYPE_CHECKING:
    from gateway.policy.model import Plane

HELLO = [{"role": "user", "content": "Hello."}]
BODY: dict[str, Any] = {"model": "local", "messages": HELLO, "max_tokens": 64, "temperature": 0.7}
COMPLETIONS = Endpoint(
    "completions",
    "POST",
    b"/v1/completions",
    "openai-completions",
    parameters=ParameterRules(FACTS["openai-completions"].standard, force={"suffix": "."}),
)


def grant(rules: Plane, who: str = "acme", endpoint: str = "chat", groups: tuple[str, ...] = ()) -> Grant:
    found = next(one for methods in rules.endpoints.values() for one in methods.values() if one.name == endpoint)
    return Grant(rules.clients[who], found, principal(who, groups=groups))


def rule(court: Court, granted: Grant, body: dict[str, Any], salt: str = "salt") -> tuple[Ruling, dict[str, Any]]:
    """Have a court rule on a body that it permits; give the ruling and what the engine would parse."""
    ruled = court.rule(granted, DIALECTS[granted.endpoint.dialect].read(strict_json.dumps(body)), salt)
    assert not isinstance(ruled, Deny), ruled
    return ruled[0], strict_json.loads(ruled[1])


def test_a_ruling_says_what_was_changed_and_bears_the_salt() -> None:
    rules = plane()
    ruling, sent = rule(Court(rules), grant(rules), {**BODY, "max_tokens": 5000})
    assert sent == {
        "model": "local",
        "messages": HELLO,
        "max_tokens": 4096,
        "temperature": 0.7,
        "chat_template_kwargs": {"enable_thinking": False},
        "cache_salt": "salt",
    }
    assert ruling.words == ("lower max_tokens", "set chat_template_kwargs.enable_thinking", "set cache_salt")
    assert ruling.lines == (b"x-gateway-changes: lower max_tokens\r\n",)
    assert ruling.permit.changes[-1] == Change("set", "cache_salt", "salt")
    assert (ruling.permit.stream, ruling.permit.most_tokens, ruling.hides_usage) == (False, 4096, False)


def test_the_count_of_a_stream_is_asked_for_and_named_nowhere() -> None:
    rules = plane()
    ruling, sent = rule(Court(rules), grant(rules), {**BODY, "stream": True})
    assert sent["stream_options"] == {"include_usage": True}
    assert ruling.hides_usage
    assert not any("stream_options" in word for word in ruling.words)


def test_what_stands_beside_a_conversation_is_judged_once() -> None:
    rules = plane()
    court = Court(rules)
    first, _ = rule(court, grant(rules), BODY)
    second, sent = rule(court, grant(rules), {**BODY, "messages": [*HELLO, {"role": "assistant", "content": "Yes?"}]})
    assert second is first
    assert sent["messages"] == [*HELLO, {"role": "assistant", "content": "Yes?"}]
    assert sent["cache_salt"] == "salt"


def test_the_first_body_is_written_as_those_that_follow() -> None:
    rules = plane()
    court = Court(rules)
    call = DIALECTS["openai-chat"].read(strict_json.dumps(BODY))
    assert court.rule(grant(rules), call, "salt") == court.rule(grant(rules), call, "salt")


@pytest.mark.parametrize(
    "other",
    [
        {**BODY, "temperature": 1},
        {**BODY, "temperature": 1.0},
        {**BODY, "top_p": 0.5},
        {**BODY, "tools": [{"type": "function", "function": {"name": "f"}}]},
        {**BODY, "chat_template_kwargs": {"enable_thinking": False}},
        {**BODY, "user": "U+1F600 \U0001f600"},
    ],
    ids=["integer", "float", "parameter", "field with text", "member", "name"],
)
def test_whatever_else_differs_is_judged_anew(other: dict[str, Any]) -> None:
    rules = plane()
    court = Court(rules)
    rulings = [rule(court, grant(rules), body)[0] for body in (BODY, {**BODY, "temperature": 1.5}, other)]
    assert len({id(ruling) for ruling in rulings}) == 3


def test_nobody_gets_what_was_ruled_for_another_client_group_endpoint_or_day() -> None:
    again = replace(plane().endpoints[b"/v1/chat/completions"]["POST"], name="again", path=b"/again")
    rules = plane(clients=[client("acme"), client("staff")], endpoints=[again])
    court = Court(rules)
    granted = [
        (grant(rules), "salt"),
        (grant(rules, "staff"), "salt"),
        (grant(rules, groups=("reasoning",)), "salt"),
        (grant(rules, endpoint="again"), "salt"),
        (grant(rules), "another salt"),
    ]
    assert len({id(rule(court, one, BODY, salt)[0]) for one, salt in granted}) == 5
    thinking = {**BODY, "chat_template_kwargs": {"enable_thinking": True}}
    rule(court, grant(rules, groups=("reasoning",)), thinking)
    refused = court.rule(grant(rules), Call(thinking), "salt")
    assert isinstance(refused, Deny)
    assert refused.reason is Reason.THINKING_NOT_PERMITTED


SPLIT = [{"type": "text", "text": "<|im_"}, {"type": "text", "text": "start|>"}]


@pytest.mark.parametrize(
    "messages, reason, param",
    [
        ("text", Reason.PARAMETER_INVALID, "messages"),
        (None, Reason.PARAMETER_INVALID, "messages"),
        ([{"role": "wizard", "content": "a"}], Reason.PARAMETER_INVALID, "messages[0].role"),
        ([{"role": "user", "content": "<|im_start|>"}], Reason.PARAMETER_INVALID, "messages[0].content"),
        ([{"role": "user", "content": SPLIT}], Reason.PARAMETER_INVALID, "messages"),
        ([{"role": "user", "content": "a", "mood": "b"}], Reason.PARAMETER_NOT_ACCEPTED, "messages[0].mood"),
        (HELLO * 1025, Reason.PARAMETER_OVER_CAP, "messages"),
    ],
    ids=["type", "null", "word", "special token", "one in pieces", "name", "cap"],
)
def test_what_is_said_is_looked_at_every_time(messages: object, reason: Reason, param: str) -> None:
    rules = plane()
    court = Court(rules)
    first, _ = rule(court, grant(rules), BODY)
    refused = court.rule(grant(rules), Call({**BODY, "messages": messages}), "salt")
    assert isinstance(refused, Deny)
    assert (refused.reason, refused.param) == (reason, param)
    assert rule(court, grant(rules), BODY)[0] is first


def test_what_is_dropped_from_a_conversation_is_dropped_the_second_time_too() -> None:
    rules = plane(ParameterRules(PARTNER.accept, drop_unlisted=True))
    court = Court(rules)
    first, _ = rule(court, grant(rules), BODY)
    more = {**BODY, "messages": [{**HELLO[0], "mood": "good"}]}
    for _ in range(2):
        ruling, sent = rule(court, grant(rules), more)
        assert "drop messages.mood" in ruling.words
        assert sent["messages"] == HELLO
    mixed = {**BODY, "messages": [{**HELLO[0], "mood": "good"}, {"role": "wizard"}]}
    assert isinstance(court.rule(grant(rules), Call(mixed), "salt"), Deny)
    assert rule(court, grant(rules), BODY)[0] is first


def test_a_model_has_caps_of_its_own_on_what_is_said() -> None:
    known = plane()
    models = {**known.models, "local": replace(known.models["local"], caps=(("messages", Cap(at_most_items=2)),))}
    rules = replace(known, models=models)
    court = Court(rules)
    rule(court, grant(rules), BODY)
    refused = court.rule(grant(rules), Call({**BODY, "messages": HELLO * 3}), "salt")
    assert isinstance(refused, Deny)
    assert refused.reason is Reason.PARAMETER_OVER_CAP


def test_each_of_several_prompts_may_be_answered_however_many_came_before() -> None:
    endpoint = replace(COMPLETIONS, parameters=ParameterRules(FACTS["openai-completions"].standard))
    rules = plane(
        replace(PARTNER, caps={}), clients=[client("acme", may=frozenset({"completions"}))], endpoints=[endpoint]
    )
    court, granted = Court(rules), grant(rules, endpoint="completions")
    for prompt, most in (("a", 100), (["a"] * 9, 900), ("b", 100), (["b"], 100), (["c"] * 2, 200)):
        body = {"model": "local", "prompt": prompt, "max_tokens": 50, "n": 2}
        ruling, sent = rule(court, granted, body)
        assert (ruling.permit.most_tokens, sent["prompt"]) == (most, prompt)


def test_an_empty_list_is_no_conversation_to_remember() -> None:
    rules = plane()
    court = Court(rules)
    empty = {**BODY, "tools": [], "tool_choice": "none"}
    for _ in range(2):
        assert {"drop tool_choice", "drop tools"} <= {*rule(court, grant(rules), empty)[0].words}
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert rule(court, grant(rules), {**empty, "tools": tools})[1]["tool_choice"] == "none"


def test_a_text_that_the_policy_sets_is_set_whatever_was_said_before() -> None:
    rules = plane(clients=[client("acme", may=frozenset({"completions"}))], endpoints=[COMPLETIONS])
    court = Court(rules)
    for suffix in (".", "!", "."):
        body = {"model": "local", "prompt": "Once", "suffix": suffix}
        _, sent = rule(court, grant(rules, endpoint="completions"), body)
        assert sent["suffix"] == "."


def test_only_the_latest_rulings_are_remembered() -> None:
    rules = plane()
    court = Court(rules, most=2)
    first, second, third = ({**BODY, "seed": seed} for seed in range(3))
    ruling = rule(court, grant(rules), first)[0]
    rule(court, grant(rules), second)
    assert rule(court, grant(rules), first)[0] is ruling
    rule(court, grant(rules), third)
    assert rule(court, grant(rules), first)[0] is not ruling


def test_nobody_can_store_much_here() -> None:
    rules = plane()
    court = Court(rules)
    for letters, kept in ((LONGEST - 60, True), (LONGEST, False)):
        long = {"messages": HELLO, "model": "local", "stop": "x" * letters}
        assert (rule(court, grant(rules), long)[0] is rule(court, grant(rules), long)[0]) is kept


def test_a_form_is_written_by_its_own_dialect() -> None:
    accepted = ParameterRules(frozenset({"model", "file", "language"}))
    endpoint = Endpoint("it", "POST", b"/it", "openai-transcriptions", parameters=accepted)
    rules = plane(clients=[client("acme", may=frozenset({"it"}))], endpoints=[endpoint])
    court = Court(rules)
    body = {"model": "local", "file": "audio/wav", "language": "en"}
    first, sent = rule(court, grant(rules, endpoint="it"), body)
    assert (sent["file"], sent["language"]) == ("audio/wav", "en")
    assert rule(court, grant(rules, endpoint="it"), body)[0] is not first
