from __future__ import annotations

from gateway.policy.decision import Change, Deny, Permit, told
from gateway.reasons import Reason


def test_a_change_names_its_field_and_never_its_value() -> None:
    change = Change("replace", "chat_template_kwargs.enable_thinking", "a secret")
    assert str(change) == "replace chat_template_kwargs.enable_thinking"
    assert "secret" not in repr(change)


def test_a_name_that_a_caller_chose_ends_no_header_line() -> None:
    assert str(Change("drop", "a\r\nSet-Cookie: b, c")) == "drop a??Set-Cookie??b??c"


def test_the_record_is_told_of_every_change_and_the_caller_of_what_is_not_as_it_was_sent() -> None:
    changes = [
        Change("set", "a", 1),
        Change("replace", "model", "m"),
        Change("lower", "n", 1),
        Change("drop", "b\r\nc"),
    ]
    words = ("set a", "replace model", "lower n", "drop b??c")
    assert told(changes) == (words, (b"x-gateway-changes: lower n, drop b??c\r\n",))
    assert told(changes[:2]) == (words[:2], ())
    ((line,),) = [told([Change("drop", f"{number:050}") for number in range(100)])[1]]
    assert len(line) == len(b"x-gateway-changes: \r\n") + 1024


def test_a_verdict_is_a_value() -> None:
    assert Deny(Reason.OVER_RATE) == Deny(Reason.OVER_RATE, detail="", param=None, record="")
    assert Permit() == Permit((), None)
