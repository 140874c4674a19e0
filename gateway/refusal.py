"""What a caller is told when a request does not go through: status, header lines and a body in the API's own shape.

Enters: a ``Deny``, an exception of the house, or an engine's error answer. Leaves: ``Refusal``. It words, it does not
judge; what the audit record says beside it is not for callers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.engine.complaint import CORE_DIED, OUT_OF_MEMORY, complaint
from gateway.reasons import ANSWERS, PUBLIC, Malformed, Reason, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.dialects.call import Dialect
    from gateway.policy.decision import Deny

MESSAGE_AT_MOST = 2048
"""Characters of an engine's own message that are passed on."""

# What failed in these is for the audit record: the caller could be anyone, or the detail is about our inside.
_PRIVATE = frozenset(
    {
        Reason.CREDENTIAL_INVALID,
        Reason.CREDENTIAL_MISSING,
        Reason.FAILURES_THROTTLED,
        Reason.CLIENT_UNKNOWN,
        Reason.KEYS_UNAVAILABLE,
        Reason.LEDGER_UNAVAILABLE,
        Reason.INTERNAL,
    }
)

_BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY = 400, 401, 403, 404, 429
_SERVER_ERROR, _UNAVAILABLE, _GATEWAY_TIMEOUT, _BAD_GATEWAY, _LAST_STATUS = 500, 503, 504, 502, 599


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is no success.

    ``made_here``: the gateway refuses or failed, so ``Proxy-Status`` names it (RFC 9209 §2); an engine's own refusal of
    a permitted call is passed on without. ``record`` is for the audit record alone. ``retry_after`` is the value of
    that field, if any. ``code`` is the error code of the challenge where it is not the table's. ``fields`` are the
    header lines about limits.
    """

    reason: Reason
    status: int
    message: str
    param: str | None = None
    record: str = ""
    allow: str = ""
    retry_after: str = ""
    made_here: bool = True
    code: str = ""
    fields: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, cause: Deny | Malformed | Unavailable) -> Refusal:
        """Word a refusal or failure of our own."""
        reason = cause.reason
        answer = ANSWERS[reason]
        detail = cause.detail
        shown = f" ({detail})" if detail and reason not in _PRIVATE else ""
        message = f"{answer.sentence.removesuffix('.')}{shown}."
        if isinstance(cause, Unavailable):
            retry_after = "" if cause.retry_after is None else str(cause.retry_after)
            return cls(reason, cause.status or answer.status, message, record=detail, retry_after=retry_after)
        record = detail if isinstance(cause, Malformed) else cause.record or detail
        allow = detail if reason is Reason.METHOD_NOT_ALLOWED else ""
        code = cause.code if isinstance(cause, Malformed) else ""
        return cls(reason, answer.status, message, cause.param, record, allow, code=code)

    @classmethod
    def of_limit(cls, reason: Reason, detail: str, *, retry_after: int, fields: Iterable[bytes]) -> Refusal:
        """Word that a limit was reached; ``retry_after`` is in seconds."""
        answer = ANSWERS[reason]
        message = f"{answer.sentence.removesuffix('.')} ({detail})."
        return cls(reason, answer.status, message, record=detail, retry_after=str(retry_after), fields=tuple(fields))

    @classmethod
    def of_engine(cls, status: int, message: str | None, retry_after: str) -> Refusal:
        """Word an engine's error answer: what is the caller's to mend is passed on, what is ours is not.

        What its words tell is named (``engine.complaint``), in the record and, of a 5xx, in place of them.
        """
        known = complaint(status, message)
        text = (message or "The engine refused the request.")[:MESSAGE_AT_MOST]
        if status in (_UNAUTHORIZED, _FORBIDDEN):
            return cls._failed(Reason.ENGINE_REFUSED_GATEWAY, _BAD_GATEWAY)
        if status == _NOT_FOUND:
            return cls(
                Reason.ENGINE_ERROR, status, "The engine does not serve this model at the moment.", made_here=False
            )
        if status == _TOO_MANY:
            return cls(Reason.ENGINE_OVERLOADED, status, text, record=known, retry_after=retry_after, made_here=False)
        if _BAD_REQUEST <= status < _SERVER_ERROR:
            return cls(Reason.ENGINE_ERROR, status, text, record=known, made_here=False)
        if status == _UNAVAILABLE:
            broken = known in {CORE_DIED, OUT_OF_MEMORY}
            reason = Reason.ENGINE_ERROR if broken else Reason.ENGINE_OVERLOADED
            return cls._failed(reason, status, retry_after, known)
        if status == _GATEWAY_TIMEOUT:
            return cls._failed(Reason.ENGINE_TIMEOUT, status)
        if status >= _SERVER_ERROR:
            passed = status if _SERVER_ERROR < status <= _LAST_STATUS else _BAD_GATEWAY
            return cls._failed(Reason.ENGINE_ERROR, passed, known=known)
        return cls._failed(Reason.ENGINE_MALFORMED, _BAD_GATEWAY)

    @classmethod
    def _failed(cls, reason: Reason, status: int, retry_after: str = "", known: str = "") -> Refusal:
        sentence = ANSWERS[reason].sentence
        message = f"{sentence.removesuffix('.')} ({known})." if known else sentence
        return cls(reason, status, message, record=known, retry_after=retry_after)

    @property
    def public(self) -> Reason:
        """The reason as callers see it."""
        return PUBLIC.get(self.reason, self.reason)

    def body(self, dialect: Dialect, request_id: str) -> bytes:
        """Give the error body in the dialect's shape."""
        return dialect.error(self.public, self.message, self.param, request_id, self.status)

    def lines(self, challenge: str | None) -> list[bytes]:
        """Give the header lines of this refusal; ``challenge`` is the value of ``WWW-Authenticate``, if any."""
        lines = [b"content-type: application/json\r\n"]
        if self.made_here:
            error = ANSWERS[self.reason].proxy_error
            late = f"; deadline={self.record}" if self.reason is Reason.ENGINE_TIMEOUT and self.record else ""
            status = f'vllm-gateway; error={error}; details="{self.public}"{late}'
            lines.append(f"proxy-status: {status}\r\n".encode("ascii"))
        if challenge is not None:
            lines.append(f"www-authenticate: {challenge}\r\n".encode("ascii"))
        if self.allow:
            lines.append(f"allow: {self.allow}\r\n".encode("ascii"))
        if self.retry_after:
            lines.append(f"retry-after: {self.retry_after}\r\n".encode("ascii"))
        lines += self.fields
        return lines
