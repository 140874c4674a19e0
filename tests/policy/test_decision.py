from __future__ import annotations

from gateway.policy.decision import Change, Deny, Permit
from gateway.reasons import Reason


def test_a_change_names_its_field_and_never_its_value() -> None:
    change = Change("replace", "chat_template_kwargs.enable_thinking", "a secret")
    assert str(change) == "replace chat_template_kwargs.enable_thinking"
    assert "secret" not in repr(change)


def test_a_name_that_a_caller_chose_ends_no_header_line() -> None:
    assert str(Change("drop", "a\r\nSet-Cookie: b, c")) == "drop a??Set-Cookie??b??c"


def test_a_verdict_is_a_value() -> None:
    assert Deny(Reason.OVER_RATE) == Deny(Reason.OVER_RATE, detail="", param=None, record="")
    assert Permit() == Permit((), None)
