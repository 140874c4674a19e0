from __future__ import annotations

import pytest

from gateway.identity.principal import CredentialKind, Principal
from gateway.policy.cases import ELSEWHERE, SOME_DAY, default_day, request_of, requests_of, run
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, compiled, edited, line_of


@pytest.mark.parametrize("name", [PARTNER, INTERNAL, CONTROL])
def test_the_cases_of_the_worked_examples_hold(name: str) -> None:
    assert run(compiled(name)) == ()


def test_a_case_that_does_not_hold_is_told_with_its_line_and_both_answers() -> None:
    edit = ("      deny: model-missing\n", "      deny: model-not-permitted\n")
    (failure,) = run(compiled(PARTNER, edit))
    assert failure.name == "with two models to choose from, one must be named"
    assert failure.problem.line == line_of(edited(PARTNER, edit), "    - name: with two models")
    assert failure.differences == (("deny: model-not-permitted", "deny: model-missing (model)"),)


def test_a_weaker_rule_is_found_by_its_case() -> None:
    failures = run(compiled(PARTNER, ("    special_tokens: refuse\n", "")))
    assert [failure.name for failure in failures] == ["so are special tokens typed into content"]


def principal(policy_name: str, who: str, *edits: tuple[str, str]) -> Principal | None:
    """Give the credential of a caller of the cases."""
    return request_of(compiled(policy_name, *edits), who, "GET /v1/models", b"").principal


def test_a_client_s_caller_bears_its_id() -> None:
    assert principal(PARTNER, "acme embedder") == Principal(
        "corp",
        CredentialKind.ACCESS_TOKEN,
        "6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90",
        "6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90",
        scopes=frozenset({"llm.embed"}),
    )


def test_a_client_s_caller_bears_its_first_key() -> None:
    assert principal(PARTNER, "batch") == Principal(
        "keys", CredentialKind.API_KEY, "7a1f0f4ce5f5bd0a0d7ad4a1f1b6a1f29be3b3a9d4c7e5f60718293a4b5c6d7e"
    )


def test_a_client_s_caller_is_one_person_of_its_group() -> None:
    staff = principal(PARTNER, "a staff member")
    assert staff is not None
    assert staff.kind is CredentialKind.CLOUDFLARE_ACCESS
    assert staff.groups == {"ml-users"}
    assert staff.subject == staff.id


def test_groups_of_a_caller_come_besides() -> None:
    researcher = principal(INTERNAL, "a researcher's agent")
    assert researcher is not None
    assert researcher.groups == {"agent-users", "reasoning"}


def test_a_caller_may_be_given_by_what_it_proves() -> None:
    visitor = principal(PARTNER, "a visitor")
    employee = principal(INTERNAL, "another employee")
    key = principal(PARTNER, "an unknown key")
    assert visitor is not None
    assert visitor.id == "7335d417-61da-459d-899c-0a01c76a2f94"
    assert employee is not None
    assert employee.groups == {"sales"}
    assert key is not None
    assert key.id == "f" * 64


def test_an_empty_caller_bears_no_credential() -> None:
    assert principal(PARTNER, "nobody") is None


def test_a_client_comes_from_inside_its_first_network_unless_said_otherwise() -> None:
    said, unsaid = ("an agent:              {client: agents, address: 10.20.7.9}", "an agent: {client: agents}")

    def address(who: str, *edits: tuple[str, str]) -> str | None:
        return request_of(compiled(INTERNAL, *edits), who, "GET /", b"").address

    assert address("an agent") == "10.20.7.9"
    assert address("an agent", (said, unsaid)) == "10.20.0.1"
    assert address("an agent", (said, unsaid), ("[10.20.0.0/16,", "[10.20.7.9/32,")) == "10.20.7.9"
    assert address("nobody") == ELSEWHERE
    assert request_of(compiled(PARTNER), "acme app", "GET /", b"").address == ELSEWHERE


def test_the_day_is_the_case_s_or_one_before_every_last_day() -> None:
    policy = compiled(PARTNER)
    assert request_of(policy, "batch", "GET /", b"").today == "2027-01-30"
    assert request_of(policy, "batch", "GET /", b"", "2027-02-01").today == "2027-02-01"
    assert default_day(compiled(INTERNAL).plane) == SOME_DAY


def test_targets_are_sent_as_written() -> None:
    request = request_of(compiled(CONTROL), "nobody", "BREW /é\ud800 x?", b"")
    assert (request.method, request.target) == ("BREW", b"/\xc3\xa9\xed\xa0\x80 x?")


@pytest.mark.parametrize(
    "body, written",
    [
        ("{a: 1, b: [true, null, 0.5]}", b'{"a":1,"b":[true,null,0.5]}'),
        ("{a: {repeat: x, times: 3}}", b'{"a":["x","x","x"]}'),
        ("{a: {repeat: ab, times: 3, as: text}}", b'{"a":"ababab"}'),
        ("{a: {repeat: {b: {repeat: x, times: 2, as: text}}, times: 2}}", b'{"a":[{"b":"xx"},{"b":"xx"}]}'),
        ("{a: {repeat: x, times: 0}}", b'{"a":[]}'),
        ("{a: {repeat: x}}", b'{"a":{"repeat":"x"}}'),
        ("{a: é}", '{"a":"é"}'.encode()),
        ('{a: "\\ud800"}', b'{"a":"\xed\xa0\x80"}'),
    ],
)
def test_bodies_are_written_as_a_client_would_send_them(body: str, written: bytes) -> None:
    policy = compiled(INTERNAL, ("body: {model: local, messages: [{role: user, content: hi}]}", f"body: {body}"))
    assert requests_of(policy)[0].body == written


def test_a_case_without_a_body_sends_none() -> None:
    assert requests_of(compiled(CONTROL))[0].body == b""
