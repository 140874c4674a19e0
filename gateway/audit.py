"""What is written about every request, permitted or not: one record, one line of JSON.

Enters: facts, filled in by each room while the request is under way. Leaves: a line that no text of a caller can
break or fake, in which every text is bounded. There is no attribute for a token, a prompt, a query or the claims of a
token that failed, so none can be written. Where the line goes is the business of ``adapters.audit_log``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from gateway.dialects.call import Usage
    from gateway.reasons import Reason

LONGEST_TEXT = 256
MOST_CHANGES = 64


class Verdict(StrEnum):
    """Whether the request was let through, refused, or stopped by a fault that is not the caller's."""

    PERMIT = "permit"
    DENY = "deny"
    FAILURE = "failure"

    __hash__ = str.__hash__  # that of Enum is a call of Python


class Outcome(StrEnum):
    """How the answer to a permitted request ended."""

    OK = "ok"
    CLIENT_LEFT = "client-left"
    ENGINE_DIED = "engine-died"
    IDLE = "idle"
    DRAINING = "draining"

    __hash__ = str.__hash__


@dataclass(slots=True)
class AuditRecord:
    """The facts about one request; ``None`` for what is not known or does not apply.

    ``time``: Unix time of arrival in seconds. ``id``: the ``x-request-id`` of the answer. ``target``: as it was sent;
    it is escaped, and its query left out, when written. ``client_request_id``, ``edge_ip``, ``cf_ray``: what the
    caller said, checked for form alone. ``detail``: which check failed, for the operator. ``changes``: each as
    ``action field``. Sizes are in bytes.
    """

    time: float
    id: str
    plane: str = ""
    listener: str = ""
    policy: str = ""
    peer: str = ""
    method: str = ""
    target: bytes = field(default=b"", repr=False)
    client_request_id: str | None = None
    edge_ip: str | None = None
    cf_ray: str | None = None
    endpoint: str | None = None
    client: str | None = None
    subject: str | None = None
    credential: str | None = None
    model: str | None = None
    verdict: Verdict = Verdict.FAILURE
    reason: Reason | None = None
    detail: str = ""
    status: int | None = None
    engine: str | None = None
    engine_status: int | None = None
    outcome: Outcome | None = None
    changes: tuple[str, ...] = ()
    usage: Usage | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    head_ms: float | None = None
    judge_ms: float | None = None
    first_byte_ms: float | None = None
    total_ms: float | None = None

    def to_json(self) -> bytes:
        """Write the record as one line of JSON in ASCII, without a line end."""
        facts = (
            self.plane,
            self.listener,
            self.peer,
            self.edge_ip,
            self.method,
            self.target,
            self.endpoint,
            self.client,
            self.subject,
            self.credential,
            self.model,
            self.verdict,
            self.reason,
            self.detail,
            self.status,
            self.engine,
            self.engine_status,
            self.outcome,
            self.changes,
            self.policy,
        )
        # Texts of those who are refused are many and theirs: they must not push out what is read often.
        rest = _written(facts) if self.verdict is Verdict.PERMIT else _written.__wrapped__(facts)
        time, usage = self.time, self.usage
        second = int(time)
        asked, ray = self.client_request_id, self.cf_ray
        if usage is not None and not usage.estimated and usage.reasoning is None and asked is None and ray is None:
            try:
                return _USUAL % (
                    _second(second),
                    (time - second) * 1_000_000,
                    self.id.encode(),
                    usage.prompt,
                    usage.completion,
                    self.bytes_in,
                    self.bytes_out,
                    self.head_ms,
                    self.judge_ms,
                    self.first_byte_ms,
                    self.total_ms,
                    rest,
                )
            except TypeError:  # one of the numbers is not known
                pass
        return _LINE % (
            _second(second),
            (time - second) * 1_000_000,
            self.id.encode(),
            _NULL if asked is None else _line(asked),
            _NULL if ray is None else _line(ray),
            _counts(usage),
            self.bytes_in,
            self.bytes_out,
            _times(self.head_ms, self.judge_ms, self.first_byte_ms, self.total_ms),
            rest,
        )


_NULL = b"null"
_LINE = (
    b'{"time":"%b.%06dZ","id":"%b","client_request_id":%b,"cf_ray":%b,'
    b'"usage":%b,"bytes_in":%d,"bytes_out":%d,"ms":%b,%b'
)
# Of nearly every answer, in one go: what it has not is written already, since each field costs as much as a call.
_USUAL = (
    b'{"time":"%b.%06dZ","id":"%b","client_request_id":null,"cf_ray":null,'
    b'"usage":{"prompt":%d,"completion":%d,"reasoning":null},"bytes_in":%d,"bytes_out":%d,'
    b'"ms":{"head":%.3f,"judge":%.3f,"first_byte":%.3f,"total":%.3f},%b'
)
_FACTS = (
    "plane", "listener", "peer", "edge_ip", "method", "target", "endpoint", "client", "subject", "credential", "model",
    "verdict", "reason", "detail", "status", "engine", "engine_status", "outcome", "changes", "policy",
)  # fmt: skip


@lru_cache(maxsize=512)
def _written(facts: tuple[object, ...]) -> bytes:
    """Write what is the same in many records, as the rest of a line: to look it up costs a tenth of writing it."""
    return _line(dict(zip(_FACTS, map(_bounded, facts), strict=True)))[1:]


def _bounded(fact: object) -> object:
    if type(fact) is bytes:
        return escaped(fact)
    if type(fact) is tuple:
        return [change[:LONGEST_TEXT] for change in fact[:MOST_CHANGES]]
    return fact[:LONGEST_TEXT] if isinstance(fact, str) else fact


@lru_cache(maxsize=1024)  # the seconds in which open streams began
def _second(time: int) -> bytes:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode("ascii")


def _times(*times: float | None) -> bytes:
    written = (_NULL if time is None else b"%.3f" % time for time in times)
    return b'{"head":%b,"judge":%b,"first_byte":%b,"total":%b}' % (*written,)


def _counts(usage: Usage | None) -> bytes:
    if usage is None:
        return _NULL
    counts = {"prompt": usage.prompt, "completion": usage.completion, "reasoning": usage.reasoning}
    return _line(counts | {"estimated": True} if usage.estimated else counts)


def escaped(target: bytes) -> str:
    r"""Give a target as printable ASCII of at most 256 characters, every other byte and the backslash as ``\xNN``.

    A query or fragment is left out, since tokens are sent there by mistake (RFC 6750 §2.3, §5.3).
    """
    if _PLAIN.fullmatch(target):
        return target.decode("ascii")
    path, mark, query = _PARTS.fullmatch(target).groups()  # type: ignore[union-attr]  # every target has this form
    rest = mark.decode() + ("[left out]" if query else "")
    text = "".join(map(_ESCAPES.__getitem__, path[:LONGEST_TEXT]))
    return text[: LONGEST_TEXT - len(rest)] + rest


_PLAIN = re.compile(rb'[ !"$->@-\[\]-~]{0,256}')  # printable, without ? # and the backslash
_PARTS = re.compile(rb"([^?#]*)([?#]?)(.*)", re.DOTALL)
_ESCAPES = [chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in range(256)]  # noqa: PLR2004


def _line(value: object) -> bytes:
    """Serialize to ASCII: line separators, bidirectional controls and the like are escaped as JSON escapes them."""
    try:
        line = orjson.dumps(value)
    except orjson.JSONEncodeError:  # a lone surrogate, which a foreign token can hold
        line = b"\xff"
    if not line.isascii():
        text = json.dumps(value, ensure_ascii=False)
        line = json.dumps(json.loads(text.encode("utf-8", "replace")), separators=(",", ":")).encode("ascii")
    return line.replace(b"\x7f", b"\\u007f")
