"""One request is led through the rooms in order, answered once and recorded once, whatever happens on the way."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass, field, replace
from hashlib import sha256
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.adapters.ledger_memory import MemoryLedger
from gateway.audit import Outcome, Verdict
from gateway.dialects.call import Usage
from gateway.dialects.openai_models import ServedModel
from gateway.enforcement import Enforcement
from gateway.gatehouse import EACH_ADDRESS
from gateway.identity.dpop import Proofs
from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess
from gateway.identity.principal import Principal
from gateway.identity.refusal import invalid
from gateway.limits.ledger import Quota, Refused
from gateway.limits.limit import Limit
from gateway.policy.cache_salt import CacheSalts
from gateway.policy.model import Deadlines, Endpoint, ParameterRules
from gateway.ports import Delivery, Ending, EngineAnswer, Ports, UpstreamRequest
from gateway.reasons import ANSWERS, Malformed, Reason, Unavailable
from gateway.wire.field_lines import NO_FIELDS, FieldLines
from gateway.wire.hosts import HostRule
from tests.policy.planes import PARTNER, client, plane, principal
from tests.simulators.prover import Prover
from tests.simulators.signing import compact, signing_input

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from gateway.audit import AuditRecord
    from gateway.identity.credential import Credential
    from gateway.limits.ledger import Holder, Lease, Share
    from gateway.policy.model import Plane

ID = "0123456789abcdef" * 2
HI = {"model": "local", "messages": [{"role": "user", "content": "hi"}]}
SETTINGS = Deadlines(100, 60, 600)
ALWAYS = {"x-request-id": ID, "cache-control": "no-store", "x-content-type-options": "nosniff"}


# Doubles


@dataclass
class Door:
    """One request, and what is answered to it."""

    method: str = "POST"
    target: bytes = b"/v1/chat/completions"
    http_version: str = "1.1"
    headers: FieldLines = NO_FIELDS
    peer: str | None = "192.0.2.1"
    certificate: str | None = None
    refusal: Malformed | None = None
    keep_alive: bool = True
    lines: tuple[bytes, ...] = ()
    bytes_in: int = 0
    bytes_out: int = 0
    body: bytes | BaseException = b""
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    head_out: bool = False
    left: bool = False

    @property
    def answered(self) -> bool:
        return self.head_out or bool(self.answers)

    def body_at_hand(self, at_most: int) -> bytes | None:
        if isinstance(self.body, BaseException):
            return None
        self.limits.append(at_most)
        self.bytes_in = len(self.body)
        return self.body

    async def read_body(self, at_most: int) -> bytes:
        body = self.body_at_hand(at_most)
        if body is not None:
            return body
        self.limits.append(at_most)
        raise cast("BaseException", self.body)

    async def pieces(self, at_most: int) -> AsyncGenerator[bytes, None]:
        body = await self.read_body(at_most)
        for at in range(0, len(body), 100):
            yield body[at : at + 100]

    def answer(self, status: int, lines: Iterable[bytes], body: bytes) -> None:
        if self.left:
            return
        headers: dict[str, str] = {}
        for line in (*lines, *self.lines):
            assert line.endswith(b"\r\n")
            assert not set(line[:-2]) & set(b"\r\n\0")
            name, colon, value = line[:-2].decode("ascii").partition(": ")
            assert colon
            assert name == name.lower()
            assert name not in headers
            headers[name] = value
        self.bytes_out = len(body)
        self.answers.append((status, headers, body))


class Gatehouse:
    """An authenticator: who a credential speaks for, by its text, or what is wrong with it."""

    def __init__(self, principals: Mapping[str, Principal | BaseException], *, remembers: bool = False) -> None:
        self._principals = principals
        self._remembers = remembers
        self.asked = 0
        self.known_fields: dict[bytes, Principal] = {}

    def recognize(self, field: bytes, now: float) -> Principal | None:
        return self.known_fields.get(field)

    def known(self, credential: Credential, now: float) -> Principal | None:
        found = self._principals.get(credential.text)
        return found if self._remembers and isinstance(found, Principal) else None

    async def identify(self, credential: Credential, now: float) -> Principal:
        self.asked += 1
        found = self._principals.get(credential.text, invalid("no such credential"))
        if isinstance(found, BaseException):
            raise found
        return found

    async def open_edge(self, assertion: str, now: float) -> None:
        if assertion != "lock":
            raise invalid("not our front")


class Dispatch:
    """A dispatcher that ends as it is told."""

    def __init__(self, ending: Delivery | BaseException) -> None:
        self.ending = ending
        self.usage: Usage | None = Usage(5, 7)
        self.produced = 0
        self.requests: list[UpstreamRequest] = []

    def chooses(self, engine: str) -> bool:
        """Have one replica."""
        return False

    async def forward(self, request: UpstreamRequest, inbound: Door) -> Delivery:
        self.requests.append(request)
        request.meter.usage = self.usage
        request.meter.events((ROLE + DELTA * self.produced) if self.produced else b"")
        if isinstance(self.ending, BaseException):
            raise self.ending
        if self.ending.ending is Ending.DELIVERED:
            inbound.head_out = True
        return self.ending


class Engines:
    """A catalogue of one list for all engines."""

    def __init__(self, served: Mapping[str, ServedModel] | Unavailable) -> None:
        self._served = served
        self.asked: list[str] = []
        self.down: set[str] = set()

    async def served(self, engine: str) -> Mapping[str, ServedModel]:
        self.asked.append(engine)
        if engine in self.down:
            raise Unavailable(Reason.ENGINE_UNAVAILABLE)
        if isinstance(self._served, Unavailable):
            raise self._served
        return self._served


class Full(MemoryLedger):
    """A ledger in which some limits are reached, or which cannot be asked."""

    def __init__(self, time_us: Callable[[], int], over: Reason | None = None, *, tokens: bool = False) -> None:
        super().__init__(lambda: time_us() * 1000, lambda: time_us() * 1000)
        self.over = over
        self.tokens = tokens

    def enter(self, holder: Holder, limit: Limit) -> Lease | Refused:
        if self.over is Reason.LEDGER_UNAVAILABLE:
            raise Unavailable(self.over, "no answer")
        if self.over is not None:
            return Refused(self.over, 1, Quota(60, 0, 1))
        return super().enter(holder, limit)

    def reserve(self, lease: Lease, tokens: int, model: Share | None = None) -> Refused | None:
        if self.tokens:
            return Refused(Reason.OVER_TOKENS, 1, lease.requests, Quota(1, 0, 1))
        return super().reserve(lease, tokens, model)


class Kept:
    """A spool in memory."""

    def __init__(self) -> None:
        self.size = 0
        self.content = b""
        self.closed = False

    async def write(self, data: bytes) -> None:
        self.content += data
        self.size += len(data)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        yield self.content

    def close(self) -> None:
        self.closed = True


class Records:
    """A journal in memory."""

    def __init__(self, *, ready: bool = True) -> None:
        self.ready = ready
        self.records: list[AuditRecord] = []

    def note(self, record: AuditRecord) -> None:
        record.to_json()
        self.records.append(record)


class Ticking:
    """A clock that goes on by a millisecond whenever somebody looks."""

    def __init__(self) -> None:
        self._ticks = 0

    def now(self) -> float:
        return 1_800_000_000.0

    def ticks(self) -> float:
        self._ticks += 1
        return self._ticks / 1000

    def today(self) -> str:
        return "2027-01-15"


ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
DELIVERED = Delivery(Ending.DELIVERED, engine_status=200, first_byte_s=0.25)
SERVED = {"local": ServedModel(17, 8192), "bge-m3": ServedModel(18)}


class House:
    """Everything that a request can meet, put together as a test wants it."""

    def __init__(
        self,
        rules: Plane | None = None,
        *,
        principals: Mapping[str, Principal | BaseException] | None = None,
        remembers: bool = False,
        ending: Delivery | BaseException = DELIVERED,
        served: Mapping[str, ServedModel] | Unavailable = SERVED,
        ready: bool = True,
        over: Reason | None = None,
        tokens: bool = False,
    ) -> None:
        self.gatehouse = Gatehouse(principals or {"acme": principal()}, remembers=remembers)
        self.dispatch = Dispatch(ending)
        self.engines = Engines(served)
        self.ledger = Full(lambda: self.time_us, over, tokens=tokens)
        self.time_us = 0
        self.journal = Records(ready=ready)
        self.bugs: list[tuple[str, BaseException]] = []
        self.spools: list[Kept] = []
        ports: Ports[Door] = Ports(
            self.gatehouse,
            self.dispatch,
            self.engines,
            self.ledger,
            self.journal,
            Ticking(),
            Proofs(b"secret"),
            CacheSalts(b"secret"),
            lambda: ID,
            lambda request_id, error: self.bugs.append((request_id, error)),
            self._new_spool,
        )
        self.enforcement = Enforcement(rules or plane(), HostRule(frozenset({b"gateway"})), SETTINGS, ports)

    def _new_spool(self) -> Kept:
        self.spools.append(Kept())
        return self.spools[-1]

    async def serve(self, door: Door) -> AuditRecord:
        """Serve one request; give its one record."""
        await self.enforcement.serve(door)
        return self.record

    @property
    def record(self) -> AuditRecord:
        """The one record of the one request."""
        (record,) = self.journal.records
        return record


def ask(
    body: Any = HI,  # noqa: ANN401  (any JSON, or bytes, or what reading it raises)
    *,
    method: str = "POST",
    target: bytes = b"/v1/chat/completions",
    credential: str | None = "acme",
    **headers: str | None,
) -> Door:
    """Give an ordinary request, with other or (``None``) without some of its header fields."""
    data = body if isinstance(body, bytes | BaseException) else json.dumps(body).encode()
    fields = {
        "host": "gateway",
        "authorization": None if credential is None else f"Bearer {credential}",
        "content-type": "application/json",
        "content-length": "9" if isinstance(data, BaseException) else str(len(data)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    raw = [(name.encode(), value.encode()) for name, value in fields.items() if value is not None]
    return Door(method, target, headers=FieldLines.of(raw), body=data)


def models(target: bytes = b"/v1/models", **headers: str | None) -> Door:
    return ask(b"", method="GET", target=target, content_length=None, content_type=None, **headers)


def told(door: Door) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Give the one answer."""
    ((status, headers, body),) = door.answers
    assert headers.items() >= ALWAYS.items()
    assert headers["content-type"] == "application/json"
    return status, headers, json.loads(body)


def code(door: Door) -> str:
    return str(told(door)[2]["error"]["code"])


# What is sent of the client's own

TWO = [client("acme"), client("batch-2")]


async def test_each_client_has_a_salt_of_its_own_which_no_record_and_no_answer_shows() -> None:
    house = House(principals={name: principal(name) for name in ("acme", "batch-2")}, rules=plane(clients=TWO))
    for name in ("acme", "batch-2", "acme"):
        await house.enforcement.serve(ask(credential=name))
    salts = [json.loads(request.body)["cache_salt"] for request in house.dispatch.requests]
    assert salts[0] == salts[2] == CacheSalts(b"secret").salt("partner", "acme", "2027-01-15")
    assert salts[0] != salts[1]
    for record, salt in zip(house.journal.records, salts, strict=True):
        assert record.changes[-1] == "set cache_salt"
        assert salt not in record.to_json().decode()
    assert not any(
        salt.encode() in line for request in house.dispatch.requests for line in request.lines for salt in salts
    )


@pytest.mark.parametrize("drop", [True, False])
async def test_a_salt_of_the_caller_s_is_refused_or_dropped_as_any_unlisted_field(*, drop: bool) -> None:
    house = House(plane(replace(PARTNER, drop_unlisted=drop)))
    record = await house.serve(ask({**HI, "cache_salt": "another client's"}))
    if not drop:
        assert record.reason is Reason.PARAMETER_NOT_ACCEPTED
        return
    assert [change for change in record.changes if "salt" in change] == ["drop cache_salt", "set cache_salt"]
    (request,) = house.dispatch.requests
    assert json.loads(request.body)["cache_salt"] == CacheSalts(b"secret").salt("partner", "acme", "2027-01-15")


# The order of checks: each fault is what it changes in a request or in the house; of two, the earlier is told.

LONG = b"/" + b"a" * 3000
SCOPED = Endpoint("scoped", "POST", b"/v1/scoped", "openai-chat", frozenset({"s"}), body_limit=1000, parameters=PARTNER)
UNSERVED = Endpoint("rerank", "POST", b"/v1/rerank", "engine-wake", engine="main")

FAULTS: list[tuple[Reason, dict[str, Any]]] = [
    (Reason.REQUEST_TIMEOUT, {"refusal": Malformed(Reason.REQUEST_TIMEOUT)}),
    (Reason.TARGET_TOO_LONG, {"path": LONG}),
    (Reason.TARGET_MALFORMED, {"path": b"http://gateway/v1/models"}),
    (Reason.HEADERS_TOO_LARGE, {"x-a": "a" * 20_000}),
    (Reason.HEADERS_MALFORMED, {"upgrade": "websocket"}),
    (Reason.HOST_NOT_SERVED, {"host": "evil.example"}),
    (Reason.AUDIT_UNAVAILABLE, {"ready": False}),
    (Reason.TARGET_NOT_CANONICAL, {"path": b"/v1/%63hat/completions"}),
    (Reason.NO_SUCH_ENDPOINT, {"path": b"/metrics"}),
    (Reason.METHOD_NOT_ALLOWED, {"method": "DELETE"}),
    (Reason.QUERY_NOT_ACCEPTED, {"query": b"?"}),
    (Reason.CREDENTIAL_MISSING, {"authorization": None}),
    (Reason.CREDENTIAL_INVALID, {"authorization": "Bearer a b"}),
    (Reason.CREDENTIAL_AMBIGUOUS, {"authorization": "Bearer acme", "cf-access-jwt-assertion": "x"}),
    (Reason.KEYS_UNAVAILABLE, {"who": Unavailable(Reason.KEYS_UNAVAILABLE)}),
    (Reason.CREDENTIAL_INVALID, {"who": invalid("expired")}),
    (Reason.CLIENT_UNKNOWN, {"who": principal("nobody")}),
    (Reason.CLIENT_SUSPENDED, {"suspended": True}),
    (Reason.ADDRESS_NOT_ACCEPTED, {"networks": (ip_network("10.0.0.0/8"),)}),
    (Reason.ENDPOINT_NOT_GRANTED, {"may": frozenset({"models"})}),
    (Reason.SCOPE_MISSING, {"path": b"/v1/scoped"}),
    (Reason.LEDGER_UNAVAILABLE, {"over": Reason.LEDGER_UNAVAILABLE}),
    (Reason.OVER_RATE, {"over": Reason.OVER_RATE}),
    (Reason.OVER_CONCURRENCY, {"over": Reason.OVER_CONCURRENCY}),
    (Reason.MEDIA_TYPE_NOT_ACCEPTED, {"content-type": "text/plain"}),
    (Reason.BODY_TOO_LARGE, {"content-length": "99999999"}),
    (Reason.MEDIA_TYPE_NOT_ACCEPTED, {"content-encoding": "gzip"}),
    (Reason.REQUEST_TIMEOUT, {"body": Malformed(Reason.REQUEST_TIMEOUT)}),
    (Reason.BODY_MALFORMED, {"body": b"{"}),
    (Reason.PARAMETER_NOT_ACCEPTED, {"body": {**HI, "best_of": 2}}),
    (Reason.MODEL_NOT_PERMITTED, {"body": {**HI, "model": "other"}}),
    (Reason.OVER_TOKENS, {"tokens": True}),
    (Reason.ENGINE_UNAVAILABLE, {"ending": Unavailable(Reason.ENGINE_UNAVAILABLE, "connection refused")}),
]
PAIRS = [
    (first, second)
    for first, second in itertools.combinations(range(len(FAULTS)), 2)
    if not FAULTS[first][1].keys() & FAULTS[second][1].keys()
]


async def faulty(*faults: int) -> tuple[House, Door]:
    """Serve a request that has these faults."""
    changed: dict[str, Any] = {}
    for fault in faults:
        changed |= FAULTS[fault][1]
    take = changed.pop
    acme = replace(
        client("acme"),
        suspended=take("suspended", False),
        networks=take("networks", ()),
        may=take("may", frozenset({"chat", "models", "scoped"})),
        limit=Limit("limited", 60, 8, 10_000),
    )
    house = House(
        plane(clients=[acme, client("other")], endpoints=[SCOPED]),
        principals={"acme": take("who", principal())},
        ready=take("ready", True),
        ending=take("ending", DELIVERED),
        over=take("over", None),
        tokens=take("tokens", False),
    )
    target = take("path", b"/v1/chat/completions") + take("query", b"")
    refusal = take("refusal", None)
    door = ask(take("body", HI), method=take("method", "POST"), target=target, **changed)
    door.refusal = refusal
    await house.serve(door)
    return house, door


@pytest.mark.parametrize("first, second", PAIRS, ids=[f"{FAULTS[a][0]}-before-{FAULTS[b][0]}" for a, b in PAIRS])
async def test_of_two_faults_the_one_that_is_checked_earlier_is_told(first: int, second: int) -> None:
    house, _ = await faulty(first, second)
    assert house.record.reason is FAULTS[first][0]


@pytest.mark.parametrize("fault", range(len(FAULTS)), ids=[str(reason) for reason, _ in FAULTS])
async def test_the_record_names_the_client_from_the_moment_that_it_is_known(fault: int) -> None:
    house, _ = await faulty(fault)
    known = [reason for reason, _ in FAULTS].index(Reason.CLIENT_SUSPENDED)
    assert house.record.client == ("acme" if fault >= known else None)


@pytest.mark.parametrize("fault", range(len(FAULTS)), ids=[str(reason) for reason, _ in FAULTS])
async def test_each_reason_has_its_answer(fault: int) -> None:
    house, door = await faulty(fault)
    reason = FAULTS[fault][0]
    public = Reason.NO_SUCH_ENDPOINT if reason is Reason.TARGET_NOT_CANONICAL else reason
    status, headers, body = told(door)
    assert status == ANSWERS[reason].status
    assert body["error"]["code"] == public
    assert body["error"]["message"].startswith(ANSWERS[public].sentence.removesuffix("."))
    assert headers["proxy-status"] == f'vllm-gateway; error={ANSWERS[public].proxy_error}; details="{public}"'
    assert ("www-authenticate" in headers) == (ANSWERS[reason].challenge is not None)
    assert ("allow" in headers) == (reason is Reason.METHOD_NOT_ALLOWED)
    record = house.record
    assert (record.reason, record.status, record.bytes_out) == (reason, status, door.bytes_out)
    assert record.verdict is (Verdict.FAILURE if status >= 500 else Verdict.DENY)
    assert record.total_ms


@pytest.mark.parametrize("fault", range(len(FAULTS) - 1), ids=[str(reason) for reason, _ in FAULTS[:-1]])
async def test_what_is_refused_reaches_no_engine(fault: int) -> None:
    house, _ = await faulty(fault)
    assert not house.dispatch.requests
    assert not house.engines.asked


async def test_without_records_nobody_is_even_asked_who_calls() -> None:
    house = House(ready=False)
    for door in (ask(), models()):
        await house.enforcement.serve(door)
        assert code(door) == "audit-unavailable"
        assert not door.limits
    assert not house.gatehouse.asked
    assert len(house.journal.records) == 2


async def test_the_body_is_not_read_before_everything_else_is_in_order() -> None:
    for fault, (reason, changes) in enumerate(FAULTS):
        _, door = await faulty(fault)
        read = bool(changes.keys() & {"body", "tokens", "ending"})
        assert bool(door.limits) == read, reason


# Refusals


async def test_both_kinds_of_404_are_one_answer() -> None:
    answers = []
    for target in (b"/metrics", b"/v1/../metrics", b"/v1/chat/completions;x"):
        door = ask(target=target)
        await House().serve(door)
        answers.append(door.answers)
    assert answers[0] == answers[1] == answers[2]


async def test_all_credentials_that_fail_look_alike_and_only_the_record_knows_why() -> None:
    doors = [ask(credential=credential) for credential in ("unknown", "a b", "vgw_mistyped")]
    details = {(await House().serve(door)).detail for door in doors}
    assert doors[0].answers == doors[1].answers == doors[2].answers
    assert len(details) > 1
    _, headers, _ = told(doors[0])
    assert headers["www-authenticate"].startswith('Bearer realm="partner", error="invalid_token"')


async def test_a_request_without_a_credential_is_told_what_to_send_and_no_error() -> None:
    door = ask(credential=None)
    await House().serve(door)
    assert told(door)[1]["www-authenticate"] == 'Bearer realm="partner"'


async def test_a_missing_scope_is_named() -> None:
    _, door = await faulty(next(n for n, (reason, _) in enumerate(FAULTS) if reason is Reason.SCOPE_MISSING))
    assert 'error="insufficient_scope"' in told(door)[1]["www-authenticate"]
    assert told(door)[1]["www-authenticate"].endswith('scope="s"')


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "TRACE"])
async def test_a_method_that_is_not_there_is_told_those_that_are(method: str) -> None:
    door = ask(method=method)
    await House().serve(door)
    status, headers, _ = told(door)
    assert (status, headers["allow"]) == (405, "POST")


async def test_a_dialect_that_is_not_served_is_no_endpoint() -> None:
    house, door = House(plane(endpoints=[UNSERVED])), ask(target=b"/v1/rerank")
    record = await house.serve(door)
    assert code(door) == "no-such-endpoint"
    assert record.detail == "dialect engine-wake is not served by this version"


MESSAGES = Endpoint(
    "messages",
    "POST",
    b"/v1/messages",
    "anthropic-messages",
    body_limit=99,
    parameters=ParameterRules(frozenset({"model", "messages"})),
)


@pytest.mark.parametrize(
    "door, status, kind",
    [
        (ask(target=b"/v1/messages", method="GET"), 405, "invalid_request_error"),
        (ask(target=b"/v1/messages?x=1"), 400, "invalid_request_error"),
        (ask(target=b"/v1/messages", host="elsewhere"), 421, "invalid_request_error"),
        (ask(target=b"/v1/messages", credential=None), 401, "authentication_error"),
        (ask(target=b"/v1/messages", credential="unknown"), 401, "authentication_error"),
        (ask(target=b"/v1/messages", credential="other"), 403, "permission_error"),
        (ask({"a": "x" * 99}, target=b"/v1/messages"), 413, "request_too_large"),
        (ask(target=b"/v1/messages", content_type="text/plain"), 415, "invalid_request_error"),
        (ask({**HI, "model": "gpt-4o"}, target=b"/v1/messages"), 404, "not_found_error"),
        (ask({**HI, "top_k": 1}, target=b"/v1/messages"), 400, "invalid_request_error"),
    ],
)
async def test_a_path_of_anthropics_api_has_its_errors_whatever_is_wrong(door: Door, status: int, kind: str) -> None:
    rules = plane(endpoints=[MESSAGES], clients=[client("acme", may=frozenset({"messages"}))])
    await House(rules, principals={"acme": principal(), "other": principal("other")}).serve(door)
    answered, _, body = told(door)
    assert (answered, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert body["request_id"] == ID
    assert body["error"]["code"]


async def test_a_path_of_nobody_has_openais_errors() -> None:
    door = ask(target=b"/v1/messages/batches")
    await House(plane(endpoints=[MESSAGES])).serve(door)
    assert set(told(door)[2]) == {"error"}


async def test_a_wait_that_is_known_is_told() -> None:
    house = House(principals={"acme": Unavailable(Reason.KEYS_UNAVAILABLE, "no answer", retry_after=7)})
    door = ask()
    record = await house.serve(door)
    status, headers, body = told(door)
    assert (status, headers["retry-after"]) == (503, "7")
    assert "no answer" not in body["error"]["message"]
    assert record.detail == "no answer"


# What goes through


async def test_the_engine_gets_what_was_judged_and_never_what_was_sent() -> None:
    house = House()
    record = await house.serve(ask({**HI, "max_tokens": 99_999, "user": "me"}, x_request_id="mine", cookie="a=b"))
    (request,) = house.dispatch.requests
    sent = json.loads(request.body)
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert (sent["model"], sent["max_tokens"], "user" in sent) == ("local", 4096, False)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert (request.id, request.plane, request.engine, request.stream) == (ID, "partner", "main", False)
    assert request.deadlines == SETTINGS
    assert dict(line.split(b": ") for line in b"".join(request.lines).splitlines()) == {
        **{name.encode(): value.encode() for name, value in ALWAYS.items()},
        b"x-gateway-changes": b"drop user, lower max_tokens",
        b"x-ratelimit-limit-requests": b"60",
        b"x-ratelimit-remaining-requests": b"59",
        b"x-ratelimit-reset-requests": b"1m0s",
        b"ratelimit-policy": b'"requests";q=60;w=60',
        b"ratelimit": b'"requests";r=59;t=60',
    }
    assert (record.verdict, record.reason, record.outcome, record.status) == (Verdict.PERMIT, None, Outcome.OK, 200)
    assert (record.endpoint, record.client, record.credential) == ("chat", "acme", "api_key")
    assert (record.model, record.engine, record.engine_status) == ("local", "main", 200)
    assert (record.usage, record.first_byte_ms) == (Usage(5, 7), 250)
    assert (record.client_request_id, record.peer, record.policy) == ("mine", "192.0.2.1", "")
    assert "lower max_tokens" in record.changes
    assert None not in {record.head_ms, record.judge_ms, record.total_ms}


async def test_a_caller_is_told_of_no_change_that_only_fills_in() -> None:
    house = House()
    await house.serve(ask())
    assert not [line for line in house.dispatch.requests[0].lines if line.startswith(b"x-gateway-changes")]


async def test_a_stream_is_asked_for_as_one() -> None:
    house = House()
    await house.serve(ask({**HI, "stream": True}))
    assert house.dispatch.requests[0].stream


async def test_a_credential_that_is_known_is_not_verified_again() -> None:
    house = House(remembers=True)
    await house.serve(ask())
    assert house.dispatch.requests
    assert not house.gatehouse.asked


async def test_an_endpoints_own_deadlines_stand_before_the_settings() -> None:
    slow = Endpoint("slow", "POST", b"/v1/slow", "openai-chat", body_limit=99, deadlines=Deadlines(idle=7))
    rules = replace(slow, parameters=PARTNER)
    house = House(plane(endpoints=[rules], clients=[client("acme", may=frozenset({"slow"})), client("b")]))
    door = ask(target=b"/v1/slow")
    await house.serve(door)
    assert house.dispatch.requests[0].deadlines == Deadlines(100, 7, 600)
    assert door.limits == [99]


async def test_a_caller_on_a_unix_socket_has_no_address() -> None:
    door = ask()
    door.peer = None
    assert (await House().serve(door)).peer == "unix"


@pytest.mark.parametrize(
    "name",
    ["a\r\nset-cookie: b", "a\nb", "a\rb", "a\0b", "ä\u2028", "a" * 3000, "\u0130", "drop x, set model"],
)
async def test_names_of_dropped_fields_write_no_header_line(name: str) -> None:
    rules = ParameterRules(PARTNER.accept, drop_unlisted=True)
    house = House(plane(rules))
    record = await house.serve(ask({**HI, name: 1}))
    (line,) = [line for line in house.dispatch.requests[0].lines if line.startswith(b"x-gateway-changes: ")]
    assert line.endswith(b"\r\n")
    assert set(line[:-2]) <= set(range(0x20, 0x7F))
    assert len(line) < 1100
    assert name not in json.loads(house.dispatch.requests[0].body)
    assert b"\n" not in record.to_json()


# Models


async def test_the_list_has_the_clients_models_that_the_engines_serve() -> None:
    house, door = House(plane(clients=[client("acme", models=("local", "reasoner", "embed")), client("b")])), models()
    record = await house.serve(door)
    status, _, body = told(door)
    assert status == 200
    assert [(entry["id"], entry["created"]) for entry in body["data"]] == [("local", 17), ("embed", 18)]
    assert (record.verdict, record.outcome, record.status) == (Verdict.PERMIT, Outcome.OK, 200)
    assert (record.engine, door.limits) == (None, [])


async def test_one_model_is_found_by_its_path() -> None:
    door = models(b"/v1/models/local")
    await House().serve(door)
    assert told(door)[2]["id"] == "local"


async def test_a_model_that_the_client_may_not_use_does_not_exist() -> None:
    rules = plane(clients=[client("acme", models=("embed",)), client("b")])
    door = models(b"/v1/models/local")
    await House(rules).serve(door)
    assert (told(door)[0], code(door)) == (404, "model-not-permitted")


async def test_a_model_that_the_engine_does_not_serve_does_not_exist() -> None:
    door = models(b"/v1/models/local")
    await House(served={}).serve(door)
    assert (told(door)[0], code(door)) == (404, "model-not-permitted")


async def test_a_list_that_the_engine_does_not_give_is_a_failure() -> None:
    house = House(served=Unavailable(Reason.ENGINE_UNAVAILABLE, "connection refused"))
    door = models()
    record = await house.serve(door)
    assert (told(door)[0], record.verdict) == (502, Verdict.FAILURE)


async def test_a_list_leaves_out_what_an_engine_that_is_down_would_serve() -> None:
    house = House(plane(clients=[client("acme", models=("local", "embed")), client("b")]))
    house.engines.down = {plane().models["local"].engine}
    door = models()
    await house.serve(door)
    assert [entry["id"] for entry in told(door)[2]["data"]] == ["embed"]


async def test_a_list_that_nobody_waits_for_is_recorded_as_left() -> None:
    door = models()
    door.left = True
    record = await House().serve(door)
    assert (record.verdict, record.outcome) == (Verdict.PERMIT, Outcome.CLIENT_LEFT)


# Ends of a dispatch


@pytest.mark.parametrize(
    "answer, status, reason, verdict",
    [
        (EngineAnswer(400, b'{"error":{"message":"said"}}'), 400, Reason.ENGINE_ERROR, Verdict.PERMIT),
        (EngineAnswer(429, b"{}", "7"), 429, Reason.ENGINE_OVERLOADED, Verdict.PERMIT),
        (EngineAnswer(401, b"{}"), 502, Reason.ENGINE_REFUSED_GATEWAY, Verdict.FAILURE),
        (EngineAnswer(500, b"{}"), 502, Reason.ENGINE_ERROR, Verdict.FAILURE),
        (EngineAnswer(503, b"{}", "7"), 503, Reason.ENGINE_OVERLOADED, Verdict.FAILURE),
        (EngineAnswer(204, b""), 502, Reason.ENGINE_MALFORMED, Verdict.FAILURE),
    ],
)
async def test_an_engines_error_is_worded_in_the_callers_dialect(
    answer: EngineAnswer, status: int, reason: Reason, verdict: Verdict
) -> None:
    house = House(ending=Delivery(Ending.ANSWERED, engine_status=answer.status, answer=answer))
    door = ask()
    record = await house.serve(door)
    found, headers, body = told(door)
    assert (found, body["error"]["code"]) == (status, reason)
    assert headers.get("retry-after", "") == answer.retry_after
    assert ("proxy-status" in headers) == (verdict is Verdict.FAILURE)
    assert ("said" in body["error"]["message"]) == (answer.status == 400)
    assert (record.verdict, record.reason, record.status) == (verdict, reason, status)
    assert (record.engine_status, record.outcome) == (answer.status, Outcome.OK)


@pytest.mark.parametrize(
    "reason, detail, outcome",
    [
        (Reason.ENGINE_TIMEOUT, "idle", Outcome.IDLE),
        (Reason.ENGINE_TIMEOUT, "total", Outcome.ENGINE_DIED),
        (Reason.ENGINE_ERROR, "connection closed", Outcome.ENGINE_DIED),
        (Reason.DRAINING, "", Outcome.DRAINING),
    ],
)
@pytest.mark.parametrize("head_out", [True, False])
async def test_a_dispatch_that_fails_is_answered_only_if_no_head_is_out(
    reason: Reason,
    detail: str,
    outcome: Outcome,
    head_out: bool,  # noqa: FBT001  (a row of a table)
) -> None:
    house = House(ending=Delivery(Ending.FAILED, reason, detail, 200 if head_out else None))
    door = ask()
    door.head_out = head_out
    record = await house.serve(door)
    assert (record.verdict, record.reason, record.detail) == (Verdict.FAILURE, reason, detail)
    assert record.outcome is outcome
    if head_out:
        assert not door.answers
        assert record.status == 200
    else:
        assert told(door)[0] == record.status == ANSWERS[reason].status
        assert detail in told(door)[2]["error"]["message"]
        assert (f"; deadline={detail}" in told(door)[1]["proxy-status"]) == (reason is Reason.ENGINE_TIMEOUT)


@pytest.mark.parametrize(
    "reason, outcome", [(Reason.ENGINE_UNAVAILABLE, Outcome.ENGINE_DIED), (Reason.ENGINE_OVERLOADED, None)]
)
async def test_who_is_sent_away_from_the_line_before_an_engine_met_none_that_could_die(
    reason: Reason, outcome: Outcome | None
) -> None:
    house = House(ending=Unavailable(reason, "as a dispatcher says", retry_after=1))
    record = await house.serve(ask())
    assert (record.verdict, record.reason, record.outcome) == (Verdict.FAILURE, reason, outcome)
    assert (record.engine, record.engine_status, record.status) == ("main", None, ANSWERS[reason].status)


async def test_a_client_that_leaves_during_the_answer_gets_none() -> None:
    house = House(ending=Delivery(Ending.CLIENT_LEFT, engine_status=200, first_byte_s=0.5))
    door = ask()
    record = await house.serve(door)
    assert not door.answers
    assert (record.verdict, record.outcome, record.reason) == (Verdict.PERMIT, Outcome.CLIENT_LEFT, None)
    assert record.first_byte_ms == 500


async def test_a_client_that_leaves_during_its_body_gets_none_and_is_no_failure_of_ours() -> None:
    house, door = House(), ask(ConnectionError())
    record = await house.serve(door)
    assert not door.answers
    assert (record.verdict, record.outcome, record.status) == (Verdict.PERMIT, Outcome.CLIENT_LEFT, None)
    assert record.client == "acme"


# Bugs and the end of the process


@pytest.mark.parametrize("where", ["gatehouse", "body", "dispatch"])
async def test_a_bug_is_a_500_without_detail_that_ends_the_connection(where: str) -> None:
    bug = ZeroDivisionError("secret: hunter2")
    house = House(
        principals={"acme": bug if where == "gatehouse" else principal()},
        ending=bug if where == "dispatch" else DELIVERED,
    )
    door = ask(bug if where == "body" else HI)
    record = await house.serve(door)
    status, _, body = told(door)
    assert (status, body["error"]["code"], body["error"]["message"]) == (500, "internal", "The gateway failed.")
    assert not door.keep_alive
    assert (record.verdict, record.reason, record.detail) == (Verdict.FAILURE, Reason.INTERNAL, "ZeroDivisionError")
    assert house.bugs == [(ID, bug)]


async def test_a_refusal_does_not_end_the_connection_by_itself() -> None:
    door = ask(credential=None)
    await House().serve(door)
    assert door.keep_alive


@pytest.mark.parametrize("head_out", [True, False])
async def test_a_request_that_is_cancelled_is_recorded_and_where_possible_told(head_out: bool) -> None:  # noqa: FBT001
    house = House(ending=asyncio.CancelledError())
    door = ask()
    door.head_out = head_out
    with pytest.raises(asyncio.CancelledError):
        await house.enforcement.serve(door)
    record = house.record
    assert (record.verdict, record.reason, record.outcome) == (Verdict.FAILURE, Reason.DRAINING, Outcome.DRAINING)
    if head_out:
        assert not door.answers
    else:
        assert (told(door)[0], code(door)) == (503, "draining")


# The gatehouse: the lock of the edge, failures, proofs; and what a plane says about itself

EDGE = CloudflareAccess("edge", "team", "4a" * 32)
CORP = AccessTokenIssuer("corp", "https://i", "us", frozenset({"RS256"}), "at+jwt", 30, "azp", 3600)
METADATA = b"/.well-known/oauth-protected-resource/v1"


def described(**changes: Any) -> Plane:  # noqa: ANN401  (whichever fields a test is about)
    return replace(plane(), callers={"corp": CORP}, resource="https://llm.example.com/v1", **changes)


async def test_behind_the_edge_a_client_comes_from_where_the_front_says() -> None:
    near = replace(client("acme"), networks=(ip_network("198.51.100.0/24"),))
    house = House(replace(plane(clients=[near]), edge=EDGE))
    fields: dict[str, Any] = {"cf-access-jwt-assertion": "lock", "cf-connecting-ip": "198.51.100.9"}
    record = await house.serve(ask(**fields))
    assert (record.verdict, record.client, record.peer) == (Verdict.PERMIT, "acme", "192.0.2.1")
    for address, reason in (("203.0.113.1", Reason.ADDRESS_NOT_ACCEPTED), (None, Reason.ADDRESS_NOT_ACCEPTED)):
        house = House(replace(plane(clients=[near]), edge=EDGE))
        assert (await house.serve(ask(**{**fields, "cf-connecting-ip": address}))).reason is reason
    house = House(replace(plane(clients=[near]), edge=EDGE))
    assert (await house.serve(ask(**{**fields, "cf-access-jwt-assertion": "x"}))).reason is Reason.CREDENTIAL_INVALID


async def test_who_fails_too_often_is_told_when_to_come_again() -> None:
    house = House()
    for _ in range(EACH_ADDRESS.burst):
        door = ask(credential="unknown")
        await house.enforcement.serve(door)
        assert door.answers[0][0] == 401
    door = ask(credential="unknown")
    await house.enforcement.serve(door)
    status, headers, body = door.answers[0]
    assert (status, headers["retry-after"]) == (429, "2")
    assert "www-authenticate" not in headers
    assert b"no such credential" not in body
    record = house.journal.records[-1]
    assert (record.reason, record.verdict, record.detail) == (
        Reason.FAILURES_THROTTLED,
        Verdict.DENY,
        "no such credential",
    )
    good = ask()
    await house.enforcement.serve(good)
    assert house.journal.records[-1].verdict is Verdict.PERMIT


async def test_a_plane_says_what_it_is_and_its_challenge_leads_there() -> None:
    door = ask(method="GET", target=METADATA, credential=None, body=b"")
    record = await House(described()).serve(door)
    status, headers, body = door.answers[0]
    assert (status, headers) == (200, {**ALWAYS, "content-type": "application/json"})
    assert json.loads(body)["resource"] == "https://llm.example.com/v1"
    assert (record.verdict, record.outcome, record.status) == (Verdict.PERMIT, Outcome.OK, 200)
    bare = ask(credential=None)
    await House(described()).serve(bare)
    url = "https://llm.example.com/.well-known/oauth-protected-resource/v1"
    assert f'resource_metadata="{url}"' in bare.answers[0][1]["www-authenticate"]


@pytest.mark.parametrize(
    "method, target, status",
    [("POST", METADATA, 405), ("HEAD", METADATA, 405), ("GET", METADATA + b"?a=b", 400), ("GET", METADATA[:-3], 404)],
)
async def test_what_a_plane_says_is_asked_for_plainly(method: str, target: bytes, status: int) -> None:
    door = ask(method=method, target=target, credential=None, body=b"")
    await House(described()).serve(door)
    assert door.answers[0][0] == status
    assert door.answers[0][1].get("allow") == ("GET" if status == 405 else None)


async def test_behind_the_edge_a_plane_speaks_to_those_who_came_through_it() -> None:
    for assertion, status in ((None, 401), ("x", 401), ("lock", 200)):
        door = ask(method="GET", target=METADATA, credential=None, body=b"", **{"cf-access-jwt-assertion": assertion})
        await House(described(edge=EDGE)).serve(door)
        assert door.answers[0][0] == status


async def test_a_plane_that_takes_proofs_gives_a_nonce_with_each_challenge() -> None:
    house = House(replace(plane(), callers={"corp": replace(CORP, sender="dpop")}))
    door = ask(credential=None)
    await house.enforcement.serve(door)
    headers = door.answers[0][1]
    assert headers["www-authenticate"].startswith('Bearer realm="partner", DPoP realm="partner", algs="ES256 ')
    assert Proofs(b"secret").nonces.holds(headers["dpop-nonce"], 1_800_000_000.0)
    token = compact(signing_input({"alg": "RS256"}, {}), b"x")
    proof = Prover().proof(token, "POST", "https://gateway/v1/chat/completions", iat=1_800_000_000)
    door = ask(credential=None, authorization=f"DPoP {token}", dpop=proof)
    await house.enforcement.serve(door)
    assert 'DPoP realm="partner", error="use_dpop_nonce"' in door.answers[0][1]["www-authenticate"]
    assert "dpop-nonce" in door.answers[0][1]
    door = ask({"messages": "x"})
    await house.enforcement.serve(door)
    assert "dpop-nonce" not in door.answers[0][1]


# Web pages

PAGE = "https://ok.example"
EXPOSING = {"access-control-allow-origin", "access-control-expose-headers", "vary"}


def pages(**changes: Any) -> House:  # noqa: ANN401  (whatever a house takes)
    return House(replace(plane(), cors_origins=frozenset({PAGE})), **changes)


def preflight(target: bytes = b"/v1/chat/completions", **fields: str | None) -> Door:
    asked = {"origin": PAGE, "access_control_request_method": "POST", "access_control_request_headers": "authorization"}
    return ask(
        b"",
        method="OPTIONS",
        target=target,
        credential=None,
        content_type=None,
        content_length=None,
        **{**asked, **fields},
    )


async def test_a_preflight_is_answered_before_a_credential_is_asked_for_and_reaches_no_engine() -> None:
    house, door = pages(), preflight()
    record = await house.serve(door)
    ((status, headers, body),) = door.answers
    assert (status, body) == (200, b"")
    assert headers["access-control-allow-origin"] == PAGE
    assert headers["access-control-allow-methods"] == "OPTIONS, POST"
    assert headers["access-control-allow-headers"] == "authorization"
    assert "access-control-allow-credentials" not in headers
    assert (record.verdict, record.status, record.client) == (Verdict.PERMIT, 200, None)
    assert house.gatehouse.asked == 0
    assert not house.dispatch.requests


@pytest.mark.parametrize(
    "fields",
    [{"origin": "https://evil.example"}, {"origin": None}, {"access_control_request_method": None}, {"origin": "null"}],
)
async def test_a_preflight_from_elsewhere_is_a_method_that_is_not_there(fields: dict[str, Any]) -> None:
    house, door = pages(), preflight(**fields)
    assert (await house.serve(door)).reason is Reason.METHOD_NOT_ALLOWED
    assert told(door)[1]["allow"] == "OPTIONS, POST"


async def test_a_preflight_of_a_path_that_is_not_there_is_404() -> None:
    house, door = pages(), preflight(b"/metrics")
    assert (await house.serve(door)).reason is Reason.NO_SUCH_ENDPOINT


async def test_without_origins_a_preflight_is_405_and_no_answer_speaks_of_pages() -> None:
    house, door = House(), preflight()
    assert (await house.serve(door)).reason is Reason.METHOD_NOT_ALLOWED
    assert told(door)[1]["allow"] == "POST"
    assert not EXPOSING & told(door)[1].keys()


@pytest.mark.parametrize(
    "door, status",
    [
        (ask(credential=None), 401),
        (ask(b"["), 400),
        (ask(target=b"/v1/x"), 404),
        (ask({**HI, "model": "none"}), 404),
        (ask(method="DELETE"), 405),
        (ask(Malformed(Reason.BODY_TOO_LARGE)), 413),
        (models(), 200),
    ],
)
async def test_whatever_the_answer_a_page_of_a_listed_origin_may_read_it(door: Door, status: int) -> None:
    door.headers = FieldLines.of([*door.headers.pairs(), (b"origin", PAGE.encode())])
    await pages().serve(door)
    assert told(door)[0] == status
    assert told(door)[1]["access-control-allow-origin"] == PAGE
    assert "retry-after" in told(door)[1]["access-control-expose-headers"]
    assert told(door)[1]["vary"] == "Origin"


async def test_another_page_is_served_as_everybody_and_may_not_read() -> None:
    door = models(origin="https://evil.example")
    await pages().serve(door)
    assert told(door)[0] == 200
    assert EXPOSING & told(door)[1].keys() == {"vary"}


async def test_a_stream_bears_the_lines_of_its_page() -> None:
    house, door = pages(), ask({**HI, "stream": True}, origin=PAGE)
    await house.serve(door)
    assert b"access-control-allow-origin: https://ok.example\r\n" in door.lines


async def test_head_is_get_where_pages_may_read_and_nowhere_else() -> None:
    for house, status in ((pages(), 200), (House(), 405)):
        door = models()
        door.method = "HEAD"
        await house.serve(door)
        assert told(door)[0] == status


# Forms

RECORDING = b"RIFF" + b"\0" * 300
AUDIO = ParameterRules(frozenset({"model", "file", "language", "stream"}))
WHISPER = plane(
    endpoints=[
        Endpoint(
            "audio",
            "POST",
            b"/v1/audio/transcriptions",
            "openai-transcriptions",
            body_limit=1000,
            parameters=AUDIO,
        )
    ],
    clients=[client("acme", may=frozenset({"audio"}))],
)


def form(*parts: tuple[str, bytes], boundary: str = "b", **headers: str | None) -> Door:
    """Give a request with a form; each part is the rest of its Content-Disposition, and its content."""
    body = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="%b\r\n\r\n%b\r\n' % (name.encode(), content)
        for name, content in parts
    )
    headers.setdefault("content_type", f"multipart/form-data; boundary={boundary}")
    return ask(body + b"--b--\r\n", method="POST", target=b"/v1/audio/transcriptions", credential="acme", **headers)


FILE = ('file"; filename="../../secret.wav"', RECORDING)


async def test_a_form_is_written_anew_around_its_file() -> None:
    house, door = House(WHISPER), form(FILE, ('model"', b"local"), ('language"', b"de"), ('stream"', b"true"))
    record = await house.serve(door)
    (request,) = house.dispatch.requests
    (spool,) = house.spools
    assert request.upload is not None
    assert (request.upload.boundary, request.upload.file, spool.content) == (ID, spool, RECORDING)
    assert request.body.endswith(b'name="file"; filename="audio"\r\nContent-Type: application/octet-stream\r\n\r\n')
    assert b"secret" not in request.body
    assert b'name="max_completion_tokens"\r\n\r\n4096\r\n' in request.body
    assert (request.path, request.stream, record.model) == ("/v1/audio/transcriptions", True, "local")
    assert request.upload.tail == f"\r\n--{ID}--\r\n".encode()
    assert spool.closed


@pytest.mark.parametrize(
    "door, reason, param",
    [
        (form(FILE, ('model"', b"none")), "model-not-permitted", "model"),
        (form(FILE, ('model"', b"local"), ('vllm_xargs"', b"{}")), "parameter-not-accepted", "vllm_xargs"),
        (form(('model"', b"local")), "parameter-invalid", "file"),
        (form(('file"; filename="a"', b""), ('model"', b"local")), "parameter-invalid", "file"),
        (form(FILE, boundary="c"), "body-malformed", None),
        (form(FILE, content_length="1001"), "body-too-large", None),
        (form(FILE, content_encoding="gzip"), "media-type-not-accepted", None),
        (form(FILE, content_type="application/json"), "media-type-not-accepted", None),
    ],
)
async def test_a_form_that_is_refused_leaves_nothing_behind(door: Door, reason: str, param: str | None) -> None:
    house = House(WHISPER)
    door.answers.clear()
    await house.serve(door)
    assert told(door)[2]["error"] | {"code": reason, "param": param} == told(door)[2]["error"]
    assert not house.dispatch.requests
    assert [spool.closed for spool in house.spools] == [True]


async def test_no_file_is_made_for_json() -> None:
    house = House()
    await house.serve(ask())
    assert house.spools == []


# Who is recognized


SHOWN = "t" * 200


def recognizing(found: Principal) -> House:
    house = House()
    house.gatehouse.known_fields[sha256(b"Bearer " + SHOWN.encode()).digest()] = found
    return house


async def test_who_is_recognized_by_the_field_is_not_identified_again() -> None:
    house = recognizing(principal())
    record = await house.serve(ask(credential=SHOWN))
    assert (record.client, record.credential, record.status) == ("acme", principal().kind.value, 200)
    assert house.gatehouse.asked == 0


@pytest.mark.parametrize(
    "more, reason",
    [
        ({"cf_access_jwt_assertion": "a.b.c"}, Reason.CREDENTIAL_AMBIGUOUS),
        ({"x_request_id": "mine"}, Reason.CREDENTIAL_INVALID),
    ],
)
async def test_a_field_that_is_known_counts_for_nothing_beside_one_that_asks_for_a_longer_look(
    more: dict[str, Any], reason: Reason
) -> None:
    """The authenticator of this test knows the field and not the token, so the long way ends in a refusal."""
    house = recognizing(principal())
    assert (await house.serve(ask(credential=SHOWN, **more))).reason is reason


async def test_who_is_recognized_is_refused_as_anybody() -> None:
    assert (await recognizing(principal("nobody")).serve(ask(credential=SHOWN))).reason is Reason.CLIENT_UNKNOWN
