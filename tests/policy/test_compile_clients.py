from __future__ import annotations

from ipaddress import ip_network

import pytest

from gateway.limits.limit import Limit
from gateway.policy.compile_clients import bears_scopes, trust_groups
from gateway.policy.model import Client, Key
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, Broken, assert_refused, compiled, edited, problems

ACME = "is: {corp: 6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90}"
STAFF = "is: {tunnel: {group: ml-users}}"
FROM = 'from: [10.20.0.0/16, "fd12:3456:789a::/48"]'
SECOND_KEY = "- {sha256: c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2}"

REFUSED = [
    # names
    Broken(
        "    limits: standard\n  batch",
        "    limits: standrd\n  batch",
        "    limits: standrd",
        "the nearest is `standard`",
    ),
    Broken(
        "[chat, embeddings, models, model]",
        "[chat, embedings]",
        "    may: [chat, embedings]",
        "the nearest is `embeddings`",
    ),
    Broken(
        "models: [local, reasoner, embed]",
        "models: [locl]",
        "    models: [locl]",
        "no model `locl`; the nearest is `local`",
    ),
    Broken("{corp: 6f1c", "{korp: 6f1c", "{korp: 6f1c", "no caller `korp`; the nearest is `corp`"),
    # proofs
    Broken(
        ACME,
        "is: {corp: [{sha256: 7a1f0f4ce5f5bd0a0d7ad4a1f1b6a1f29be3b3a9d4c7e5f60718293a4b5c6d7f}]}",
        "is: {corp: [",
        "takes no keys",
    ),
    Broken(ACME, "is: {keys: some-id}", "is: {keys: some-id}", "write a list of keys here"),
    Broken(ACME, "is: {keys: {group: ml}}", "is: {keys: {group: ml}}", "write a list of keys here"),
    Broken("        groups_claim: custom.groups\n", "", STAFF, "has no `groups_claim`"),
    Broken(
        ACME,
        "is: {corp: b2a4c8d0-77aa-4f0e-8c1e-1f2e3d4c5b6a}",
        "is: {corp: b2a4c8d0-77aa-4f0e-8c1e-1f2e3d4c5b6a}\n    susp",
        "the client `acme` is this already",
    ),
    Broken(ACME, STAFF, "    is: {tunnel: {group: ml-users}}\n    each", "the client `acme` is this already"),
    Broken(
        SECOND_KEY,
        SECOND_KEY.replace(
            "c3d4", "7a1f0f4ce5f5bd0a0d7ad4a1f1b6a1f29be3b3a9d4c7e5f60718293a4b5c6d7e, not_after: 2030-01-01} #"
        ),
        "- {sha256: 7a1f0f4ce5f5bd0a0d7ad4a1f1b6a1f29be3b3a9d4c7e5f60718293a4b5c6d7e, not_after: 2030",
        "this client is this already",
    ),
    Broken("not_after: 2027-01-31", "not_after: 2027-02-30", "not_after: 2027-02-30", "the calendar has no such day"),
    Broken(
        "    may: [chat, models]\n    models: [local, r",
        "    each: subject\n    may: [chat, models]\n    models: [local, r",
        "    each: subject\n    may: [chat, models]\n    models: [local, r",
        "a key names no person",
    ),
    # what it may use
    Broken(
        "    may: [chat, models]\n    models: [local, r",
        "    may: [chat, embeddings]\n    models: [embed, r",
        "    may: [chat, embeddings]\n",
        "bear none: the client cannot use it",
    ),
    Broken(
        "    may: [chat, models]\n    models: [local]",
        "    may: [embeddings]\n    models: [embed]",
        "    may: [embeddings]",
        "credentials of `tunnel` bear none",
    ),
    Broken(
        "    models: [local, reasoner, embed]\n",
        "    models: [embed]\n",
        "    may: [chat, embeddings",
        "no model for `chat`: it needs one that generates text",
    ),
    Broken(
        "    models: [local, reasoner, embed]\n",
        "    models: [local]\n",
        "    may: [chat, embeddings",
        "no model for `embeddings`: it needs one that generates no text",
    ),
    Broken("    models: [local, reasoner, embed]\n", "", "    may: [chat, embeddings", "no model for `chat`"),
    # networks
    Broken(FROM, "from: [10.20.0.1/16]", "from: [10.20.0.1/16]", "is written 10.20.0.0/16", INTERNAL),
    Broken(FROM, "from: [10.20.300.0/16]", "from: [10.20.300.0/16]", "no address of IPv4 or IPv6", INTERNAL),
    Broken(FROM, 'from: ["fd12::1::/48"]', "from: [", "no address of IPv4 or IPv6", INTERNAL),
    Broken(FROM, "from: [10.0.0.0/8, 10.20.0.0/16]", "from: [", "this and 10.0.0.0/8 overlap", INTERNAL),
    Broken(FROM, "from: [10.20.0.0/16, 10.0.0.0/8]", "from: [", "this and 10.20.0.0/16 overlap", INTERNAL),
    # limits
    Broken(
        "    concurrent_requests: 2\n",
        "    concurrent_requests: 2\n    tokens_per_day: 9\n",
        "    tokens_per_day: 9",
        "counts tokens",
        CONTROL,
    ),
    Broken(
        "limits:\n  orch",
        "limits:\n  unused: {requests_per_minute: 1, concurrent_requests: 1, tokens_per_minute: 1}\n  orch",
        "  unused:",
        "counts tokens",
        CONTROL,
    ),
    # thinking
    Broken(
        "[client:batch, group:reasoning]",
        "[client:bach]",
        "may_enable: [client:bach]",
        "no client `bach`; the nearest is `batch`",
    ),
    Broken(
        "[client:batch, group:reasoning]",
        "[client:initech]",
        "may_enable: [client:initech]",
        "`initech` may not use `chat`",
    ),
]


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.words)
def test_a_client_that_could_not_be_what_it_says_is_refused(broken: Broken) -> None:
    assert_refused(broken)


def test_a_group_may_think_only_where_somebody_names_groups() -> None:
    assert_refused(
        Broken("        groups_claim: groups\n", "", "may_enable: [group:reasoning]", "has a `groups_claim`", INTERNAL)
    )
    assert_refused(Broken("        groups_claim: groups\n", "", "is: {corp: {group", "has no `groups_claim`", INTERNAL))


def test_limits_without_clients_are_counted_where_anything_is() -> None:
    unused = "limits:\n  unused: {requests_per_minute: 1, concurrent_requests: 1, tokens_per_minute: 1}\n  standard"
    assert compiled(PARTNER, ("limits:\n  standard", unused)).plane.limits["unused"] == Limit("unused", 1, 1, 1)


def test_limits_of_tokens_are_refused_where_the_clients_only_list_models() -> None:
    listers = "  listers: {requests_per_minute: 1, concurrent_requests: 1, tokens_per_day: 1}\n"
    text = edited(PARTNER, ("limits:\n", f"limits:\n{listers}"), ("standard\n\noperations", "listers\n\noperations"))
    (problem,) = problems(text)
    assert problem.where == "limits.listers.tokens_per_day"
    assert "no endpoint of the clients with these limits counts tokens" in problem.sentence


def test_clients_are_resolved() -> None:
    plane = compiled(PARTNER).plane
    standard = Limit("standard", 60, 8, 120000, 5000000)
    assert plane.clients["acme"] == Client(
        name="acme",
        caller="corp",
        limit=standard,
        may=frozenset({"chat", "embeddings", "models", "model"}),
        id="6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90",
        models=("local", "reasoner", "embed"),
    )
    assert plane.clients["batch"].keys == (
        Key("7a1f0f4ce5f5bd0a0d7ad4a1f1b6a1f29be3b3a9d4c7e5f60718293a4b5c6d7e", "2027-01-31"),
        Key("c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2"),
    )
    assert (plane.clients["staff"].group, plane.clients["staff"].each_subject) == ("ml-users", True)
    assert plane.clients["initech"].suspended


def test_networks_are_parsed_once() -> None:
    networks = compiled(INTERNAL).plane.clients["agents"].networks
    assert networks == (ip_network("10.20.0.0/16"), ip_network("fd12:3456:789a::/48"))


def test_an_address_of_ipv6_may_be_written_in_full() -> None:
    networks = (
        compiled(INTERNAL, ('"fd12:3456:789a::/48"', '"fd12:3456:789a:0:0:0:0:0/48"')).plane.clients["agents"].networks
    )
    assert networks[1] == ip_network("fd12:3456:789a::/48")


def test_keys_and_access_identities_bear_no_scopes_and_keys_no_groups() -> None:
    callers = compiled(PARTNER).plane.callers
    assert {name: bears_scopes(trust) for name, trust in callers.items()} == {
        "corp": True,
        "keys": False,
        "tunnel": False,
    }
    assert trust_groups(callers["keys"]) is None
    assert trust_groups(callers["corp"]) == ("groups",)


def test_a_priority_is_normal_unless_the_policy_says_so() -> None:
    low = ("    concurrent_requests: 2\n", "    concurrent_requests: 2\n    priority: low\n")
    assert compiled(CONTROL).plane.limits["orchestrator"].priority == "normal"
    assert compiled(CONTROL, low).plane.limits["orchestrator"].priority == "low"
