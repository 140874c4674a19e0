"""What a policy does with one request, and why: ``vllm-gateway explain PLANE WHO "METHOD TARGET" [BODY.json]``.

Enters: a compiled file, the name of a caller of its cases, a request line, a body, the day. Leaves: ``Explanation``,
with the rule that decided by its name and its line in the file. The request is led through the same rooms as a real
one; no engine is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from gateway.dialects.media import payloads
from gateway.dialects.registry import DIALECTS, FACTS
from gateway.limits.charge import prompt_tokens
from gateway.policy.cases import ELSEWHERE, request_of
from gateway.policy.decision import Deny
from gateway.policy.trial import Outcome, Request, answer
from gateway.reasons import ANSWERS, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.policy.compile import Policy
    from gateway.policy.decision import Permit
    from gateway.policy.model import Plane
    from gateway.policy.source import Path

NOBODY = frozenset({"nobody", "{}"})
"""Names of the caller without a credential, where the cases have no such name."""

_CLIENT = "client "


class NobodyOfThatName(Exception):  # noqa: N818  (says what is so)
    """The cases of the file have no such caller; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Where a decision stands in the file; ``key`` is dotted."""

    key: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.key}  {self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict with what it stands on. ``rules`` are those that a permit rests on, or the one that refused."""

    ask: str
    who: str
    outcome: Outcome
    rules: tuple[Rule, ...]
    not_enforced: tuple[str, ...]

    @property
    def permitted(self) -> bool:
        """Whether the request goes through."""
        return not isinstance(self.outcome.verdict, Deny)

    def as_text(self) -> str:
        """Give what a person reads."""
        return "\n".join(self._lines())

    def as_json(self) -> str:
        """Give what a machine reads."""
        verdict, outcome = self.outcome.verdict, self.outcome
        rules = [{"key": rule.key, "file": rule.file, "line": rule.line} for rule in self.rules]
        document: dict[str, Any] = {
            "verdict": "permit" if self.permitted else "deny",
            "endpoint": outcome.endpoint.name if outcome.endpoint else None,
            "client": outcome.grant.client.name if outcome.grant else None,
            "rules": rules,
            "not_enforced": self.not_enforced,
        }
        if isinstance(verdict, Deny):
            status = ANSWERS[verdict.reason].status
            document |= {"reason": verdict.reason, "status": status, "detail": verdict.detail, "param": verdict.param}
        else:
            changes = [{"action": one.action, "field": one.field, "value": one.value} for one in verdict.changes]
            sent = None if outcome.sent is None else orjson.loads(outcome.sent)
            document |= {"models": outcome.models, "changes": changes, "sent": sent}
            if outcome.metadata is not None:
                document["metadata"] = orjson.loads(outcome.metadata.body)
            if verdict.model is not None:
                document |= {"model": verdict.model.alias, "engine": verdict.model.engine}
            if (reserved := self._reserved(verdict)) is not None:
                document["reserves"] = {"prompt": reserved[0], "answer": reserved[1]}
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()

    def _reserved(self, permit: Permit) -> tuple[int, int] | None:
        """Give the tokens that are reserved for prompt and answer; ``None`` where none are counted."""
        endpoint, sent = self.outcome.endpoint, self.outcome.sent
        if endpoint is None or sent is None or not FACTS[endpoint.dialect].counts_tokens:
            return None
        media, size = payloads(sent, orjson.loads(sent))
        return prompt_tokens(len(sent) - size, media), permit.most_tokens

    def _lines(self) -> Iterator[str]:
        verdict = self.outcome.verdict
        if isinstance(verdict, Deny):
            said = ANSWERS[verdict.reason]
            yield f"deny: {verdict.reason} ({said.status})"
            yield f"  {self.ask} by {self.who}: {said.sentence}"
            for name, text in (("field", verdict.param), ("detail", verdict.detail), ("recorded", verdict.record)):
                if text:
                    yield f"  {name}: {text}"
        else:
            yield "permit"
            yield f"  {self.ask} by {self.who}"
        yield from (f"  rule: {rule}" for rule in self.rules)
        if not isinstance(verdict, Deny):
            yield from self._permit_lines(verdict)
        yield from (f"  not enforced by this version: {key}" for key in self.not_enforced)

    def _permit_lines(self, permit: Permit) -> Iterator[str]:
        outcome = self.outcome
        if (reserved := self._reserved(permit)) is not None:
            prompt, most = reserved
            yield f"  reserves {prompt + most} tokens: {prompt} for the prompt, at most {most} for the answer"
        for change in permit.changes:
            value = "" if change.action == "drop" else f" = {orjson.dumps(change.value).decode()}"
            yield f"  change: {change}{value}"
        if outcome.metadata is not None:
            yield f"  answered by the gateway, with or without a credential: {outcome.metadata.url}"
            yield from _indented(outcome.metadata.body)
        elif outcome.sent is None:
            yield f"  answered by the gateway; models: {', '.join(outcome.models)}"
        elif outcome.endpoint is not None and permit.model is not None:
            line = " ".join(DIALECTS[outcome.endpoint.dialect].upstream or ())
            yield f"  sent to the engine {permit.model.engine}: {line}"
            yield from _indented(outcome.sent)


def _indented(body: bytes) -> Iterator[str]:
    text = orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    yield from (f"    {part}" for part in text.splitlines())


def explain(policy: Policy, who: str, ask: str, body: bytes, today: str) -> Explanation:
    """Judge one request as of a day (UTC, ISO text). Raises ``NobodyOfThatName``."""
    known = policy.document.cases.who
    if who in known:
        request = request_of(policy, who, ask, body, today)
    elif who in NOBODY:
        method, _, target = ask.partition(" ")
        request = Request(method, target.encode(errors="surrogateescape"), None, ELSEWHERE, today, body)
    else:
        names = ", ".join(map(repr, known))
        raise NobodyOfThatName(f"The cases of {policy.tree.file} know {names}, but not {who!r}.")
    outcome = answer(policy.plane, request)
    verdict = outcome.verdict
    if isinstance(verdict, Deny):
        narrowing = _narrowing(policy.plane, outcome, verdict, request)
        paths = [narrowing or _refusing(policy, outcome, verdict, request)]
    else:
        paths = _permitting(outcome, verdict)
    rules = tuple(_rule(policy, path) for path in paths)
    trust = ("trust.edge", f"trust.callers.{request.principal.caller if request.principal else ''}")
    return Explanation(ask, who, outcome, rules, tuple(_in_vain(policy, (*trust, *(rule.key for rule in rules)))))


def _in_vain(policy: Policy, keys: tuple[str, ...]) -> Iterator[str]:
    """Name what the file states about this request and this version does not enforce."""
    for key in policy.plane.not_enforced:
        if any(key == one or key.startswith(f"{one}.") for one in keys):
            yield key


def _rule(policy: Policy, path: Path) -> Rule:
    """Find the line of a rule; a key that the file leaves out is shown at the nearest one around it."""
    return Rule(".".join(map(str, path)), policy.tree.file, policy.tree.mark(path).line)


def _permitting(outcome: Outcome, permit: Permit) -> list[Path]:
    """Give the rules that a permit rests on."""
    if outcome.metadata is not None:
        return [("metadata", "resource")]
    if outcome.grant is None:
        return []
    endpoint, client = outcome.grant.endpoint, outcome.grant.client
    paths: list[Path] = [("endpoints", endpoint.name), ("clients", client.name), ("limits", client.limit.name)]
    if endpoint.parameters is not None:
        paths.append(("parameters", endpoint.name))
    if endpoint.name in client.narrow:
        paths.append(("clients", client.name, "narrow", endpoint.name))
    if permit.model is not None:
        paths.append(("models", permit.model.alias))
    if permit.model is not None and permit.model.caps:
        paths.append(("models", permit.model.alias, "caps"))
    if permit.model is not None and permit.model.limit is not None:
        paths.append(("models", permit.model.alias, "limits"))
        paths.append(("limits", permit.model.limit.name))
    return paths


_NARROWED: Final[Mapping[Reason, str]] = {
    Reason.PARAMETER_NOT_ACCEPTED: "without",
    Reason.PARAMETER_OVER_CAP: "caps",
    Reason.THINKING_NOT_PERMITTED: "thinking",
}


def _narrowing(plane: Plane, outcome: Outcome, deny: Deny, request: Request) -> Path | None:
    """Give the override that refused, if one did: without it, the request would have had another answer."""
    if outcome.grant is None:
        return None
    client, endpoint = outcome.grant.client, outcome.grant.endpoint.name
    key = _NARROWED.get(deny.reason, "")
    if endpoint in client.narrow:
        whole = replace(plane, clients={**plane.clients, client.name: replace(client, narrow={})})
        if answer(whole, request).verdict != deny:
            return ("clients", client.name, "narrow", endpoint, key, deny.param or "")
    for alias, model in plane.models.items():
        if model.caps:
            whole = replace(plane, models={**plane.models, alias: replace(model, caps=())})
            if answer(whole, request).verdict != deny:
                return ("models", alias, key, deny.param or "")
    return None


def _refusing(policy: Policy, outcome: Outcome, deny: Deny, request: Request) -> Path:
    """Give the rule that refused."""
    if outcome.metadata is not None:
        return ("metadata", "resource")
    methods = policy.plane.endpoints.get(request.target.partition(b"?")[0], {})
    endpoint = outcome.endpoint.name if outcome.endpoint else next((one.name for one in methods.values()), "")
    client = outcome.grant.client.name if outcome.grant else deny.record.removeprefix(_CLIENT)
    caller = request.principal.caller if request.principal else ""
    places: dict[Reason, Path] = {
        Reason.METHOD_NOT_ALLOWED: ("endpoints", endpoint, "allow"),
        Reason.QUERY_NOT_ACCEPTED: ("endpoints", endpoint, "query"),
        Reason.CREDENTIAL_MISSING: ("trust", "callers"),
        Reason.CREDENTIAL_INVALID: ("trust", "callers", caller),
        Reason.CLIENT_UNKNOWN: ("clients",),
        Reason.CLIENT_SUSPENDED: ("clients", client, "suspended"),
        Reason.ADDRESS_NOT_ACCEPTED: ("clients", client, "from"),
        Reason.ENDPOINT_NOT_GRANTED: ("clients", client, "may"),
        Reason.SCOPE_MISSING: ("endpoints", endpoint, "needs"),
        Reason.BODY_TOO_LARGE: ("endpoints", endpoint, "body_limit"),
        Reason.BODY_MALFORMED: ("endpoints", endpoint, "dialect"),
        Reason.PARAMETER_NOT_ACCEPTED: ("parameters", endpoint, "accept"),
        Reason.PARAMETER_INVALID: ("parameters", endpoint, "accept"),
        Reason.PARAMETER_OVER_CAP: ("parameters", endpoint, "caps", deny.param or ""),
        Reason.THINKING_NOT_PERMITTED: ("parameters", endpoint, "thinking"),
        Reason.MODEL_MISSING: ("clients", client, "models"),
        Reason.MODEL_NOT_PERMITTED: ("clients", client, "models"),
    }
    return places.get(deny.reason, ("endpoints",))
