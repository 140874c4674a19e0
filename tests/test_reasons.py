from __future__ import annotations

import pytest

from gateway.reasons import ANSWERS, PUBLIC, Malformed, Reason, Unavailable

STATUSES = {
    400: "target-malformed headers-malformed query-not-accepted credential-ambiguous body-malformed "
    "parameter-not-accepted parameter-invalid parameter-over-cap model-missing",
    401: "credential-missing credential-invalid",
    403: "scope-missing client-unknown client-suspended endpoint-not-granted address-not-accepted "
    "thinking-not-permitted",
    404: "target-not-canonical no-such-endpoint model-not-permitted",
    405: "method-not-allowed",
    408: "request-timeout",
    413: "body-too-large",
    414: "target-too-long",
    415: "media-type-not-accepted",
    421: "host-not-served",
    429: "over-rate over-concurrency over-tokens failures-throttled",
    431: "headers-too-large",
    500: "internal",
    502: "engine-unavailable engine-refused-gateway engine-malformed engine-error",
    503: "keys-unavailable ledger-unavailable audit-unavailable spool-unavailable engine-asleep engine-overloaded "
    "draining",
    504: "engine-timeout",
}

# RFC 9209 §2.3: the registered error types that are used here.
PROXY_ERRORS = {
    "destination_unavailable", "http_protocol_error", "http_request_denied", "http_request_error",
    "http_response_incomplete", "http_response_timeout", "proxy_internal_error",
}  # fmt: skip


def test_every_reason_has_one_answer() -> None:
    assert set(ANSWERS) == set(Reason)


def test_the_statuses_are_those_of_the_contract() -> None:
    assert {reason.value: answer.status for reason, answer in ANSWERS.items()} == {
        name: status for status, names in STATUSES.items() for name in names.split()
    }


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_an_answer_is_a_sentence_of_printable_text_with_a_registered_proxy_error(reason: Reason) -> None:
    answer = ANSWERS[reason]
    assert answer.sentence[0].isupper()
    assert answer.sentence.endswith(".")
    assert answer.sentence.isprintable()
    assert answer.proxy_error in PROXY_ERRORS


def test_a_challenge_stands_where_rfc_6750_asks_for_one() -> None:
    """RFC 6750 §3.1: no error code without a credential, and each code with its own status."""
    challenges = {reason: answer.challenge for reason, answer in ANSWERS.items() if answer.challenge is not None}
    assert challenges == {
        Reason.CREDENTIAL_MISSING: "",
        Reason.CREDENTIAL_INVALID: "invalid_token",
        Reason.CREDENTIAL_AMBIGUOUS: "invalid_request",
        Reason.SCOPE_MISSING: "insufficient_scope",
    }


def test_the_two_404s_of_a_path_look_the_same_to_a_caller() -> None:
    assert PUBLIC == {Reason.TARGET_NOT_CANONICAL: Reason.NO_SUCH_ENDPOINT}
    assert ANSWERS[Reason.TARGET_NOT_CANONICAL] == ANSWERS[Reason.NO_SUCH_ENDPOINT]


def test_an_exception_carries_its_reason_and_shows_nothing_else() -> None:
    malformed = Malformed(Reason.PARAMETER_INVALID, "n is not an integer", param="n")
    assert (malformed.reason, malformed.detail, malformed.param) == (
        Reason.PARAMETER_INVALID,
        "n is not an integer",
        "n",
    )
    assert str(malformed) == "('parameter-invalid', 'n is not an integer')"
    assert Malformed(Reason.TARGET_MALFORMED).param is None
    unavailable = Unavailable(Reason.ENGINE_UNAVAILABLE, "none ready", status=503, retry_after=5)
    assert (unavailable.reason, unavailable.detail, unavailable.status, unavailable.retry_after) == (
        Reason.ENGINE_UNAVAILABLE,
        "none ready",
        503,
        5,
    )
    assert Unavailable(Reason.KEYS_UNAVAILABLE).status is None
