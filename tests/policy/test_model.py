from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.policy.model import Narrowing, ParameterRules, ThinkingRule
from tests.policy.planes import EMBEDDINGS, INTERNAL, client, plane


def test_a_plane_finds_its_clients_and_the_rules_of_endpoints_with_a_body() -> None:
    built = plane()
    assert built.index.ids["corp", "acme"] == (built.clients["acme"],)
    assert set(built.rules) == {"chat", "embeddings"}


def test_a_changed_plane_is_indexed_anew() -> None:
    changed = replace(plane(), clients={"other": client("other")})
    assert set(changed.index.ids) == {("corp", "other")}


def test_an_endpoint_without_parameters_accepts_none() -> None:
    rules = plane(None).rules["chat"]
    assert set(rules.checks) == {"chat_template_kwargs", "reasoning_effort", "thinking_token_budget"}
    assert plane(None) != plane(INTERNAL)


@pytest.mark.parametrize(
    "rule, forbidden",
    [
        (ThinkingRule(), False),
        (ThinkingRule(everyone=False), True),
        (ThinkingRule(everyone=False, clients=frozenset({"a"})), False),
        (ThinkingRule(everyone=False, groups=frozenset({"a"})), False),
    ],
)
def test_thinking_is_forbidden_where_nobody_may_enable_it(rule: ThinkingRule, *, forbidden: bool) -> None:
    assert rule.forbidden is forbidden


def test_by_default_thinking_is_off_and_everyone_may_enable_it() -> None:
    assert ParameterRules(frozenset()).thinking == ThinkingRule(default_enabled=False, everyone=True)
    assert EMBEDDINGS.drop_unlisted is False


def test_a_client_that_narrows_an_endpoint_has_rules_of_its_own_for_it() -> None:
    small = client("small", narrow={"chat": Narrowing(without=frozenset({"tools"}))})
    built = plane(clients=[small, client("acme")])
    chat, embeddings = built.endpoints[b"/v1/chat/completions"]["POST"], built.endpoints[b"/v1/embeddings"]["POST"]
    assert "tools" not in built.rules_of(small, chat).checks
    assert built.rules_of(small, embeddings) is built.rules["embeddings"]
    assert built.rules_of(built.clients["acme"], chat) is built.rules["chat"]
    assert replace(built, clients={"small": replace(small, narrow={})}) != replace(built, clients={"small": small})
