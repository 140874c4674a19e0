"""The court: whether a body may go to the engine, and what must change in it first.

Enters: a ``Grant`` and a ``Call``. Leaves: ``Permit`` with the changes in the order in which they were decided, or
``Deny`` with the first reason: names, values, the model, caps, thinking. The call itself is never written to; the
workshop makes the changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects import split_tokens
from gateway.dialects.checks import Inspection, inside
from gateway.dialects.registry import FACTS
from gateway.policy import thinking
from gateway.policy.caps import apply_caps, bound_answer, differing
from gateway.policy.decision import Deny, Permit
from gateway.policy.draft import Draft
from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from gateway.dialects.call import Call
    from gateway.policy.decision import Grant
    from gateway.policy.model import Client, Model, Plane
    from gateway.policy.rules import Rules


_ANSWERS = ("n", "best_of")


def judge(plane: Plane, grant: Grant, call: Call) -> Permit | Deny:
    """Judge one call; for a dialect without a body, whether its path names a model of the client's."""
    try:
        if not FACTS[grant.endpoint.dialect].has_body:
            return _judge_path(plane, grant)
        return _judge_body(plane, plane.rules_of(grant.client, grant.endpoint), grant, call.fields)
    except Malformed as fault:
        return Deny(fault.reason, f"{fault.param} {fault.detail}" if fault.detail else "", fault.param)


def _judge_path(plane: Plane, grant: Grant) -> Permit:
    alias = grant.endpoint.model
    if alias is None:
        return Permit()
    if alias not in grant.client.models:
        raise Malformed(Reason.MODEL_NOT_PERMITTED)
    return Permit(model=plane.models[alias])


def _judge_body(plane: Plane, rules: Rules, grant: Grant, fields: dict[str, Any]) -> Permit:
    draft = Draft(fields)
    _look(draft, rules)
    _look_for_pieces(draft.body, rules)
    for name, value in rules.defaults:
        if draft.get(name) is None and not (name in rules.tokens and draft.sent(rules.tokens)):
            draft.put(name, value)
    for name, fault in rules.unmet(draft.body):
        if fault:
            raise Malformed(Reason.PARAMETER_INVALID, fault, param=name)
    for name, value in rules.force:
        for one in (name in rules.tokens and draft.sent(rules.tokens)) or (name,):
            draft.put(one, value)
    if rules.thinking is not None and rules.thinking.forbidden:
        thinking.side_door(draft)
    model = _model(plane, grant, draft.body.get("model"))
    draft.put("model", model.served_as)
    apply_caps(draft, rules.caps)
    apply_caps(draft, model.caps)
    bound_answer(draft, rules.tokens, rules.token_caps, model.most_tokens, rules.answer_default)
    if rules.thinking is not None:
        thinking.settle(draft, model, rules.thinking, grant, rules.controls)
    for name, _ in rules.unmet(draft.body):
        draft.drop(name)
    draft.tidy(rules.closed)
    body = draft.body
    most_tokens = _most_tokens(body, rules.tokens, model)
    return Permit(tuple(draft.changes), model, body.get("stream") is True, most_tokens)


def _most_tokens(body: dict[str, Any], names: tuple[str, ...], model: Model) -> int:
    """Give the most tokens that the engine can produce for a body as it is sent: of one answer, times answers.

    Each of several prompts has answers of its own.
    """
    if model.most_tokens is None:
        return 0
    most = 1
    asked = model.most_tokens
    for name in reversed(names):
        if (sent := body.get(name)) is not None:
            asked = sent
    for name in _ANSWERS:
        if (answers := body.get(name) or 1) > most:
            most = answers
    return int(asked * most) * prompts(body)


def prompts(fields: dict[str, Any]) -> int:
    """Count the prompts of a body, which one request of completions can bring along as a list."""
    several = fields.get("prompt")
    if type(several) is not list or all(type(item) is int for item in several):  # token ids are one prompt
        return 1
    return len(several)


def _look(draft: Draft, rules: Rules) -> None:
    """Look at every name and value; drop what is not listed, where that is the rule, and what is never sent."""
    fields = draft.body
    inspection = Inspection(rules.drop_unlisted, rules.refuse_special_tokens, rules.media_hosts)
    check_of = rules.checks.get
    unlisted = False
    for name, value in fields.items():
        check = check_of(name)
        if check is None:
            unlisted = True
        elif value is not None:
            try:
                check(value, inspection)
            except Malformed as fault:
                _look_at_names(fields, rules, inspection)
                raise inside(name, fault) from None
    if unlisted:
        _look_at_names(fields, rules, inspection)
    for name in rules.required:
        if fields.get(name) is None:
            raise Malformed(Reason.PARAMETER_INVALID, "is missing", param=name)
        if name not in rules.checks:  # dropped, it would leave no request
            raise Malformed(Reason.PARAMETER_NOT_ACCEPTED, "is not accepted here", param=name)
    differing(draft, rules.tokens)
    for name in inspection.dropped:
        draft.drop(name)


def _look_for_pieces(fields: dict[str, Any], rules: Rules) -> None:
    """Look at what is said as the engine joins it, where special tokens matter; each text was looked at alone."""
    if not rules.refuse_special_tokens:
        return
    split = split_tokens.place({name: fields[name] for name in rules.said if name in fields})
    if split is not None:
        raise Malformed(Reason.PARAMETER_INVALID, "holds a special token of chat templates in pieces", param=split)


def _look_at_names(fields: dict[str, Any], rules: Rules, inspection: Inspection) -> None:
    """Take note of unlisted names, or raise for the first: a name comes before every value, be it ``null``."""
    for name in fields:
        if name not in rules.checks:
            inspection.unlisted("", name)
    for parent, members in rules.closed.items():
        listed = fields.get(parent)
        for name in listed if type(listed) is dict else ():
            if name not in members:
                try:
                    inspection.unlisted(parent, name)
                except Malformed as fault:
                    raise inside(parent, fault) from None


def _model(plane: Plane, grant: Grant, alias: str | None) -> Model:
    """Resolve an alias of the client's that fits the dialect, or the only one that does."""
    generates = FACTS[grant.endpoint.dialect].generates
    if alias is not None:
        model = plane.models[alias] if alias in grant.client.models else None
        if model is None or not _fits(model, generates=generates):
            raise Malformed(Reason.MODEL_NOT_PERMITTED, param="model")
        return model
    fitting = [model for model in _models(plane, grant.client) if _fits(model, generates=generates)]
    if len(fitting) != 1:
        raise Malformed(Reason.MODEL_MISSING, param="model")
    return fitting[0]


def _models(plane: Plane, client: Client) -> list[Model]:
    return [plane.models[alias] for alias in client.models]


def _fits(model: Model, *, generates: bool) -> bool:
    return (model.most_tokens is not None) == generates
