"""Why a request did not go through: the closed list, and the one table from reason to answer.

Enters: nothing. Leaves: ``Reason`` (the value of ``error.code``), ``ANSWERS``, and the two exceptions of the house.
``Malformed`` is raised by parsers and judges of credentials (the peer's fault), ``Unavailable`` by adapters (a
dependency's fault). Anything else that is raised is our bug and becomes ``Reason.INTERNAL``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reason(StrEnum):
    """One value for each way in which a request can fail; the list is closed."""

    TARGET_MALFORMED = "target-malformed"
    TARGET_NOT_CANONICAL = "target-not-canonical"
    TARGET_TOO_LONG = "target-too-long"
    HEADERS_MALFORMED = "headers-malformed"
    HEADERS_TOO_LARGE = "headers-too-large"
    HOST_NOT_SERVED = "host-not-served"
    NO_SUCH_ENDPOINT = "no-such-endpoint"
    METHOD_NOT_ALLOWED = "method-not-allowed"
    QUERY_NOT_ACCEPTED = "query-not-accepted"
    CREDENTIAL_MISSING = "credential-missing"
    CREDENTIAL_INVALID = "credential-invalid"
    CREDENTIAL_AMBIGUOUS = "credential-ambiguous"
    KEYS_UNAVAILABLE = "keys-unavailable"
    SCOPE_MISSING = "scope-missing"
    CLIENT_UNKNOWN = "client-unknown"
    CLIENT_SUSPENDED = "client-suspended"
    ENDPOINT_NOT_GRANTED = "endpoint-not-granted"
    ADDRESS_NOT_ACCEPTED = "address-not-accepted"
    OVER_RATE = "over-rate"
    OVER_CONCURRENCY = "over-concurrency"
    OVER_TOKENS = "over-tokens"
    FAILURES_THROTTLED = "failures-throttled"
    REQUEST_TIMEOUT = "request-timeout"
    BODY_TOO_LARGE = "body-too-large"
    MEDIA_TYPE_NOT_ACCEPTED = "media-type-not-accepted"
    BODY_MALFORMED = "body-malformed"
    PARAMETER_NOT_ACCEPTED = "parameter-not-accepted"
    PARAMETER_INVALID = "parameter-invalid"
    PARAMETER_OVER_CAP = "parameter-over-cap"
    MODEL_MISSING = "model-missing"
    MODEL_NOT_PERMITTED = "model-not-permitted"
    THINKING_NOT_PERMITTED = "thinking-not-permitted"
    LEDGER_UNAVAILABLE = "ledger-unavailable"
    SPOOL_UNAVAILABLE = "spool-unavailable"
    AUDIT_UNAVAILABLE = "audit-unavailable"
    ENGINE_UNAVAILABLE = "engine-unavailable"
    ENGINE_ASLEEP = "engine-asleep"
    ENGINE_OVERLOADED = "engine-overloaded"
    ENGINE_REFUSED_GATEWAY = "engine-refused-gateway"
    ENGINE_MALFORMED = "engine-malformed"
    ENGINE_ERROR = "engine-error"
    ENGINE_TIMEOUT = "engine-timeout"
    DRAINING = "draining"
    INTERNAL = "internal"

    __hash__ = str.__hash__  # that of Enum is a call of Python, and each request looks one up in some table


@dataclass(frozen=True, slots=True)
class Answer:
    """What a caller is told for a reason.

    ``status``: HTTP status code. ``sentence``: what was wrong and what to do, safe to show anyone. ``proxy_error``: the
    ``error`` parameter of ``Proxy-Status`` (RFC 9209 §2.3). ``challenge``: the ``error`` code of the RFC 6750
    challenge, an empty text for a challenge without a code, ``None`` for no challenge.
    """

    status: int
    sentence: str
    proxy_error: str
    challenge: str | None = None


_DENIED = "http_request_denied"
_REQUEST = "http_request_error"

ANSWERS: Mapping[Reason, Answer] = {
    Reason.TARGET_MALFORMED: Answer(400, "The request target is not a plain path such as /v1/models.", _REQUEST),
    Reason.TARGET_NOT_CANONICAL: Answer(404, "There is no such endpoint here.", _DENIED),
    Reason.TARGET_TOO_LONG: Answer(414, "The request target is longer than 2048 bytes.", _REQUEST),
    Reason.HEADERS_MALFORMED: Answer(400, "The request's header fields are not acceptable.", _REQUEST),
    Reason.HEADERS_TOO_LARGE: Answer(431, "The request's header fields are too many or too long.", _REQUEST),
    Reason.HOST_NOT_SERVED: Answer(421, "This host name is not served here.", _DENIED),
    Reason.NO_SUCH_ENDPOINT: Answer(404, "There is no such endpoint here.", _DENIED),
    Reason.METHOD_NOT_ALLOWED: Answer(405, "The endpoint does not accept this method.", _DENIED),
    Reason.QUERY_NOT_ACCEPTED: Answer(400, "The endpoint does not accept this query string.", _DENIED),
    Reason.CREDENTIAL_MISSING: Answer(401, "Send a credential: 'Authorization: Bearer …'.", _DENIED, ""),
    Reason.CREDENTIAL_INVALID: Answer(401, "The credential is not valid.", _DENIED, "invalid_token"),
    Reason.CREDENTIAL_AMBIGUOUS: Answer(400, "Send exactly one credential.", _DENIED, "invalid_request"),
    Reason.KEYS_UNAVAILABLE: Answer(
        503, "The gateway cannot check credentials at the moment. Try again shortly.", "proxy_internal_error"
    ),
    Reason.SCOPE_MISSING: Answer(
        403, "The token lacks a scope that this endpoint needs.", _DENIED, "insufficient_scope"
    ),
    Reason.CLIENT_UNKNOWN: Answer(403, "This credential belongs to no client of this gateway.", _DENIED),
    Reason.CLIENT_SUSPENDED: Answer(403, "This client is suspended. Ask the operator of the gateway.", _DENIED),
    Reason.ENDPOINT_NOT_GRANTED: Answer(403, "This client may not use this endpoint.", _DENIED),
    Reason.ADDRESS_NOT_ACCEPTED: Answer(403, "This client may not come from this address.", _DENIED),
    Reason.OVER_RATE: Answer(429, "Too many requests in this minute.", _DENIED),
    Reason.OVER_CONCURRENCY: Answer(429, "Too many requests are open at once.", _DENIED),
    Reason.OVER_TOKENS: Answer(429, "The token allowance is used up for now.", _DENIED),
    Reason.FAILURES_THROTTLED: Answer(429, "Too many failed credentials. Try again shortly.", _DENIED),
    Reason.REQUEST_TIMEOUT: Answer(408, "The request did not arrive in time.", _REQUEST),
    Reason.BODY_TOO_LARGE: Answer(413, "The request body is larger than this endpoint accepts.", _REQUEST),
    Reason.MEDIA_TYPE_NOT_ACCEPTED: Answer(
        415, "Send the body in the media type of this endpoint, without a content coding.", _REQUEST
    ),
    Reason.BODY_MALFORMED: Answer(400, "The request body is not well-formed.", _REQUEST),
    Reason.PARAMETER_NOT_ACCEPTED: Answer(400, "A parameter is not accepted here.", _DENIED),
    Reason.PARAMETER_INVALID: Answer(400, "A parameter has a value that is not valid.", _DENIED),
    Reason.PARAMETER_OVER_CAP: Answer(400, "A parameter is over its cap.", _DENIED),
    Reason.MODEL_MISSING: Answer(400, "Name a model: this client may use more than one here.", _DENIED),
    Reason.MODEL_NOT_PERMITTED: Answer(404, "This client has no model of this name here.", _DENIED),
    Reason.THINKING_NOT_PERMITTED: Answer(403, "This client may not switch thinking on here.", _DENIED),
    Reason.LEDGER_UNAVAILABLE: Answer(
        503, "The gateway cannot count requests at the moment. Try again shortly.", "proxy_internal_error"
    ),
    Reason.SPOOL_UNAVAILABLE: Answer(
        503, "The gateway has no room for the file at the moment. Try again shortly.", "proxy_internal_error"
    ),
    Reason.AUDIT_UNAVAILABLE: Answer(
        503, "The gateway cannot keep its records at the moment. Try again shortly.", "proxy_internal_error"
    ),
    Reason.ENGINE_UNAVAILABLE: Answer(502, "The engine cannot be reached.", "destination_unavailable"),
    Reason.ENGINE_ASLEEP: Answer(503, "The engine is asleep. Try again later.", "destination_unavailable"),
    Reason.ENGINE_OVERLOADED: Answer(
        503, "The engine has too much to do. Try again shortly.", "destination_unavailable"
    ),
    Reason.ENGINE_REFUSED_GATEWAY: Answer(
        502, "The engine does not accept the gateway's own key; your credential is fine.", "http_response_incomplete"
    ),
    Reason.ENGINE_MALFORMED: Answer(502, "The engine's answer was not valid HTTP.", "http_protocol_error"),
    Reason.ENGINE_ERROR: Answer(502, "The engine failed while answering.", "http_response_incomplete"),
    Reason.ENGINE_TIMEOUT: Answer(504, "The engine did not answer in time.", "http_response_timeout"),
    Reason.DRAINING: Answer(503, "The gateway is shutting down. Try again shortly.", "destination_unavailable"),
    Reason.INTERNAL: Answer(500, "The gateway failed.", "proxy_internal_error"),
}

# The caller must not learn which of the two 404s it was: the second would tell that a decoded path exists.
PUBLIC: Mapping[Reason, Reason] = {Reason.TARGET_NOT_CANONICAL: Reason.NO_SUCH_ENDPOINT}


class Malformed(Exception):  # noqa: N818  (the field's word for what the peer sent, not for an error of ours)
    """What the peer sent is refused.

    ``detail`` is a short English phrase that is safe in answers and logs: it names fields and positions, never values.
    For ``CREDENTIAL_INVALID`` it goes to the audit record alone. ``param`` is the field of the body at fault. ``code``
    is the error code of the challenge where it is not the table's.
    """

    def __init__(self, reason: Reason, detail: str = "", *, param: str | None = None, code: str = "") -> None:
        super().__init__(reason.value, detail)
        self.reason = reason
        self.detail = detail
        self.param = param
        self.code = code


class Unavailable(Exception):  # noqa: N818  (as above)
    """A dependency failed. ``status`` replaces the table's where a reason has two; ``retry_after`` is in seconds."""

    def __init__(
        self, reason: Reason, detail: str = "", *, status: int | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(reason.value, detail)
        self.reason = reason
        self.detail = detail
        self.status = status
        self.retry_after = retry_after
