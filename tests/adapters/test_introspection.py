from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pytest

from gateway.adapters import introspection
from gateway.adapters.introspection import Active, IntrospectionSource, Introspector
from gateway.adapters.issuer_http import IssuerHttp
from gateway.identity.issuer import IntrospectionIssuer
from gateway.reasons import Malformed, Reason, Unavailable
from tests.simulators.issuer import Issuer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

NOW = 1_796_000_000.0
ASKED = IntrospectionIssuer("asked", "https://login.example", "us")
SOURCE = IntrospectionSource("gateway", "secret", url="https://login.example/introspect")


def said(**changes: object) -> bytes:
    good = {"active": True, "aud": "us", "client_id": "cli-1", "exp": NOW + 300, "jti": "j-1"}
    return json.dumps({**good, **changes}).encode()


class Script:
    """An issuer that gives ``answer``, once ``open`` is set."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer
        self.forms: list[Mapping[str, str]] = []
        self.addresses: list[str] = []
        self.looked_up = 0
        self.open = asyncio.Event()
        self.open.set()

    async def post(self, url: str, form: Mapping[str, str], authorization: str) -> bytes:
        self.forms.append(form)
        self.addresses.append(url)
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def endpoint(self, issuer: str, member: str) -> str:
        self.looked_up += 1
        return f"{issuer}/{member}"


class Desk:
    """An introspector before a script."""

    def __init__(self, answer: bytes | Exception, source: IntrospectionSource = SOURCE) -> None:
        self.script = Script(answer)
        self.introspector = Introspector({"asked": source}, self.script)

    async def ask(self, token: str = "opaque", now: float = NOW, issuer: IntrospectionIssuer = ASKED) -> Active:
        return await self.introspector.ask(issuer, token, sha256(token.encode()).hexdigest(), now)

    def knows(self, token: str = "opaque", now: float = NOW, issuer: IntrospectionIssuer = ASKED) -> bool:
        return self.introspector.known(issuer, sha256(token.encode()).hexdigest(), now) is not None

    async def detail(self, token: str = "opaque", now: float = NOW) -> str:
        with pytest.raises(Malformed) as caught:
            await self.ask(token, now)
        assert caught.value.reason is Reason.CREDENTIAL_INVALID
        return caught.value.detail

    async def failure(self, token: str = "opaque") -> Unavailable:
        with pytest.raises(Unavailable) as caught:
            await self.ask(token)
        return caught.value


@asynccontextmanager
async def desk(answer: bytes | Exception, source: IntrospectionSource = SOURCE) -> AsyncIterator[Desk]:
    one = Desk(answer, source)
    async with one.introspector.running():
        yield one


async def test_a_token_is_asked_for_once_and_known_for_a_minute() -> None:
    async with desk(said()) as one:
        assert not one.knows()
        active = await one.ask()
        assert (active.principal.id, active.token_id) == ("cli-1", "j-1")
        assert await one.ask() is active
        assert one.knows(now=NOW + 59.9)
        assert not one.knows(now=NOW + 60)
        await one.ask(now=NOW + 60)
    assert one.script.forms == [{"token": "opaque", "token_type_hint": "access_token"}] * 2


@pytest.mark.parametrize("changes, end", [({"exp": NOW + 20}, 20.0), ({"exp": None}, 60.0)])
async def test_an_answer_counts_no_longer_than_the_token(changes: dict[str, Any], end: float) -> None:
    document = json.loads(said(**changes))
    kept = {name: value for name, value in document.items() if value is not None}
    async with desk(json.dumps(kept).encode()) as one:
        await one.ask()
        assert one.knows(now=NOW + end - 0.1)
        assert not one.knows(now=NOW + end)


async def test_without_a_cache_each_request_asks() -> None:
    async with desk(said(), replace(SOURCE, cache_s=0)) as one:
        await one.ask()
        await one.ask()
        assert not one.knows()
    assert len(one.script.forms) == 2


async def test_a_refusal_is_remembered_for_a_few_seconds() -> None:
    async with desk(b'{"active": false}') as one:
        for _ in range(3):
            assert "not active" in await one.detail()
        assert len(one.script.forms) == 1
        one.script.answer = said()
        assert "not active" in await one.detail(now=NOW + 9.9)
        assert (await one.ask(now=NOW + 10)).principal.id == "cli-1"


async def test_a_fault_of_the_issuer_is_not_remembered_and_says_nothing_about_the_token() -> None:
    async with desk(Unavailable(Reason.KEYS_UNAVAILABLE, "down")) as one:
        assert (await one.failure()).reason is Reason.KEYS_UNAVAILABLE
        one.script.answer = b"<html>"
        assert (await one.failure()).status == 502
        one.script.answer = said()
        assert (await one.ask()).principal.id == "cli-1"
        one.script.answer = Unavailable(Reason.KEYS_UNAVAILABLE, "down")
        assert (await one.ask()).principal.id == "cli-1"


async def test_a_bug_ends_neither_the_other_flights_nor_the_process() -> None:
    async with desk(RuntimeError("x")) as one:
        assert (await one.failure()).reason is Reason.INTERNAL
        one.script.answer = said()
        assert (await one.ask()).principal.id == "cli-1"


async def test_whoever_waits_for_one_token_waits_for_one_question() -> None:
    async with desk(said()) as one:
        one.script.open.clear()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(one.ask())
            others = [group.create_task(one.ask()) for _ in range(20)]
            await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.sleep(0.01)
            one.script.open.set()
        assert first.cancelled()
        assert {task.result().principal.id for task in others} == {"cli-1"}
        assert len(one.script.forms) == 1


async def test_only_so_many_questions_are_open_at_once() -> None:
    async with desk(b'{"active": false}') as one:
        one.script.open.clear()
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(one.detail(f"t{number}")) for number in range(introspection.MOST_ASKED_AT_ONCE)]
            await asyncio.sleep(0.01)
            assert (await one.failure("one too many")).retry_after == 1
            one.script.open.set()
        assert all("not active" in task.result() for task in asking)
        assert "not active" in await one.detail("one too many")


async def test_who_waits_when_the_gateway_stops_is_told_so() -> None:
    one = Desk(said())
    one.script.open.clear()
    async with asyncio.TaskGroup() as group, one.introspector.running():
        waiting = group.create_task(one.failure())
        await asyncio.sleep(0.01)
    assert waiting.result().reason is Reason.DRAINING
    assert (await one.failure()).reason is Reason.KEYS_UNAVAILABLE


async def test_what_is_remembered_is_bounded_and_refusals_do_not_drive_out_what_holds() -> None:
    async with desk(said()) as one:
        await one.ask("good")
        one.script.answer = b'{"active": false}'
        for number in range(introspection.MOST_REMEMBERED + 5):
            await one.detail(f"t{number}")
        assert one.knows("good")
        assert len(one.introspector._refused) == introspection.MOST_REMEMBERED


async def test_another_policy_asks_anew() -> None:
    async with desk(said()) as one:
        await one.ask()
        assert one.knows()
        assert not one.knows(issuer=replace(ASKED, groups_claim=("groups",)))


async def test_the_address_is_looked_up_once_and_again_after_a_fault() -> None:
    async with desk(said(), replace(SOURCE, url=None)) as one:
        await one.ask("a")
        await one.ask("b")
        assert one.script.addresses == ["https://login.example/introspection_endpoint"] * 2
        assert one.script.looked_up == 1
        one.script.answer = Unavailable(Reason.KEYS_UNAVAILABLE, "moved")
        await one.failure("c")
        await one.failure("c")
        assert one.script.looked_up == 2


@pytest.mark.parametrize("url", ["http://login.example/", "ftp://x/", "https://a@b/"])
def test_an_unsafe_address_in_the_settings_is_an_error_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="introspection URL is https"):
        replace(SOURCE, url=url)


def test_no_answer_counts_for_more_than_a_minute() -> None:
    with pytest.raises(ValueError, match="at most 60 s"):
        replace(SOURCE, cache_s=61)


def test_the_gateways_own_credential_is_written_as_oauth_wants_it_and_in_no_log() -> None:
    """RFC 6749 §2.3.1: id and secret are form-encoded before they are joined, so that a colon splits nothing."""
    assert IntrospectionSource("a:b", "p&+ %").authorization == "Basic YSUzQWI6cCUyNiUyQislMjU="
    assert "secret" not in repr(SOURCE)


@asynccontextmanager
async def against(issuer: Issuer, timeout_s: float = 30, *, discover: bool = False) -> AsyncIterator[Desk]:
    http = IssuerHttp()
    url = None if discover else issuer.introspection_url
    one = Desk(b"")
    one.introspector = Introspector({"asked": IntrospectionSource("gw", "s", url=url, timeout_s=timeout_s)}, http)
    try:
        async with one.introspector.running():
            yield one
    finally:
        await http.close()


def of(issuer: Issuer) -> IntrospectionIssuer:
    return IntrospectionIssuer("asked", issuer.url, "us")


@pytest.mark.parametrize("discover", [True, False])
async def test_a_real_issuer_is_asked_with_a_form_and_a_credential(*, discover: bool) -> None:
    """Corpus introspection-015: metacharacters stay within the one parameter."""
    token = "a&client_id=evil&b=%26+/~.-_="
    with Issuer() as issuer:
        issuer.opaque[token] = {"active": True, "aud": "us", "client_id": "cli-1"}
        async with against(issuer, discover=discover) as one:
            assert (await one.ask(token, time.time(), of(issuer))).principal.id == "cli-1"
        ((form, authorization),) = issuer.asked
    assert parse_qsl(form, strict_parsing=True) == [("token", token), ("token_type_hint", "access_token")]
    assert authorization == "Basic Z3c6cw=="


@pytest.mark.parametrize(
    "fault", ["down", "error", "redirect", "huge", "endless", "silent", "drip", "garbage", "bomb", "empty"]
)
async def test_no_fault_of_an_issuer_is_a_pass_or_takes_longer_than_the_deadline(fault: str) -> None:
    """Corpus introspection-008, -009, -010, -012."""
    with Issuer() as issuer:
        issuer.fault, issuer.redirect_to = fault, f"{issuer.origin}/canary"
        issuer.opaque["opaque"] = {"active": True, "aud": "us", "client_id": "cli-1"}
        begun = time.monotonic()
        async with against(issuer, timeout_s=0.4) as one:
            with pytest.raises(Unavailable) as caught:
                await one.ask("opaque", time.time(), of(issuer))
        assert caught.value.reason is Reason.KEYS_UNAVAILABLE
        assert time.monotonic() - begun < 10
        assert issuer.fetches["/canary"] == 0
        issuer.fault = None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
async def test_an_issuer_that_refuses_the_gateway_does_not_make_the_token_invalid(status: int) -> None:
    with Issuer() as issuer:
        issuer.opaque["opaque"] = status
        async with against(issuer) as one:
            with pytest.raises(Unavailable, match=f"status {status}"):
                await one.ask("opaque", time.time(), of(issuer))
