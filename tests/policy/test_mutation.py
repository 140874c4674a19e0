from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from gateway.policy.mutation import mutants, unnoticed
from gateway.policy.source import dotted
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, compiled

SMALL: dict[str, Any] = {
    "plane": "x",
    "trust": {"callers": {"a": {"clock_skew": "30s"}}},
    "endpoints": {"chat": {"allow": "POST /x", "body_limit": "2MiB", "deadlines": {"total": "30s"}}},
    "parameters": {
        "chat": {"unlisted": "drop", "caps": {"n": {"at_most": 0.5, "otherwise": "lower"}}, "force": {"a": False}}
    },
    "models": {"local": {"card": "x", "thinking_switch": "both", "most_tokens": 7}},
}


def changes(area: str) -> dict[str, list[str]]:
    """List what is done to each path of an area of a small file."""
    found: dict[str, list[str]] = {}
    for mutant in mutants(SMALL):
        if mutant.path[0] == area:
            found.setdefault(dotted(mutant.path[1:]), []).append(mutant.change)
    return found


def test_keys_are_removed_and_durations_move_but_sizes_and_paths_do_not() -> None:
    assert changes("endpoints") == {
        "chat": ["is removed"],
        "chat.allow": ["is removed"],
        "chat.body_limit": ["is removed"],
        "chat.deadlines": ["is removed"],
        "chat.deadlines.total": ["is removed", "becomes `29s`", "becomes `31s`"],
    }


def test_numbers_move_words_are_replaced_and_truths_are_turned() -> None:
    assert changes("parameters") == {
        "chat": ["is removed"],
        "chat.unlisted": ["is removed", "becomes `refuse`"],
        "chat.caps": ["is removed"],
        "chat.caps.n": ["is removed"],
        "chat.caps.n.at_most": ["is removed", "becomes `-0.5`", "becomes `1.5`"],
        "chat.caps.n.otherwise": ["is removed", "becomes `refuse`", "becomes `disable`"],
        "chat.force": ["is removed"],
        "chat.force.a": ["is removed", "becomes `true`"],
    }


def test_cards_stay_and_both_switches_are_offered_to_nobody() -> None:
    assert changes("models") == {
        "local": ["is removed"],
        "local.thinking_switch": [
            "is removed",
            "becomes `enable_thinking`",
            "becomes `thinking`",
            "becomes `reasoning_effort`",
            "becomes `none`",
        ],
        "local.most_tokens": ["is removed", "becomes `6`", "becomes `8`"],
    }


def test_only_rules_are_changed() -> None:
    assert {mutant.path[0] for mutant in mutants(SMALL)} == {"endpoints", "parameters", "models"}


def test_a_mutant_is_one_change_of_a_file_that_stays_as_it_was() -> None:
    before = deepcopy(SMALL)
    seen = [mutant.data for mutant in mutants(SMALL)]
    assert before == SMALL
    assert all(data != SMALL for data in seen)
    assert all(data["plane"] == "x" for data in seen)


def test_items_of_lists_are_removed_one_by_one() -> None:
    data = {"clients": {"a": {"may": ["x", "y"]}}}
    rest = [mutant.data["clients"]["a"]["may"] for mutant in mutants(data) if len(mutant.path) == 4]
    assert rest == [["y"], ["x"]]


@pytest.mark.parametrize("name", [PARTNER, INTERNAL, CONTROL])
def test_the_cases_of_the_worked_examples_bite(name: str) -> None:
    assert list(unnoticed(compiled(name))) == []


def missed(name: str, *edits: tuple[str, str]) -> list[tuple[str, str]]:
    """Give the changes of an edited example that no case notices."""
    return [(dotted(mutant.path), mutant.change) for mutant in unnoticed(compiled(name, *edits))]


def test_a_cap_that_no_case_reaches_is_found() -> None:
    toothless = ("    - name: one answer is asked for instead of two", "    - name: one answer is asked for")
    assert missed(INTERNAL, toothless, ("messages: [], n: 2}", "messages: [], n: 1}")) == [
        ("parameters.chat.caps", "is removed"),
        ("parameters.chat.caps.n.at_most", "becomes `2`"),
        ("parameters.chat.caps.n.otherwise", "becomes `refuse`"),
    ]


def test_limits_that_no_case_states_are_found() -> None:
    wrong = missed(INTERNAL, ("        limits: {req", "        # limits: {req"))
    assert ("limits.person.requests_per_minute", "becomes `61`") in wrong


def test_a_network_that_no_case_comes_from_is_found() -> None:
    elsewhere = ("who: an agent by IPv6, ask", "who: an agent, ask")
    assert missed(INTERNAL, elsewhere) == [("clients.agents.from[1]", "is removed")]


def test_callers_stay_who_they_are_when_the_file_changes() -> None:
    """A caller of a client bears its first key and comes from its first network, also where those are taken away."""
    anywhere = ("an agent:              {client: agents, address: 10.20.7.9}", "an agent: {client: agents}")
    researcher = ("{client: agents, groups: [reasoning], address: 10.20.7.9}", "{client: agents, groups: [reasoning]}")
    assert missed(INTERNAL, anywhere, researcher) == []
    old_keys = (
        "{is: {keys: {sha256: 7a1f0f4ce5f5bd0a0d7ad4a1f1b6a1f29be3b3a9d4c7e5f60718293a4b5c6d7e}}}",
        "{client: batch}",
    )
    assert missed(PARTNER, old_keys) == []


def test_an_explicit_default_is_no_rule() -> None:
    policy = compiled(INTERNAL)
    removed = [mutant.path for mutant in mutants(policy.tree.data) if mutant.change == "is removed"]
    assert ("models", "local", "thinking_switch") in removed
    assert not list(unnoticed(policy))


def test_a_case_that_fails_notices_by_failing_otherwise() -> None:
    wrong = ("      permit: {sent: {n: 1}}", "      permit: {sent: {n: 9}}")
    assert missed(INTERNAL, wrong) == []


def test_a_priority_may_become_each_other_one() -> None:
    data = {"limits": {"a": {"priority": "high"}}}
    found = [mutant.change for mutant in mutants(data) if mutant.path == ("limits", "a", "priority")]
    assert found == ["is removed", "becomes `normal`", "becomes `low`"]
