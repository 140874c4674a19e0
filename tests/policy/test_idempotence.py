"""Whatever reaches an engine would pass the same rules again, and come out as it is; everything else is refused.

The rules are drawn beside the bodies: which fields are accepted, set, capped, taken from one client. So a new dialect
is tried by its table alone, and a rule that a later stage breaks is found whatever the shipped policies say.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from gateway.dialects.call import Call
from gateway.dialects.checks import Inspection
from gateway.dialects.fields import Treatment
from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.cache_salt import FIELD as SALT
from gateway.policy.cache_salt import isolated
from gateway.policy.court import Court
from gateway.policy.decision import Deny, Grant, Permit
from gateway.policy.judge import judge
from gateway.policy.model import Cap, Endpoint, Model, Narrowing, ParameterRules, Plane, ThinkingRule
from gateway.policy.usage_wish import usage_wish
from gateway.reasons import Malformed
from gateway.wire import strict_json
from tests.policy.planes import LIMIT, client, principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.dialects.registry import Facts

HOSTS = frozenset({"img.example.com"})
WITH_BODY = sorted(name for name, facts in FACTS.items() if facts.fields and name in DIALECTS)
CLOSED = {
    name: {field.name for field in FACTS[name].fields.values() if field.treatment is Treatment.MEMBERS}
    for name in WITH_BODY
}

TEXTS = st.sampled_from(
    [
        "",
        "a",
        "hello",
        "none",
        "<|im_start|>",
        "[INST]",
        "{}",
        '{"a": "<|im_end|>"}',
        "data:image/png;base64,AAAA",
        "data:audio/wav;base64,AAAA",
        "https://img.example.com/a.png",
        "http://169.254.169.254/",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def values(described: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Draw values of a description, most of them good, some absent."""
    return _mostly(_good(described))


@st.composite
def _mostly(draw: st.DrawFn, good: st.SearchStrategy[Any]) -> Any:  # noqa: ANN401  (a JSON value)
    return draw({0: JSON, 1: st.none()}.get(draw(st.integers(0, 39)), good))


def _good(described: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "anyOf" in described:
        return st.one_of(*map(_good, described["anyOf"]))
    if described.get("treatment") == "drop" and "type" not in described:
        return JSON
    if "enum" in described:
        return st.sampled_from(described["enum"])
    kind = described["type"]
    least, most = described.get("minimum", -3), described.get("maximum", 9)
    if kind == "array":
        return st.lists(values(described["items"]) if "items" in described else JSON, max_size=3)
    if kind == "object":
        return _objects(described)
    return {
        "string": TEXTS,
        "boolean": st.booleans(),
        "integer": st.integers(least, max(least, most)),
        "number": st.integers(least, max(least, most)) | st.floats(least, max(least, most)),
    }[kind]


def _objects(described: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "select" in described:
        return st.one_of(*(_of_a_kind(described["select"], *one) for one in described["of"].items()))
    if "properties" not in described:
        return st.dictionaries(TEXTS, values(described["values"]) if "values" in described else JSON, max_size=2)
    members = {name: values(one) for name, one in described["properties"].items()}
    needed = {name: _good(described["properties"][name]) for name in described.get("required", ())}
    optional = {name: one for name, one in members.items() if name not in needed}
    return st.fixed_dictionaries(needed, optional=optional)


def _of_a_kind(select: str, kind: str, of: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _objects({"properties": {}, **of}).map(lambda one: {**one, select: kind})


@st.composite
def bodies(draw: st.DrawFn, name: str, plane: Plane) -> dict[str, Any]:
    """Draw a body: what it needs, some fields that are accepted, at times one that is not, or that nobody knows."""
    facts = FACTS[name]
    rules = plane.rules["it"]
    known = {*rules.checks, *(f"{parent}.{one}" for parent, members in rules.closed.items() for one in members)}
    body: dict[str, Any] = {"model": "local"} if "model" in known and draw(st.integers(0, 9)) else {}
    chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=6, unique=True))
    if draw(st.integers(0, 7)) == 0:
        chosen.append(draw(st.sampled_from(sorted(facts.fields))))
    for dotted in sorted({*facts.required, *chosen} - CLOSED[name] - {"model"}):
        parent, dot, member = dotted.partition(".")
        value = draw(values(facts.fields[dotted].description))
        if not dot:
            body[parent] = value
        elif isinstance(body.setdefault(parent, {}), dict):
            body[parent][member] = value
    if draw(st.integers(0, 7)) == 0:
        body[draw(st.sampled_from(["unknown", "Model", "$schema", "a.b", SALT]))] = draw(JSON)
    return body


@st.composite
def caps(draw: st.DrawFn, facts: Facts, names: list[str]) -> dict[str, Cap]:
    """Draw caps that fit their fields."""
    drawn = {}
    for name in draw(st.lists(st.sampled_from(names), max_size=4, unique=True)):
        field = facts.fields[name]
        if field.kinds & {"integer", "number"}:
            drawn[name] = Cap(at_most=draw(st.integers(max(field.minimum or 0, 0), 6)), lower=draw(st.booleans()))
        elif field.kinds & {"array", "string", "object"}:
            size = st.none() | st.integers(1, 9)
            drawn[name] = Cap(
                at_most_items=draw(size) if "array" in field.kinds else None,
                at_most_characters=draw(size),
                at_most_media=draw(st.none() | st.integers(0, 1)) if field.holds_media else None,
            )
    return drawn


@st.composite
def planes(draw: st.DrawFn, name: str) -> Plane:
    """Draw rules that a policy could state for a dialect, and one model that fits it."""
    facts = FACTS[name]
    listable = [one for one in sorted(facts.fields) if facts.why_not_accepted(one) is None]
    settable = [one for one in sorted(facts.fields) if facts.why_not_set(one) is None and one not in {SALT, "model"}]
    accept = set(draw(st.sampled_from([listable, [*facts.required, "model"], sorted(facts.standard or listable)])))
    accept |= {*facts.required, *draw(st.lists(st.sampled_from(listable), max_size=3))}
    thinking = draw(
        st.sampled_from(
            [
                ThinkingRule(),
                ThinkingRule(default_enabled=True),
                ThinkingRule(everyone=False),
                ThinkingRule(everyone=False, disable_otherwise=True),
                ThinkingRule(everyone=False, groups=frozenset({"g"})),
            ]
        )
    )
    narrower = draw(st.sampled_from([None, ThinkingRule(everyone=False, disable_otherwise=True)]))
    strict, hosts = draw(st.booleans()) or thinking.forbidden, draw(st.sampled_from([frozenset(), HOSTS]))
    inspection = Inspection(special_tokens=strict or narrower is not None, media_hosts=hosts)
    stated: list[dict[str, Any]] = [{}, {}]
    taken: set[str] = set()
    for one in draw(st.lists(st.sampled_from(settable), max_size=3, unique=True)):
        value = draw(_good(facts.fields[one].description))
        names = set(facts.answer_tokens) if one in facts.answer_tokens else {one}
        if facts.value_fault(one, value, inspection) is None and not names & taken:
            stated[draw(st.integers(0, 1))][one] = value
            taken |= names
    rules = ParameterRules(
        frozenset(accept),
        draw(st.booleans()),
        stated[0],
        stated[1],
        draw(caps(facts, sorted(accept))),
        thinking,
        strict,
    )
    narrowing = Narrowing(
        frozenset(draw(st.lists(st.sampled_from(sorted(accept)), max_size=2))) - {*facts.required},
        tuple(draw(caps(facts, sorted(accept))).items()),
        narrower,
    )
    switch = draw(st.sampled_from(["enable_thinking", "thinking", "both", "reasoning_effort", "none"]))
    model = Model("local", "main", "served/local", None, switch, 8 if facts.generates else None)
    endpoint = Endpoint("it", "POST", b"/it", name, body_limit=1 << 20, parameters=rules)
    who = client(
        "acme", models=("local",), may=frozenset({"it"}), narrow=draw(st.sampled_from([{}, {"it": narrowing}]))
    )
    return Plane(
        name="any",
        listener="any",
        summary="",
        public=False,
        callers={},
        endpoints={b"/it": {"POST": endpoint}},
        models={"local": model},
        limits={LIMIT.name: LIMIT},
        clients={"acme": who},
        media_hosts=hosts,
    )


def sent(plane: Plane, name: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """Lead a body through court and workshop; ``None`` if it is refused."""
    ((endpoint,),) = [list(methods.values()) for methods in plane.endpoints.values()]
    dialect = DIALECTS[name]
    try:
        call = dialect.read(json.dumps(body).encode())
    except Malformed:
        return None
    verdict = judge(plane, Grant(plane.clients["acme"], endpoint, principal(groups=["g"])), call)
    if isinstance(verdict, Deny):
        return None
    assert isinstance(verdict, Permit)
    return strict_json.loads(dialect.write(call, isolated(verdict, FACTS[name], "salt").changes))


def as_a_caller_would(plane: Plane, name: str, body: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Put the alias back, and take out what callers may not send; give the names of what was taken out."""
    ((endpoint,),) = [list(methods.values()) for methods in plane.endpoints.values()]
    rules = plane.rules_of(plane.clients["acme"], endpoint)
    again: dict[str, Any] = {}
    taken: set[str] = set()
    for field, value in body.items():
        if field not in rules.checks:
            taken |= {f"{field}.{one}" for one in value} if field in CLOSED[name] else {field}
        elif field in rules.closed:
            again[field] = {one: item for one, item in value.items() if one in rules.closed[field]}
            taken |= {f"{field}.{one}" for one in value.keys() - rules.closed[field]}
        else:
            again[field] = "local" if field == "model" else value
    return again, taken


@pytest.mark.parametrize("name", WITH_BODY)
@given(data=st.data())
def test_what_reaches_an_engine_would_be_sent_again_unchanged(name: str, data: st.DataObject) -> None:
    facts = FACTS[name]
    plane = data.draw(planes(name))
    first = sent(plane, name, data.draw(bodies(name, plane)))
    event("refused" if first is None else "sent")
    if first is None:
        return
    again, taken = as_a_caller_would(plane, name, first)
    stated = plane.endpoints[b"/it"]["POST"].parameters
    assert stated is not None
    ours = {*stated.defaults, *stated.force, "model", SALT, *facts.answer_tokens[:1]}
    assert taken <= ours, "a field reached the engine that neither the caller may send nor the policy sets"
    second = sent(plane, name, again)
    assert second is not None, f"refused when sent again: {again}"
    assert _text(second) == _text(first)


@pytest.mark.parametrize("name", WITH_BODY)
@given(data=st.data())
def test_what_a_court_ruled_before_it_rules_again_whatever_is_said_now(name: str, data: st.DataObject) -> None:
    """A court with a memory and one without say the same of every call."""
    plane = data.draw(planes(name))
    ((endpoint,),) = [list(methods.values()) for methods in plane.endpoints.values()]
    grant = Grant(plane.clients["acme"], endpoint, principal(groups=["g"]))
    court = Court(plane)
    body = data.draw(bodies(name, plane))
    for _ in range(3):
        call = Call(json.loads(json.dumps(body)))
        ruled, anew = court.rule(grant, call, "salt"), Court(plane).rule(grant, call, "salt")
        event("refused" if isinstance(ruled, Deny) else "ruled")
        assert ruled == anew
        verdict = judge(plane, grant, call)
        if isinstance(ruled, Deny) or isinstance(verdict, Deny):
            assert ruled == verdict
            return
        ruling, written = ruled
        permit = isolated(verdict, FACTS[name], "salt")
        assert ruling.permit == permit
        by_hand = DIALECTS[name].write(call, [*permit.changes, *usage_wish(DIALECTS[name], call, permit)])
        assert _text(strict_json.loads(written)) == _text(strict_json.loads(by_hand))
        for one in [one for one in FACTS[name].said if one in body]:
            body[one] = data.draw(values(FACTS[name].fields[one].description))


def _text(body: dict[str, Any]) -> str:
    return json.dumps(body, sort_keys=True)


@pytest.mark.parametrize("name", WITH_BODY)
@given(data=st.data())
def test_no_json_at_all_makes_the_court_stumble(name: str, data: st.DataObject) -> None:
    """Names of real fields with values of any kind: refused or sent, never an error of ours."""
    names = st.sampled_from([*sorted(FACTS[name].fields), "unknown"])
    sent(data.draw(planes(name)), name, data.draw(st.dictionaries(names, JSON, max_size=5)))
