from __future__ import annotations

from gateway.identity.refusal import invalid
from gateway.reasons import ANSWERS, Reason


def test_a_refused_credential_has_one_reason_and_a_detail_for_the_record() -> None:
    refusal = invalid("exp has passed")
    assert (refusal.reason, refusal.detail) == (Reason.CREDENTIAL_INVALID, "exp has passed")


def test_the_caller_is_not_told_which_check_failed() -> None:
    assert "exp" not in ANSWERS[invalid("exp has passed").reason].sentence
