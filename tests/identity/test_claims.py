from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.identity import claims
from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Callable


def refused(read: Callable[[], object]) -> bool:
    with pytest.raises(Malformed) as caught:
        read()
    return caught.value.reason is Reason.CREDENTIAL_INVALID


@pytest.mark.parametrize("value", ["a", "x" * 255, "client 1", "Zoë", "6f1c0b7e-2d3a"])
def test_an_id_is_a_printable_text(value: str) -> None:
    assert claims.name({"sub": value}, "sub") == value


@pytest.mark.parametrize(
    "value", [None, "", "x" * 256, 5, True, ["a"], {"a": "b"}, "a\r\nSet-Cookie: x", "a\x00", "a\u2028"]
)
def test_what_is_no_printable_text_is_no_id(value: object) -> None:
    assert refused(lambda: claims.name({"sub": value}, "sub"))


def test_an_absent_id_is_refused() -> None:
    assert refused(lambda: claims.name({}, "sub"))


@pytest.mark.parametrize("value", [0, 1_796_000_000, 1_796_000_000.5])
def test_a_moment_is_a_number_of_seconds(value: float) -> None:
    assert claims.moment({"exp": value}, "exp") == value


@pytest.mark.parametrize("value", [None, "1796000000", True, [1], {}, -1, 1e300, 2**63, float("nan"), float("inf")])
def test_what_is_no_plausible_number_is_no_moment(value: object) -> None:
    assert refused(lambda: claims.moment({"exp": value}, "exp"))


@pytest.mark.parametrize("value", ["us", ["us"], ["them", "us"]])
def test_our_audience_is_found_alone_and_in_a_list(value: object) -> None:
    assert claims.names_audience({"aud": value}, "us")


@pytest.mark.parametrize(
    "value", [None, "", "us.evil", "US", "u", "them us", [], ["them"], ["us", 5], [["us"]], {"us": 1}, 5]
)
def test_no_other_value_names_our_audience(value: object) -> None:
    assert not claims.names_audience({"aud": value}, "us")


def test_groups_are_the_list_at_the_end_of_the_path() -> None:
    assert claims.groups({"realm": {"groups": ["a", "b"]}}, ("realm", "groups")) == {"a", "b"}
    assert claims.groups({"groups": []}, ("groups",)) == frozenset()


@pytest.mark.parametrize("told", [{}, {"realm": 5}, {"realm": ["groups"]}, {"realm": {}}, {"realm": {"groups": None}}])
def test_a_path_that_leads_nowhere_gives_no_groups(told: dict[str, Any]) -> None:
    assert claims.groups(told, ("realm", "groups")) == frozenset()


def test_without_a_path_nobody_has_groups() -> None:
    assert claims.groups({"groups": ["admin"]}, None) == frozenset()


@pytest.mark.parametrize("value", ["admin", 5, {"admin": True}, ["admin", 5], [["admin"]]])
def test_groups_of_another_type_are_refused_instead_of_guessed(value: object) -> None:
    assert refused(lambda: claims.groups({"groups": value}, ("groups",)))


@pytest.mark.parametrize(
    "value, expected",
    [
        ("chat models", {"chat", "models"}),
        ("chat-readonly xchat", {"chat-readonly", "xchat"}),
        (" chat  models ", {"chat", "models"}),
        ("chat\tmodels", {"chat\tmodels"}),
        ("", set()),
        (["chat", "models"], {"chat", "models"}),
        (["chat models"], {"chat models"}),
        ([], set()),
    ],
)
def test_scopes_are_whole_words_between_spaces_or_members_of_a_list(value: object, expected: set[str]) -> None:
    assert claims.scopes({"scp": value}, "scp") == expected


def test_without_the_claim_there_are_no_scopes() -> None:
    assert claims.scopes({}, "scope") == frozenset()


@pytest.mark.parametrize("value", [None, 5, True, {"chat": 1}, ["chat", 5]])
def test_scopes_of_another_type_are_refused(value: object) -> None:
    assert refused(lambda: claims.scopes({"scope": value}, "scope"))


def test_an_expiry_must_lie_ahead_but_for_the_skew() -> None:
    assert claims.expiry({"exp": 100}, 129.9, 30) == 100
    assert refused(lambda: claims.expiry({"exp": 100}, 130, 30))
    assert refused(lambda: claims.expiry({}, 0, 30))


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_a_beginning_that_is_told_must_have_come_but_for_the_skew(claim: str) -> None:
    claims.check_begun({}, 0, 0)
    claims.check_begun({claim: 130}, 100, 30)
    assert refused(lambda: claims.check_begun({claim: 131}, 100, 30))
    assert refused(lambda: claims.check_begun({claim: "0"}, 100, 30))


def test_a_token_id_is_a_text_or_none() -> None:
    assert claims.token_id({"jti": "j"}) == "j"
    assert claims.token_id({"jti": 5}) is None
    assert claims.token_id({}) is None


def test_without_a_claim_for_them_there_are_no_scopes() -> None:
    assert claims.scopes({"scope": "a"}, None) == frozenset()
