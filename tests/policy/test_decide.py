from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest

from gateway.identity.principal import CredentialKind, Principal
from gateway.policy.decide import admit, endpoint_for
from gateway.policy.decision import Deny, Grant
from gateway.policy.model import Endpoint, Key
from gateway.reasons import Reason
from gateway.wire.target import Target
from tests.policy.planes import NEW_KEY, OLD_KEY, client, plane, principal

SLEEP = Endpoint(
    "sleep",
    "POST",
    b"/engines/main/sleep",
    "engine-sleep",
    engine="main",
    query={"level": frozenset({"1", "2"})},
)
BETA = Endpoint(
    "beta", "GET", b"/beta", "openai-models", query={"beta": frozenset({"true"}), "v": frozenset({"1", ""})}
)
LISTED = Endpoint("listed", "HEAD", b"/v1/models", "openai-models")
PLANE = plane(endpoints=[SLEEP, BETA, LISTED])
CHAT = PLANE.endpoints[b"/v1/chat/completions"]["POST"]
TODAY = "2026-06-30"


def reason(target: bytes, method: str = "POST") -> Reason | str:
    found = endpoint_for(PLANE, method, Target.parse(target))
    return found.reason if isinstance(found, Deny) else found.name


@pytest.mark.parametrize(
    "method, target, expected",
    [
        ("POST", b"/v1/chat/completions", "chat"),
        ("GET", b"/v1/models", "models"),
        ("HEAD", b"/v1/models", "listed"),
        ("GET", b"/v1/models/local", "model"),
        ("GET", b"/v1/models/", Reason.NO_SUCH_ENDPOINT),
        ("GET", b"/v1/models/gpt-4o", Reason.NO_SUCH_ENDPOINT),
        ("POST", b"/v1/chat/completions/render", Reason.NO_SUCH_ENDPOINT),
        ("POST", b"/V1/chat/completions", Reason.NO_SUCH_ENDPOINT),
        ("GET", b"/v1/chat/completions", Reason.METHOD_NOT_ALLOWED),
        ("post", b"/v1/chat/completions", Reason.METHOD_NOT_ALLOWED),
        ("OPTIONS", b"/v1/models", Reason.METHOD_NOT_ALLOWED),
        ("GET", b"/v1/models?", Reason.QUERY_NOT_ACCEPTED),
        ("POST", b"/v1/chat/completions?x=1", Reason.QUERY_NOT_ACCEPTED),
    ],
)
def test_an_endpoint_is_one_method_and_one_exact_path(method: str, target: bytes, expected: Reason | str) -> None:
    assert reason(target, method) == expected


@pytest.mark.parametrize("query", [b"level=1", b"level=2"])
def test_a_listed_query_passes(query: bytes) -> None:
    assert reason(b"/engines/main/sleep?" + query) == "sleep"


@pytest.mark.parametrize(
    "query",
    [
        b"",
        b"level=0",
        b"level=1&level=2",
        b"level=1&level=1",
        b"level=1&mode=abort",
        b"mode=abort",
        b"level",
        b"level=",
        b"LEVEL=1",
        b"level=%31",
        b"%6cevel=1",
        b"level=1&",
        b"&level=1",
        b"level=1;level=2",
        b"level=1=",
        b"=1",
    ],
)
def test_a_query_that_is_not_listed_as_it_stands_is_refused(query: bytes) -> None:
    assert reason(b"/engines/main/sleep?" + query) is Reason.QUERY_NOT_ACCEPTED


def test_the_level_of_sleep_must_be_said() -> None:
    found = endpoint_for(PLANE, "POST", Target.parse(b"/engines/main/sleep"))
    assert found == Deny(Reason.QUERY_NOT_ACCEPTED, "needs level")


def test_a_query_of_inference_may_be_left_out_or_come_in_any_order() -> None:
    assert reason(b"/beta", "GET") == "beta"
    assert reason(b"/beta?v=&beta=true", "GET") == "beta"


def test_head_is_get_where_web_pages_may_read_answers() -> None:
    pages = replace(plane(), cors_origins=frozenset({"https://ok.example"}))
    found = endpoint_for(pages, "HEAD", Target.parse(b"/v1/models"))
    assert isinstance(found, Endpoint)
    assert found.method == "GET"
    for method, target, allow in (
        ("HEAD", b"/v1/chat/completions", "OPTIONS, POST"),
        ("OPTIONS", b"/v1/models", "GET, HEAD, OPTIONS"),
    ):
        refused = endpoint_for(pages, method, Target.parse(target))
        assert isinstance(refused, Deny)
        assert refused.detail == allow


def test_a_wrong_method_is_told_the_right_ones() -> None:
    found = endpoint_for(PLANE, "POST", Target.parse(b"/v1/models"))
    assert isinstance(found, Deny)
    assert found.detail == "GET, HEAD"


def test_a_client_is_let_in_by_its_id() -> None:
    found = admit(PLANE, CHAT, principal("acme"), None, TODAY)
    assert found == Grant(PLANE.clients["acme"], CHAT, principal("acme"))


@pytest.mark.parametrize("id_", ["", "ACME", "acme ", "nobody"])
def test_an_id_is_compared_whole(id_: str) -> None:
    assert admit(PLANE, CHAT, principal(id_), None, TODAY) == Deny(Reason.CLIENT_UNKNOWN, record="fits no client")


def test_an_id_of_another_caller_is_another_id() -> None:
    stranger = Principal("other", CredentialKind.ACCESS_TOKEN, "acme")
    assert admit(PLANE, CHAT, stranger, None, TODAY) == Deny(Reason.CLIENT_UNKNOWN, record="fits no client")


PEOPLE = plane(
    clients=[
        client("staff", id=None, group="ml", each_subject=True),
        client("guests", id=None, group="guests"),
        client("robot"),
        client("elsewhere", caller="tunnel", id=None, group="sales"),
    ]
)


@pytest.mark.parametrize(
    "id_, groups, expected",
    [
        ("p1", ["ml"], "staff"),
        ("p1", ["ml", "other"], "staff"),
        ("robot", [], "robot"),
        ("p1", [], "fits no client"),
        ("p1", ["sales"], "fits no client"),
        ("p1", ["ml", "guests"], "fits guests and staff"),
        ("robot", ["ml"], "fits robot and staff"),
    ],
)
def test_a_group_makes_its_members_one_client_and_two_fits_are_none(id_: str, groups: list[str], expected: str) -> None:
    found = admit(PEOPLE, CHAT, principal(id_, groups=groups), None, TODAY)
    if isinstance(found, Deny):
        assert found == Deny(Reason.CLIENT_UNKNOWN, record=expected)
    else:
        assert found.client.name == expected


def key(sha256: str, caller: str = "keys") -> Principal:
    return Principal(caller, CredentialKind.API_KEY, sha256)


@pytest.mark.parametrize(
    "sha256, today, good",
    [
        (OLD_KEY, "2027-01-31", True),
        (OLD_KEY, "2027-02-01", False),
        (NEW_KEY, "2999-01-01", True),
        ("ff" * 32, "2026-01-01", False),
        (OLD_KEY.upper(), "2026-01-01", False),
        ("", "2026-01-01", False),
    ],
)
def test_a_key_is_good_to_the_end_of_its_last_day(sha256: str, today: str, *, good: bool) -> None:
    found = admit(PLANE, CHAT, key(sha256), None, today)
    if isinstance(found, Deny):
        assert not good
        assert found.reason is Reason.CREDENTIAL_INVALID
    else:
        assert good
        assert found.client.name == "batch"


def test_a_key_of_another_caller_is_unknown() -> None:
    found = admit(PLANE, CHAT, key(OLD_KEY, "corp"), None, TODAY)
    assert found == Deny(Reason.CREDENTIAL_INVALID, record="no client has this key")


def test_the_record_alone_says_when_a_key_ran_out() -> None:
    found = admit(PLANE, CHAT, key(OLD_KEY), None, "2028-01-01")
    assert found == Deny(Reason.CREDENTIAL_INVALID, record="the key's last day was 2027-01-31")


def test_a_key_that_two_clients_hold_is_nobodys() -> None:
    shared = plane(clients=[client(name, id=None, keys=(Key(NEW_KEY),)) for name in ("one", "two")])
    found = admit(shared, CHAT, key(NEW_KEY, "corp"), None, TODAY)
    assert found == Deny(Reason.CLIENT_UNKNOWN, record="fits one and two")


def test_a_key_is_never_taken_for_an_id() -> None:
    found = admit(PLANE, CHAT, key("acme", "corp"), None, TODAY)
    assert isinstance(found, Deny)
    assert found.reason is Reason.CREDENTIAL_INVALID


NETWORKS = (ip_network("10.20.0.0/16"), ip_network("fd12:3456:789a::/48"))
INSIDE = plane(clients=[client("agents", networks=NETWORKS)])


@pytest.mark.parametrize(
    "address, accepted",
    [
        ("10.20.7.9", True),
        ("fd12:3456:789a::9", True),
        ("::ffff:10.20.7.9", True),
        ("10.21.0.1", False),
        ("::ffff:10.21.0.1", False),
        ("fd13::1", False),
        ("::10.20.7.9", False),
        ("10.20.7.9, 1.2.3.4", False),
        ("10.20.007.9", False),
        ("unix", False),
        ("", False),
        (None, False),
    ],
)
def test_a_client_with_networks_comes_from_them(address: str | None, *, accepted: bool) -> None:
    found = admit(INSIDE, CHAT, principal("agents"), address, TODAY)
    assert isinstance(found, Grant) is accepted
    assert accepted or found == Deny(Reason.ADDRESS_NOT_ACCEPTED, record="client agents")


def test_the_first_failure_in_the_order_of_the_reference_is_the_reason() -> None:
    needy = Endpoint("chat", "POST", b"/x", "openai-models", needs=frozenset({"llm.chat", "llm.more"}))
    ways: list[tuple[dict[str, Any], Reason]] = [
        ({"suspended": True, "networks": NETWORKS, "may": frozenset()}, Reason.CLIENT_SUSPENDED),
        ({"networks": NETWORKS, "may": frozenset()}, Reason.ADDRESS_NOT_ACCEPTED),
        ({"may": frozenset()}, Reason.ENDPOINT_NOT_GRANTED),
        ({}, Reason.SCOPE_MISSING),
    ]
    for changes, expected in ways:
        found = admit(plane(clients=[client("acme", **changes)]), needy, principal("acme"), "192.0.2.1", TODAY)
        assert isinstance(found, Deny)
        assert found.reason is expected
        assert found.record == "client acme"


def test_every_needed_scope_must_be_there_and_the_answer_names_them() -> None:
    needy = Endpoint("chat", "POST", b"/x", "openai-models", needs=frozenset({"llm.chat", "llm.all"}))
    found = admit(PLANE, needy, principal("acme", scopes=["llm.chat"]), None, TODAY)
    assert isinstance(found, Deny)
    assert found.detail == "llm.all llm.chat"
    let_in = admit(PLANE, needy, principal("acme", scopes=["llm.chat", "llm.all", "more"]), None, TODAY)
    assert isinstance(let_in, Grant)
