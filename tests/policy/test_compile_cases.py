from __future__ import annotations

import pytest

from gateway.policy.compile_cases import repeats
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, Broken, assert_refused, compiled, edited, problems

ACME = "    acme app:           {client: acme}"
UNKNOWN = "{keys: {sha256: ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff}}"
BODY = "body: {model: local, messages: [{role: user, content: hi}]}"

REFUSED = [
    # who
    Broken(ACME, "    acme app: {client: acme, is: {corp: x}}", "    acme app:", "either `client` or `is`"),
    Broken(ACME, "    acme app: {groups: [reasoning]}", "    acme app:", "either `client` or `is`"),
    Broken(ACME, "    acme app: {client: acm}", "    acme app:", "no client `acm`; the nearest is `acme`"),
    Broken(ACME, "    acme app: {is: {korp: x}}", "    acme app:", "no caller `korp`; the nearest is `corp`"),
    Broken(ACME, "    acme app: {client: acme, address: 10.0.0.1:80}", "    acme app:", "no address of IPv4 or IPv6"),
    Broken(UNKNOWN, "{keys: some-key}", "    an unknown key:", "shows {sha256: …} of a key"),
    Broken(UNKNOWN, "{keys: {group: ml}}", "    an unknown key:", "shows {sha256: …} of a key"),
    Broken(UNKNOWN, UNKNOWN.replace("keys", "corp"), "    an unknown key:", "shows an id, or {group: …}"),
    Broken(
        "    batch:              {client: batch}",
        "    batch: {client: batch, groups: [x]}",
        "    batch: {client: batch, g",
        "`groups_claim`",
    ),
    Broken(
        "    batch:              {client: batch}",
        "    batch: {client: batch, scopes: [x]}",
        "    batch: {client: batch, s",
        "bear no scopes",
    ),
    Broken(
        "{client: staff}",
        "{client: staff, scopes: [x]}",
        "    a staff member:",
        "credentials of `tunnel` bear no scopes",
    ),
    Broken(
        "another service:  {is: {platform: 6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90}}",
        "another service:  {is: {platform: {group: x}}}",
        "    another service:",
        "`groups_claim`",
        CONTROL,
    ),
    Broken(
        "{client: orchestrator}",
        "{client: orchestrator, groups: [x]}",
        "    the orchestrator:",
        "`groups_claim`",
        CONTROL,
    ),
    # expect
    Broken(
        "      who: acme app\n",
        "      who: acme ap\n",
        "      who: acme ap\n",
        "no caller in `cases.who` `acme ap`; the nearest is `acme app`",
    ),
    Broken(
        "      deny: model-missing",
        "      deny: model-missing\n      permit: {}",
        "    - name: with two models",
        "either `permit` or `deny`",
    ),
    Broken("      deny: model-missing\n", "", "    - name: with two models", "either `permit` or `deny`"),
    Broken("date: 2027-01-31", "date: 2027-02-31", "date: 2027-02-31", "the calendar has no such day"),
    Broken(
        "permit: {models: [local]}}", "permit: {models: [locl]}}", "[locl]", "no model `locl`; the nearest is `local`"
    ),
    Broken("permit: {}", "permit: {models: [x]}", "models: [x]", "this file has no model `x`", CONTROL),
    # bodies
    Broken(BODY, "body: {messages: {repeat: a, times: -1}}", "times: -1", "as a whole number"),
    Broken(BODY, "body: {messages: {repeat: a, times: true}}", "times: true", "as a whole number"),
    Broken(
        BODY, "body: {messages: [{repeat: a, times: 33554433}]}", "times: 33554433", "more than 33554432 characters"
    ),
    Broken(BODY, "body: {messages: {repeat: {repeat: aaaa, times: 60000}, times: 60000}}", "times: 60000", "more than"),
    Broken(
        BODY,
        "body: {messages: {repeat: [{a: bcd}, 1, {repeat: {}, times: x}], times: 9000000}}",
        "times: 9000000",
        "more than",
    ),
    Broken(BODY, "body: {messages: {repeat: a, times: 2, as: list}}", "as: list", "write `as: text`"),
    Broken(BODY, "body: {messages: {repeat: 1, times: 2, as: text}}", "as: text", "only text can be repeated as text"),
]


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.words + broken.new[-20:])
def test_cases_that_could_not_be_run_are_refused(broken: Broken) -> None:
    assert_refused(broken)


def test_an_endpoint_needs_a_permitting_case() -> None:
    (problem,) = problems(
        edited(PARTNER, ("GET /v1/models/reasoner, permit: {models: [reasoner]}", "GET /v1/models, permit: {}"))
    )
    assert (problem.where, "who may use this endpoint" in problem.sentence) == ("endpoints.model", True)


def test_an_endpoint_needs_a_refusing_case() -> None:
    (problem,) = problems(edited(PARTNER, ("ask: GET /v1/models/local, deny", "ask: GET /v1/models, deny")))
    assert (problem.where, "who may not use this endpoint" in problem.sentence) == ("endpoints.model", True)


def test_a_case_of_another_method_or_path_shows_nothing_of_an_endpoint() -> None:
    found = problems(
        edited(
            CONTROL,
            (
                "{name: nor read, who: another service, ask: GET /metrics",
                "{name: nor read, who: another service, ask: POST /metrics",
            ),
            ("who: nobody, ask: GET /metrics", "who: nobody, ask: GET /metric"),
        )
    )
    assert [problem.where for problem in found] == ["endpoints.metrics"]


def test_a_query_belongs_to_the_case_and_not_to_the_endpoint() -> None:
    edits = (
        ("who: another service, ask: GET /metrics", 'who: another service, ask: "GET /metrics?x"'),
        ("who: nobody, ask: GET /metrics", 'who: nobody, ask: "GET /metrics?x=1"'),
    )
    assert compiled(CONTROL, *edits).plane.name == CONTROL


def test_a_client_needs_a_permitting_case_unless_suspended() -> None:
    found = problems(edited(PARTNER, ("    suspended: true\n", "")))
    assert [(problem.where, "what this client may do" in problem.sentence) for problem in found] == [
        ("clients.initech", True)
    ]


@pytest.mark.parametrize(
    "who",
    [
        "{client: agents}",
        "{is: {corp: {group: agent-users}}, address: 10.20.7.9}",
        "{is: {corp: somebody}, groups: [agent-users], address: 10.20.7.9}",
    ],
)
def test_a_client_is_shown_by_whoever_fits_it(who: str) -> None:
    edits = (
        ("{client: agents, address: 10.20.7.9}", who),
        ('{client: agents, address: "fd12', '{is: {corp: x}, address: "fd12'),
        ("{client: agents, groups", "{is: {corp: x}, groups"),
    )
    assert compiled(INTERNAL, *edits).plane.name == INTERNAL


def test_a_key_shows_the_client_that_holds_it() -> None:
    key = "{is: {keys: {sha256: c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2}}}"
    assert compiled(PARTNER, ("{client: batch}", key)).plane.name == PARTNER


def test_a_case_of_somebody_else_shows_no_client() -> None:
    text = edited(
        INTERNAL,
        ("{client: agents, address: 10.20.7.9}", "{is: {corp: {group: others}}}"),
        ('{client: agents, address: "fd12', '{is: {corp: x}, address: "fd12'),
        ("{client: agents, groups", "{is: {corp: x}, groups"),
    )
    assert "clients.agents" in [problem.where for problem in problems(text)]


@pytest.mark.parametrize(
    "value, stands_for_more",
    [
        ({"repeat": "a", "times": 1}, True),
        ({"repeat": "a", "times": 1, "as": "text"}, True),
        ({"repeat": "a"}, False),
        ({"repeat": "a", "times": 1, "other": 1}, False),
        ({}, False),
    ],
)
def test_only_exactly_these_keys_are_a_repetition(value: dict[str, object], stands_for_more: bool) -> None:  # noqa: FBT001  (the expected answer)
    assert repeats(value) is stands_for_more
