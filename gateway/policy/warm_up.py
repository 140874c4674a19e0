"""What is asked of a model before anybody's request goes to it: what callers will ask, small.

Enters: a plane. Leaves: ``WarmUp`` for each model: bodies as the court would let them pass and the workshop would write
them, defaults and thinking switch included, for one token. An engine that lists a model and answers on ``/health`` may
yet compile kernels for half a minute, and again for its first batch; whoever comes first would wait for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.dialects.call import Call
from gateway.dialects.changes import changed
from gateway.dialects.registry import DIALECTS, FACTS
from gateway.identity.principal import CredentialKind, Principal
from gateway.limits.limit import Limit
from gateway.policy.decision import Change, Deny, Grant
from gateway.policy.judge import judge
from gateway.policy.model import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gateway.policy.model import Endpoint, Model, Plane

TOGETHER: Final = 4
"""Requests of the small batch."""

_TEXTS: Final = ("Hello.", "One.", "Two.", "Three.", "Four.")


def _messages(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


# Dialect and body, the likeliest first; where one dialect has several shapes, the policy may accept any of them.
_SHAPES: Final[tuple[tuple[str, Callable[[str], dict[str, Any]]], ...]] = (
    ("openai-chat", _messages),
    ("anthropic-messages", lambda text: {**_messages(text), "max_tokens": 1}),
    ("openai-responses", lambda text: {"input": text}),
    ("openai-completions", lambda text: {"prompt": text}),
    ("openai-embeddings", lambda text: {"input": text}),
    ("rerank", lambda text: {"query": text, "documents": [text]}),
    ("score", lambda text: {"queries": text, "documents": text}),
    ("score", lambda text: {"text_1": text, "text_2": text}),
    ("score", lambda text: {"data_1": text, "data_2": text}),
)
_PRINCIPAL: Final = Principal("", CredentialKind.API_KEY, "")
_LIMIT: Final = Limit("", 1, 1)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What one model is asked: one body alone, then several at the same time."""

    engine: str
    served_as: str
    method: str
    path: str
    alone: bytes = field(repr=False)
    together: tuple[bytes, ...] = field(repr=False)


def warm_ups(planes: Iterable[Plane]) -> list[WarmUp]:
    """Give one warm-up for each model of each engine that some endpoint can ask something."""
    found: dict[tuple[str, str], WarmUp] = {}
    for plane in planes:
        for model in plane.models.values():
            key = (model.engine, model.served_as)
            warm_up = None if key in found else _warm_up(plane, model)
            if warm_up is not None:
                found[key] = warm_up
    return list(found.values())


def _warm_up(plane: Plane, model: Model) -> WarmUp | None:
    """Find the first shape that the plane permits for this model."""
    for name, shape in _SHAPES:
        dialect = DIALECTS.get(name)
        for endpoint in _endpoints(plane, name):
            bodies = [written(plane, endpoint, model, shape(text)) for text in _TEXTS]
            whole = tuple(body for body in bodies if body is not None)
            if dialect is not None and dialect.upstream is not None and len(whole) == len(_TEXTS):
                method, path = dialect.upstream
                return WarmUp(model.engine, model.served_as, method, path, whole[0], whole[1:])
    return None


def _endpoints(plane: Plane, dialect: str) -> Iterator[Endpoint]:
    for methods in plane.endpoints.values():
        yield from (endpoint for endpoint in methods.values() if endpoint.dialect == dialect)


def asked(dialect: str) -> dict[str, Any]:
    """Give the fields of the first question in the likeliest shape of a dialect; none for one without a shape."""
    return next((shape(_TEXTS[0]) for name, shape in _SHAPES if name == dialect), {})


def written(plane: Plane, endpoint: Endpoint, model: Model, fields: dict[str, Any], *, tokens: int = 1) -> bytes | None:
    """Judge and write a body as a caller's who has this model, for so many tokens; ``None`` where it is refused."""
    client = Client("", "", _LIMIT, frozenset({endpoint.name}), models=(model.alias,))
    call = Call({"model": model.alias, **fields})
    verdict = judge(plane, Grant(client, endpoint, _PRINCIPAL), call)
    if isinstance(verdict, Deny):
        return None
    sent = changed(call.fields, verdict.changes)
    shortened = [Change("lower", name, tokens) for name in FACTS[endpoint.dialect].answer_tokens if sent.get(name)]
    return DIALECTS[endpoint.dialect].write(call, [*verdict.changes, *shortened])
