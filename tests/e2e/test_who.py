"""Who is calling: the cases and reports of that stage, against the real command and issuers that fail in every way."""

from __future__ import annotations

import time
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson
import pytest

from tests.e2e.attempts import Attempt
from tests.e2e.callers import (
    ASKED,
    EDGE,
    EDGE_TAG,
    KEY,
    NEAR_KEY,
    PERSON,
    RESOURCE,
    SCOPED,
    SERVICE,
    SHARED_SECRET,
    TAG,
    TEAM,
    WEAK,
    Callers,
    calling,
)
from tests.e2e.raw_http import ask, request
from tests.e2e.site import HI, MODELS, wait
from tests.e2e.tally import TALLY
from tests.e2e.verdicts import MUST, carry_out, faults
from tests.simulators.hostile_tokens import Stage, credentials
from tests.simulators.prover import Prover
from tests.simulators.signing import compact, hmac_sha256, signing_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.e2e.attempts import Case
    from tests.e2e.raw_http import Answer
    from tests.e2e.site import Site

CORPUS = Path(__file__).parents[1] / "corpus"
CASES: dict[str, Case] = {
    case["id"]: case for case in orjson.loads((CORPUS / "attacks.json").read_bytes()) if case["stage"] == "who"
}
ASSERTION = "Cf-Access-Jwt-Assertion"


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    """Run the gateway among its issuers."""
    with calling(tmp_path_factory.mktemp("callers")) as running:
        yield running
        assert not running.canary.fetches, "a proxy, a netrc or a redirect was followed"


@pytest.fixture(autouse=True)
def nothing_of_a_failed_token_is_written(callers: Callers) -> Iterator[None]:
    """Look after each test that no token, secret or claim of one got into log or record."""
    yield
    written = callers.public.audit() + callers.public.log().encode()
    for secret in (b"eyJ", b"secret-of-the-gateway", b"ceo@corp.example", b"opaque-", KEY.encode(), b"Set-Cookie"):
        assert secret not in written, secret


def get(site: Site, target: str = MODELS, **fields: str) -> Answer:
    """Ask with some header fields, their names with _ for -."""
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return site.ask(request(target, site.host, headers=headers))


def refused(site: Site, answer: Answer, code: str, detail: str | None = None) -> None:
    """Find a refusal for one reason, in the answer and in the record."""
    record = site.record(answer)
    assert (answer.code, record["reason"]) == (code, code)
    if detail is not None:
        assert detail in record["detail"]
        assert detail not in answer.body.decode()


# Cases that are one request each: what is sent, and to which plane.


def stage_of(callers: Callers) -> Stage:
    issuer = callers.issuers["corp"]
    return Stage(issuer.url, issuer.audience, issuer.keys, int(time.time()), other_issuer=callers.other.url)


def tokens(case: Case, callers: Callers, **claims: object) -> list[str]:
    """Give the tokens of a case, some claims changed."""
    given = {**case["input"], "claims": {**case["input"]["claims"], **claims}}
    return credentials({**case, "input": given}, stage_of(callers))


def assertions(case: Case, callers: Callers) -> list[str]:
    """Give the assertions of a case, signed with the team's key."""
    claims = orjson.loads(
        orjson.dumps(case["input"]["claims"]).replace(b"{{TEAM}}", TEAM.encode()).replace(b"{{AUDTAG}}", TAG.encode())
    )
    given = {**case["input"], "claims": claims, "header": {**case["input"]["header"], "kid": "k1"}, "sign": "K1"}
    return credentials({**case, "input": given}, stage_of(callers))


def bearer(site: Site, token: str, **fields: str) -> Attempt:
    return Attempt(request(MODELS, site.host, headers={"Authorization": f"Bearer {token}", **fields}))


def single(case: Case, callers: Callers) -> tuple[Site, list[Attempt]]:
    """Give what to send for a case, and where."""
    public, scoped = callers.public, callers.scoped
    match case["id"]:
        case "jwt-075":
            return scoped, [bearer(scoped, one) for one in tokens(case, callers, aud=SCOPED)]
        case "jwt-076":
            shapes: list[object] = [["chat"], ["chat-readonly"], None, 5, {"chat": True}, [5], "chat"]
            return scoped, [bearer(scoped, one) for s in shapes for one in tokens(case, callers, aud=SCOPED, scope=s)]
        case "jwt-094":
            (token,) = tokens(case, callers)
            proof = Prover().proof(token, "GET", f"http://{public.host}{MODELS}")
            return public, [
                Attempt(request(MODELS, public.host, headers={"Authorization": f"DPoP {token}", "DPoP": proof}))
            ]
        case "header-011":
            token, other = callers.token("corp"), callers.issuers["corp"].assertion(TEAM, TAG, sub="another")
            return public, [bearer(public, token, **{ASSERTION: other})]
        case "jwt-098" | "jwt-099" | "jwt-101":
            return public, [
                Attempt(request(MODELS, public.host, headers={ASSERTION: one})) for one in assertions(case, callers)
            ]
        case "jwt-105" | "jwt-106" | "jwt-107":
            (one,) = assertions(case, callers)
            fields = {
                "jwt-105": {"Cookie": f"CF_Authorization={one}"},
                "jwt-106": {"Cf-Access-Authenticated-User-Email": "ceo@corp.example"},
                "jwt-107": {"CF-Access-Client-Id": SERVICE, "CF-Access-Client-Secret": "secret-of-the-edge"},
            }[case["id"]]
            return public, [Attempt(request(MODELS, public.host, headers=fields))]
        case _:
            return public, [bearer(public, one) for one in tokens(case, callers)]


SINGLE = [case for case in CASES.values() if case["group"] in {"jwt", "header"} and case["id"] != "jwt-091"]


@pytest.mark.parametrize("case", SINGLE, ids=lambda case: f"{case['id']} {case['title']}")
def test_a_case_is_answered_as_it_must_be(case: Case, callers: Callers) -> None:
    count = TALLY.of(case["group"])
    count.cases += 1
    site, attempts = single(case, callers)
    demands = [*case["expected"].get("must", ()), *case["expected"].get("must_not", ())]
    known = {key: [one for one in case["expected"].get(key, ()) if one in MUST] for key in ("must", "must_not")}
    for attempt in attempts:
        seen = carry_out(attempt, {**case, "expected": {**case["expected"], **known}}, site)
        assert not [*faults(seen)]
        for demand in demands:
            assert demand in MUST or OWN[demand](site, seen.answer), demand
    count.right += 1


OWN: Mapping[str, Callable[[Site, Answer], bool]] = {
    "principal = common_name, allowed only if listed": lambda site, answer: site.record(answer)["client"] == "service",
    "email is never identity": lambda site, answer: site.record(answer)["client"] == "corp",
    "secret in logs or at upstream": lambda site, _: b"secret-of-the-edge" not in site.audit() + site.log().encode(),
}


# Cases about opaque tokens.


def said(callers: Callers, case: Case, token: str, **changes: object) -> None:
    """Let the issuer say of a token what the case has it say."""
    given = case["input"]["response"]
    if "body" in given:
        callers.issuers["corp"].opaque[token] = given["body"].encode()
    elif "http" in given:
        callers.issuers["corp"].opaque[token] = given["http"]
    else:
        callers.issuers["corp"].opaque[token] = {**stage_of(callers).fill(given), "aud": ASKED, **changes}


OPAQUE = [case for case in CASES.values() if case["group"] == "introspection"]


@pytest.mark.parametrize("case", OPAQUE, ids=lambda case: f"{case['id']} {case['title']}")
def test_a_case_about_an_opaque_token_ends_as_it_must(case: Case, callers: Callers) -> None:
    count = TALLY.of(case["group"])
    count.cases += 1
    token = case["input"].get("token_override", f"opaque-{case['id']}")
    said(callers, case, token)
    issuer = callers.issuers["corp"]
    before = len(issuer.asked)
    match case["id"]:
        case "introspection-013":
            assert callers.status(token) == 200
            issuer.opaque[token] = {"active": False}
            wait(lambda: callers.status(token) == 401, "the end of the cached answer", 10)
        case "introspection-015":
            answer = callers.public.ask(callers.public.request(MODELS, token=token))
            assert answer.status in case["expected"]["status"]
            for form, _ in issuer.asked[before:]:
                assert parse_qs(form, strict_parsing=True) == {"token": [token], "token_type_hint": ["access_token"]}
        case "introspection-016":
            good = callers.token("corp")
            refused(
                callers.public, get(callers.public, Authorization=f"Bearer {good[:-8]}AAAAAAAA"), "credential-invalid"
            )
            assert len(issuer.asked) == before
        case "introspection-012":
            for fault in (None, "huge", "endless", "silent", "drip"):
                issuer.fault = fault
                try:
                    assert callers.status(f"{token}-{fault}" if fault else token) in case["expected"]["status"]
                finally:
                    issuer.fault = None
        case _:
            answer = callers.public.ask(callers.public.request(MODELS, token=token))
            assert answer.status in case["expected"]["status"]
            if "reason" in case["expected"]:
                refused(callers.public, answer, case["expected"]["reason"])
            if answer.status >= 500:
                refused(callers.public, answer, "keys-unavailable")
    assert not any(one.target == MODELS and not one.own_traffic for one in callers.public.engine.requests)
    count.right += 1


def test_who_asks_the_issuer_says_who_it_is(callers: Callers) -> None:
    callers.issuers["corp"].opaque["opaque-plain"] = {"active": True, "aud": ASKED, "client_id": "cli-1"}
    answer = callers.public.ask(callers.public.request(body=HI, token="opaque-plain"))
    assert answer.status == 200
    record = callers.public.record(answer)
    assert (record["client"], record["credential"]) == ("opaque", "introspection")
    assert callers.issuers["corp"].asked[-1][1] == "Basic Z2F0ZXdheTpzZWNyZXQtb2YtdGhlLWdhdGV3YXk="


# Cases about keys: each issuer of ``callers.ISSUERS`` has its own fault.


def unavailable(callers: Callers, name: str) -> None:
    answer = callers.public.ask(callers.public.request(MODELS, token=callers.token(name)))
    assert answer.status == 503
    refused(callers.public, answer, "keys-unavailable")
    assert int(answer.value("retry-after") or "0") >= 1


def jwks_002(callers: Callers) -> None:
    """Flood with unknown kids: one fetch in a cool-down, and who is known waits for nobody."""
    issuer, good = callers.issuers["flooded"], callers.token("flooded")
    assert callers.status(good) == 200
    before, slowest = issuer.fetches["/keys"], 0.0
    for number in range(300):
        assert callers.status(callers.token("flooded", "ATT", header={"kid": f"random {number}"})) == 401
        if number % 30 == 0:
            begun = time.monotonic()
            assert callers.status(good) == 200
            slowest = max(slowest, time.monotonic() - begun)
    assert issuer.fetches["/keys"] - before <= 1
    assert slowest < 1.0
    assert callers.status(callers.token("flooded")) == 200


def jwks_005(callers: Callers) -> None:
    """Start without an issuer: it starts, says that it is not ready, and lets others in meanwhile."""
    unavailable(callers, "down")
    ops = callers.public.ops
    ready = ask(ops, request("/readyz", f"{ops[0]}:{ops[1]}"))
    assert ready.status == 503
    assert ready.json["planes"]["public"]["callers"]["down"]["ready"] is False
    assert callers.status(callers.token("corp")) == 200


def jwks_006(callers: Callers) -> None:
    """Outlive an issuer for a bounded time only."""
    token = callers.token("stale")
    assert callers.status(token) == 200
    callers.issuers["stale"].fault = "down"
    time.sleep(2.5)
    assert callers.status(token) == 200, "the last good keys serve for a while"
    wait(lambda: callers.status(token) == 503, "the end of the last good keys", 10)


def jwks_007(callers: Callers) -> None:
    """Withdraw a key: also for a token that was seen before."""
    token = callers.token("removed")
    assert callers.status(token) == 200
    callers.issuers["removed"].published = ["E1"]
    wait(lambda: callers.status(token) == 401, "the end of the key", 10)
    assert callers.status(callers.token("removed", "E1")) == 200


def jwks_008(callers: Callers) -> None:
    """Follow no redirect."""
    unavailable(callers, "redirect")


def jwks_011(callers: Callers) -> None:
    """Read no more than fits, and unpack nothing."""
    for name in ("huge", "endless", "bomb"):
        grown = []
        for _ in range(3):  # the process fetches for others meanwhile: the least growth is this one's
            before = callers.public.memory()
            unavailable(callers, name)
            grown.append(callers.public.memory() - before)
        assert min(grown) < 40 * 1024 * 1024


def jwks_012(callers: Callers) -> None:
    """Wait for no key set that drips, and let nobody else wait."""
    waits = []
    for _ in range(3):  # the machine may stall once; waiting for the key set would show each time
        begun = time.monotonic()
        assert callers.status(callers.token("corp")) == 200
        waits.append(time.monotonic() - begun)
    assert min(waits) < 1.0
    unavailable(callers, "drip")


def jwks_013(callers: Callers) -> None:
    """Leave out a broken key, not the set."""
    assert callers.status(callers.token("mixed")) == 200


def jwks_014(callers: Callers) -> None:
    """Take no shared secret and no key for encryption out of a key set."""
    issuer = callers.issuers["unfit"]
    message = signing_input({"alg": "HS256", "kid": "oct1", "typ": "at+jwt"}, issuer.claims())
    assert callers.status(compact(message, hmac_sha256(SHARED_SECRET, message))) == 401
    assert callers.status(callers.token("unfit", header={"kid": "enc1"})) == 401
    assert callers.status(callers.token("unfit")) == 200


def jwks_015(callers: Callers) -> None:
    """Tell two keys of one kid apart by their kind."""
    assert callers.status(callers.token("twins")) == 200
    assert callers.status(callers.token("twins", "E1", header={"kid": "k1"})) == 200


def jwks_016(callers: Callers) -> None:
    """Believe no weak key."""
    issuer = callers.issuers["weak"]
    message = signing_input({"alg": "RS256", "kid": "weak", "typ": "at+jwt"}, issuer.claims())
    assert callers.status(compact(message, WEAK.sign(message))) == 401
    assert callers.status(callers.token("weak", header={"kid": "one"})) == 401
    assert callers.status(callers.token("weak")) == 200


def jwks_017(callers: Callers) -> None:
    """Warn of a private key that the issuer has published, without a word of it, and do not use it."""
    assert callers.status(callers.token("private", "E1")) == 200
    assert callers.status(callers.token("private")) == 401
    assert "is a private key that the issuer has published" in callers.public.log()
    assert "cHJpdmF0ZQ" not in callers.public.log()


def jwks_019(callers: Callers) -> None:
    """Look again after the cool-down: a key that was not there may come."""
    issuer = callers.issuers["late"]
    issuer.published = ["K1"]
    wait(lambda: callers.status(callers.token("late")) == 200, "the keys")
    callers.status(callers.token("late", "E1"))
    issuer.published = ["K1", "E1"]
    wait(lambda: callers.status(callers.token("late", "E1")) == 200, "the end of the cool-down", 10)


def jwks_021(callers: Callers) -> None:
    """Ask no proxy: they are set for this process, and lead to the canary, which the fixture looks at."""
    assert callers.status(callers.token("corp")) == 200
    assert callers.public.ask(callers.public.request(body=HI, token=callers.token("corp"))).status == 200
    assert not callers.canary.fetches
    assert "authorization" not in callers.issuers["corp"].last_fields


KEYS = {
    name.replace("_", "-"): run
    for name, run in list(globals().items())
    if name.startswith("jwks_")
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(KEYS), ids=lambda name: f"{name} {CASES[name]['title']}")
def test_a_scenario_about_keys_ends_as_it_must(name: str, callers: Callers) -> None:
    count = TALLY.of("jwks")
    count.cases += 1
    KEYS[name](callers)
    count.right += 1


def test_an_issuer_that_comes_back_is_believed_again(callers: Callers) -> None:
    """Down at the start, then slow, garbage and empty; then good."""
    issuer = callers.issuers["recovering"]
    for fault in ("silent", "garbage", "empty", "error", "other-issuer"):
        issuer.fault = fault
        unavailable(callers, "recovering")
    issuer.fault = None
    wait(lambda: callers.status(callers.token("recovering")) == 200, "the keys", 40)


# Shutting somebody out.


@pytest.fixture
def revoke(callers: Callers) -> Iterator[Callable[..., None]]:
    """Give the way to change the list of revoked tokens; it is empty again in the end."""

    def change(*entries: str) -> None:
        before = callers.public.log().count("revoked tokens read again")
        callers.revoked.write_text("".join(f"{entry}  # in a test\n" for entry in entries), "utf-8")
        wait(lambda: callers.public.log().count("revoked tokens read again") > before, "the new list", 10)

    yield change
    if callers.revoked.read_text("utf-8"):
        change()


def test_jwt_091_a_revoked_token_is_shut_out_by_its_id_or_its_hash(
    callers: Callers, revoke: Callable[..., None]
) -> None:
    site = callers.public
    by_id, by_hash, kept = callers.token("corp", jti="stolen"), callers.token("corp"), callers.token("corp")
    callers.issuers["corp"].opaque["opaque-revoked"] = {"active": True, "aud": ASKED, "client_id": "cli-1"}
    known = [by_id, by_hash, "opaque-revoked", KEY]
    for token in (*known, kept):
        assert callers.status(token) == 200
    revoke("stolen", *[sha256(token.encode()).hexdigest() for token in known[1:]])
    for token in known:
        answer = site.ask(site.request(MODELS, token=token))
        assert answer.status == 401
        refused(site, answer, "credential-invalid", "revoked")
    assert callers.status(kept) == 200
    assert get(site, x_api_key=KEY).status == 401
    revoke()
    for token in known:
        assert callers.status(token) == 200


def test_a_list_that_cannot_be_read_leaves_the_old_one_in_force(callers: Callers, revoke: Callable[..., None]) -> None:
    token = callers.token("corp", jti="stolen-too")
    revoke("stolen-too")
    assert callers.status(token) == 401
    callers.revoked.write_text("not one entry a line\n", "utf-8")
    wait(lambda: "the old list stays in force" in callers.public.log(), "the complaint", 10)
    assert callers.status(token) == 401


# Cloudflare Access.


def test_a_person_and_a_service_are_clients_by_their_immutable_ids(callers: Callers) -> None:
    site, issuer = callers.public, callers.issuers["corp"]
    person = get(site, **{ASSERTION: issuer.assertion(TEAM, TAG)})
    service = issuer.assertion(TEAM, TAG, sub="", common_name=SERVICE, email=None, nbf=None)
    records = [site.record(one) for one in (person, get(site, **{ASSERTION: service}))]
    assert [(one["client"], one["subject"], one["credential"]) for one in records] == [
        ("person", PERSON, "cloudflare_access"),
        ("service", SERVICE, "cloudflare_access"),
    ]
    stranger = get(site, **{ASSERTION: issuer.assertion(TEAM, TAG, sub="another", email="person@corp.example")})
    assert stranger.status == 403
    refused(site, stranger, "client-unknown")


def test_two_clients_that_fit_one_caller_are_a_refusal_that_names_both(callers: Callers) -> None:
    site, issuer = callers.public, callers.issuers["corp"]
    member = {"custom": {"groups": ["research", "other"]}}
    alone = get(site, **{ASSERTION: issuer.assertion(TEAM, TAG, sub="someone", **member)})
    assert site.record(alone)["client"] == "team"
    both = get(site, **{ASSERTION: issuer.assertion(TEAM, TAG, **member)})
    refused(site, both, "client-unknown", "person and team")


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "org"},
        {"aud": [EDGE_TAG]},
        {"aud": [TAG.upper()]},
        {"iss": "https://evil.cloudflareaccess.com"},
        {"sub": ""},
        {"sub": "", "common_name": ""},
        {"exp": 1},
        {"exp": None},
        {"iat": 4_000_000_000},
        {"nbf": 4_000_000_000},
        {"header": {"typ": "at+jwt"}},
        {"header": {"kid": "unknown"}},
        {"header": {"alg": "none"}},
    ],
)
def test_an_assertion_that_is_not_quite_right_is_nobody(callers: Callers, changes: dict[str, Any]) -> None:
    assertion = callers.issuers["corp"].assertion(TEAM, changes.pop("aud", TAG), **changes)
    if "aud" in changes:
        assertion = callers.issuers["corp"].assertion(TEAM, TAG, **changes)
    answer = get(callers.public, **{ASSERTION: assertion})
    assert answer.status == 401
    refused(callers.public, answer, "credential-invalid")


def test_behind_access_another_caller_comes_alone_or_not_at_all(callers: Callers) -> None:
    """The precedence rule: no two identities, and no fall-back from one to the other."""
    site, assertion = callers.public, callers.issuers["corp"].assertion(TEAM, TAG)
    assert get(site, Authorization=f"Bearer {callers.token('corp')}").status == 200
    for other in ({"Authorization": f"Bearer {callers.token('corp')}"}, {"x-api-key": KEY}):
        refused(site, get(site, **{ASSERTION: assertion, **other}), "credential-ambiguous")
        refused(site, get(site, **{ASSERTION: "", **other}), "credential-ambiguous")
    both = get(site, Authorization=f"Bearer {KEY}", x_api_key=KEY)
    refused(site, both, "credential-ambiguous")
    refused(site, get(site, Authorization=f"Bearer {assertion}"), "credential-invalid")


def test_a_plane_that_does_not_know_of_access_says_what_to_do(callers: Callers) -> None:
    """Corpus header-011: the operator reads it in the record."""
    site, issuer = callers.scoped, callers.issuers["corp"]
    answer = get(
        site, Authorization=f"Bearer {callers.token('corp', aud=SCOPED)}", **{ASSERTION: issuer.assertion(TEAM, TAG)}
    )
    assert answer.status == 400
    assert "add trust.edge" in site.record(answer)["detail"]


# The edge lock.


def through_the_edge(callers: Callers, token: str, address: str = "198.51.100.9", **claims: Any) -> Answer:  # noqa: ANN401
    lock = callers.issuers["corp"].assertion(TEAM, EDGE_TAG, **claims)
    fields = {"Authorization": f"Bearer {token}", ASSERTION: lock}
    return get(callers.edge, **fields, **({"CF-Connecting-IP": address} if address else {}))


def test_the_edge_is_a_second_lock_beside_the_callers_own_credential(callers: Callers) -> None:
    site, token = callers.edge, callers.token("corp", aud=EDGE)
    lock = callers.issuers["corp"].assertion(TEAM, EDGE_TAG)
    for _ in range(2):
        answer = through_the_edge(callers, token)
        assert answer.status == 200
        assert site.record(answer)["client"] == "corp"
    bare = get(site, Authorization=f"Bearer {token}")
    assert bare.status == 401
    refused(site, bare, "credential-missing", "did not come through Access")
    alone = get(site, **{ASSERTION: lock})
    assert alone.status == 401
    refused(site, alone, "credential-missing")
    for claims in ({"type": "org"}, {"exp": 1}, {"iss": "https://evil.cloudflareaccess.com"}, {"aud": [TAG]}):
        refused(site, through_the_edge(callers, token, **claims), "credential-invalid")
    refused(site, through_the_edge(callers, callers.token("corp")), "credential-invalid", "aud")
    refused(site, through_the_edge(callers, lock), "credential-invalid")


def test_where_a_client_may_come_from_is_what_the_edge_reports(callers: Callers) -> None:
    site = callers.edge
    assert through_the_edge(callers, NEAR_KEY).status == 200
    for address in ("203.0.113.1", "2001:db8::1", "", "127.0.0.1", "not an address"):
        answer = through_the_edge(callers, NEAR_KEY, address)
        assert answer.status == 403
        refused(site, answer, "address-not-accepted")


def test_limits_15_one_address_that_fails_does_not_slow_another_down(callers: Callers) -> None:
    site, token = callers.edge, callers.token("corp", aud=EDGE)
    assert through_the_edge(callers, token, "203.0.113.7").status == 200
    codes = Counter(through_the_edge(callers, f"bad{number}", "203.0.113.7").code for number in range(45))
    assert codes.keys() == {"credential-invalid", "failures-throttled"}
    assert 25 <= codes["credential-invalid"] <= 40
    last = through_the_edge(callers, "bad", "203.0.113.7")
    assert (last.status, last.code) == (429, "failures-throttled")
    refused(site, last, "failures-throttled", "neither a token")
    assert "error=http_request_denied" in (last.value("proxy-status") or "")
    assert through_the_edge(callers, token, "203.0.113.7").status == 200, "one that was seen before waits for nobody"
    refused(site, through_the_edge(callers, "bad", "203.0.113.8"), "credential-invalid")
    time.sleep(int(last.value("retry-after") or "0"))
    assert through_the_edge(callers, "bad", "203.0.113.7").code == "credential-invalid", "Retry-After was not true"


def test_limits_15_on_loopback_nobody_waits_for_those_who_fail(callers: Callers) -> None:
    """A thousand bad tokens delay and refuse no caller whose token holds."""
    seen, key_holder = callers.token("corp"), KEY
    assert callers.status(seen) == 200
    slowest = 0.0
    with callers.public.connect() as connection:
        for number in range(1000):
            headers = {"Authorization": f"Bearer bad-{number}", "CF-Connecting-IP": "203.0.113.7"}
            connection.send(request(MODELS, callers.public.host, headers=headers))
            assert connection.answer().status in {401, 429}
            if number % 100 == 0:
                begun = time.monotonic()
                assert (
                    callers.status(seen) == callers.status(key_holder) == callers.status(callers.token("corp")) == 200
                )
                slowest = max(slowest, time.monotonic() - begun)
    assert slowest < 2.0


# Reports about keys.


def test_auth_11_a_rotated_key_is_accepted_at_once(callers: Callers) -> None:
    issuer = callers.issuers["rotated"]
    issuer.published = ["K1"]
    old = callers.token("rotated")
    wait(lambda: callers.status(callers.token("rotated", "E1")) == 401, "the end of the other key", 10)
    assert callers.status(old) == 200
    time.sleep(1.1)
    issuer.published = ["K1", "E1"]
    assert callers.status(callers.token("rotated", "E1")) == 200
    assert callers.status(old) == 200
    issuer.published = ["E1"]
    wait(lambda: callers.status(old) == 401, "the end of the old key", 10)


def test_auth_13_no_fault_of_a_fetch_costs_a_valid_caller_anything(callers: Callers) -> None:
    issuer = callers.issuers["wiped"]
    assert callers.status(callers.token("wiped")) == 200
    for fault in ("error", "empty", "garbage", "silent", "huge"):
        issuer.fault = fault
        time.sleep(1.1)
        assert callers.status(callers.token("wiped", "ATT", header={"kid": f"unknown to {fault}"})) in {401, 503}
        assert callers.status(callers.token("wiped")) == 200
    issuer.fault = None


# What a plane says about itself.


def test_the_metadata_of_a_plane_are_for_everybody_and_the_challenge_leads_there(callers: Callers) -> None:
    site, place = callers.public, "/.well-known/oauth-protected-resource/v1"
    answer = get(site, place)
    assert answer.status == 200
    assert answer.value("content-type") == "application/json"
    assert answer.value("cache-control") == "no-store"
    told = answer.json
    assert told["resource"] == RESOURCE
    assert callers.issuers["corp"].url in told["authorization_servers"]
    assert told["bearer_methods_supported"] == ["header"]
    assert site.record(answer)["verdict"] == "permit"
    challenge = get(site).value("www-authenticate") or ""
    assert f'resource_metadata="https://llm.example.com{place}"' in challenge
    posted = site.ask(site.request(place, token=None, body={}))
    assert (posted.status, posted.value("allow")) == (405, "GET")
    assert get(site, f"{place}?a=b").status == 400
    for other in ("/.well-known/oauth-protected-resource", f"{place}/"):
        assert get(site, other).status == 404
    assert get(callers.edge, place).status == get(callers.scoped, place).status == 404


# Sender-constrained tokens.


def prove(callers: Callers, token: str, prover: Prover, target: str = MODELS, **changes: Any) -> Answer:  # noqa: ANN401
    """Ask with a proof: with the nonce that the gateway gives, unless another is named."""
    site = callers.proofs
    given = {"nonce": get(site).value("dpop-nonce"), **changes}
    proof = prover.proof(token, "GET", f"http://{site.host}{target}", **given)
    return get(site, Authorization=f"DPoP {token}", DPoP=proof)


def test_a_bound_token_is_good_with_a_proof_of_its_key_once(callers: Callers) -> None:
    site, prover = callers.proofs, Prover()
    token = callers.token("bound", cnf={"jkt": prover.thumbprint})
    assert prove(callers, token, prover).status == 200
    assert prove(callers, token, prover, jti="once").status == 200
    again = prove(callers, token, prover, jti="once")
    assert again.status == 401
    refused(site, again, "credential-invalid", "used before")
    refused(site, prove(callers, token, Prover("thief")), "credential-invalid", "not bound to the key")
    refused(site, prove(callers, token, prover, target="/v1/other"), "credential-invalid", "another request")
    refused(site, prove(callers, token, prover, ath="x"), "credential-invalid", "another token")
    refused(site, get(site, Authorization=f"Bearer {token}"), "credential-invalid", "without proof")
    free = callers.token("bound")
    refused(site, prove(callers, free, prover), "credential-invalid", "cnf.jkt")
    refused(site, get(site, Authorization=f"DPoP {token}"), "credential-invalid", "without a proof")


def test_a_proof_without_a_nonce_is_told_how_to_get_one(callers: Callers) -> None:
    """RFC 9449 §9."""
    site, prover = callers.proofs, Prover()
    token = callers.token("bound", cnf={"jkt": prover.thumbprint})
    answer = prove(callers, token, prover, nonce=None)
    assert answer.status == 401
    challenge = answer.value("www-authenticate") or ""
    assert challenge.startswith("DPoP ")
    assert 'error="use_dpop_nonce"' in challenge
    assert prove(callers, token, prover, nonce=answer.value("dpop-nonce")).status == 200
    offered = get(site).value("www-authenticate") or ""
    assert offered.startswith("Bearer ")
    assert 'DPoP realm="proofs", algs="ES256 ' in offered


# Completeness.


def test_every_case_of_the_stage_is_here() -> None:
    here = {case["id"] for case in (*SINGLE, *OPAQUE)} | KEYS.keys() | {"jwt-091"}
    assert here == CASES.keys()
