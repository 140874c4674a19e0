"""What a case promises, held against what came out.

Enters: a case as written, and an ``Outcome``. Leaves: each difference as expected and got, none where the case holds.
Mappings may be promised in part; lists and everything else are compared as a whole, and ``true`` is not ``1``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from gateway.limits.limit import NORMAL
from gateway.policy.decision import Deny, Permit
from gateway.policy.units import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.policy.document_cases import CaseKeys, PermitKeys
    from gateway.policy.document_endpoints import DeadlineKeys
    from gateway.policy.model import Client, Endpoint
    from gateway.policy.trial import Outcome

_ABSENT: Final = object()
_COUNTED: Final = ("priority", "requests_per_minute", "concurrent_requests", "tokens_per_minute", "tokens_per_day")
_DEADLINES: Final = ("first_byte", "idle", "total")
_LONGEST_SHOWN: Final = 120

Difference = tuple[str, str]


def differences(case: CaseKeys, outcome: Outcome) -> Iterator[Difference]:
    """Yield what a case expected and what came out instead."""
    verdict = outcome.verdict
    got = f"deny: {verdict.reason.value}" if isinstance(verdict, Deny) else "permit"
    if case.permit is None:
        if got != f"deny: {case.deny}":
            yield f"deny: {case.deny}", _explained(got, verdict)
    elif isinstance(verdict, Deny):
        yield "permit", _explained(got, verdict)
    else:
        yield from _permitted(case.permit, outcome)


def _explained(got: str, verdict: object) -> str:
    detail = isinstance(verdict, Deny) and (verdict.detail or verdict.param or verdict.record)
    return f"{got} ({detail})" if detail else got


def _permitted(promised: PermitKeys, outcome: Outcome) -> Iterator[Difference]:
    sent = _ABSENT if outcome.sent is None else json.loads(outcome.sent)
    if promised.sent is not None:
        yield from _in_part(promised.sent, sent, "sent")
    for name in promised.not_sent or ():
        value = _find(sent, name.split("."))
        if value is not _ABSENT:
            yield f"not_sent: {name}", f"sent.{name}: {_shown(value)}"
    if promised.models is not None and sorted(promised.models) != sorted(outcome.models):
        yield f"models: {_shown(promised.models)}", f"models: {_shown(outcome.models)}"
    if outcome.grant is not None:
        yield from _counted(promised, outcome.grant.client)
        if promised.model_limits is not None:
            model = outcome.verdict.model if isinstance(outcome.verdict, Permit) else None
            limit = model.limit if model is not None else None
            yield from _exactly("model_limits", _limits(promised.model_limits), _limits(limit) if limit else {})
        yield from _timed(promised.deadlines, outcome.grant.endpoint)


def _in_part(promised: Any, got: Any, name: str) -> Iterator[Difference]:  # noqa: ANN401  (JSON values)
    """Compare a value, a mapping by its promised keys alone."""
    if isinstance(promised, dict) and isinstance(got, dict):
        for key, value in promised.items():
            yield from _in_part(value, got.get(key, _ABSENT), f"{name}.{key}")
    elif isinstance(promised, list) and isinstance(got, list) and len(promised) == len(got):
        for index, value in enumerate(promised):
            yield from _in_part(value, got[index], f"{name}[{index}]")
    elif isinstance(promised, bool) != isinstance(got, bool) or promised != got:
        yield f"{name}: {_shown(promised)}", f"{name}: {_shown(got)}"


def _find(value: Any, path: list[str]) -> Any:  # noqa: ANN401  (JSON values)
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return _ABSENT
        value = value[name]
    return value


def _counted(promised: PermitKeys, client: Client) -> Iterator[Difference]:
    if promised.limits is not None:
        yield from _exactly("limits", _limits(promised.limits), _limits(client.limit))
    each = "subject" if client.each_subject else "client"
    if promised.each not in {None, each}:
        yield f"each: {promised.each}", f"each: {each}"


def _limits(holder: object) -> dict[str, Any]:
    """Give what a set of limits says; the usual priority goes without saying."""
    return {name: value for name, value in _stated(holder, _COUNTED).items() if value != NORMAL}


def _timed(promised: DeadlineKeys | None, endpoint: Endpoint) -> Iterator[Difference]:
    if promised is not None:
        durations = {name: seconds(text) for name, text in _stated(promised, _DEADLINES).items()}
        yield from _exactly("deadlines", durations, _stated(endpoint.deadlines, _DEADLINES))


def _stated(holder: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(holder, name)) is not None}


def _exactly(name: str, promised: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[Difference]:
    if promised != got:
        yield f"{name}: {_shown(promised)}", f"{name}: {_shown(got)}"


def _shown(value: Any) -> str:  # noqa: ANN401  (JSON values)
    """Show a value on one line, as JSON, and not more of it than a reader wants."""
    text = "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
