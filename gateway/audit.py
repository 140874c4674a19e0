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
from typing import TYPE_CHECKING, Any

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


class Outcome(StrEnum):
    """How the answer to a permitted request ended."""

    OK = "ok"
    CLIENT_LEFT = "client-left"
    ENGINE_DIED = "engine-died"
    IDLE = "idle"
    DRAINING = "draining"


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
    changes: list[str] = field(default_factory=list)
    usage: Usage | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    head_ms: float | None = None
    judge_ms: float | None = None
    first_byte_ms: float | None = None
    total_ms: float | None = None

    def to_json(self) -> bytes:
        """Write the record as one line of JSON in ASCII, without a line end."""
        usage, reason, outcome = self.usage, self.reason, self.outcome
        subject, model = self.subject, self.model
        head, judge, first_byte, total = self.head_ms, self.judge_ms, self.first_byte_ms, self.total_ms
        document = {
            "time": datetime.fromtimestamp(self.time, UTC),
            "id": self.id,
            "client_request_id": self.client_request_id,
            "plane": self.plane,
            "listener": self.listener,
            "peer": self.peer,
            "edge_ip": self.edge_ip,
            "cf_ray": self.cf_ray,
            "method": self.method[:LONGEST_TEXT],
            "target": escaped(self.target),
            "endpoint": self.endpoint,
            "client": self.client,
            "subject": subject and subject[:LONGEST_TEXT],
            "credential": self.credential,
            "model": model and model[:LONGEST_TEXT],
            "verdict": self.verdict._value_,  # plain text: orjson would look for it in the class of each member
            "reason": reason and reason._value_,
            "detail": self.detail[:LONGEST_TEXT],
            "status": self.status,
            "engine": self.engine,
            "engine_status": self.engine_status,
            "outcome": outcome and outcome._value_,
            "changes": [change[:LONGEST_TEXT] for change in self.changes[:MOST_CHANGES]],
            "usage": usage
            and {"prompt": usage.prompt, "completion": usage.completion, "reasoning": usage.reasoning}
            | ({"estimated": True} if usage.estimated else {}),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "ms": {  # cut to microseconds
                "head": head and int(head * 1000) / 1000,
                "judge": judge and int(judge * 1000) / 1000,
                "first_byte": first_byte and int(first_byte * 1000) / 1000,
                "total": total and int(total * 1000) / 1000,
            },
            "policy": self.policy,
        }
        return _line(document)


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


def _line(document: dict[str, Any]) -> bytes:
    """Serialize to ASCII: line separators, bidirectional controls and the like are escaped as JSON escapes them."""
    try:
        line = orjson.dumps(document, option=orjson.OPT_UTC_Z)
    except orjson.JSONEncodeError:  # a lone surrogate, which a foreign token can hold
        line = b"\xff"
    if not line.isascii():
        text = json.dumps(document, default=_isoformat, ensure_ascii=False)
        line = json.dumps(json.loads(text.encode("utf-8", "replace")), separators=(",", ":")).encode("ascii")
    return line.replace(b"\x7f", b"\\u007f")


def _isoformat(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
