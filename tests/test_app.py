"""Settings and policies become applications together, or not at all."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
import structlog

from gateway.adapters.audit_log import AuditLog
from gateway.adapters.engine_queue import QueuedDispatcher
from gateway.adapters.metrics import Metrics
from gateway.app import Gateway, Misfit, misfits
from gateway.policy.compile import compile_plane
from gateway.wire.hosts import HostRule
from tests.adapters.relaying import playing, warmed, whole
from tests.adapters.wiring import serving
from tests.simulators.resp_server import resp_server
from tests.small_house import INSIDE, POLICY, chat, settings_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from gateway.adapters.downstream import Downstream
    from gateway.settings import Settings
    from tests.adapters.relaying import Line

PUBLIC_PLANE = compile_plane(POLICY, "public.yaml")
INSIDE_PLANE = compile_plane(INSIDE, "inside.yaml")
TOKENS = POLICY.replace(
    "      api_key: {}\n",
    "      api_key: {}\n"
    "    corp:\n"
    "      access_token:\n"
    "        issuer: http://127.0.0.1:9\n"
    "        audience: gateway\n"
    "        algorithms: [RS256]\n"
    "        token_type: at+jwt\n"
    "        clock_skew: 30s\n"
    "        client_claim: azp\n"
    "        longest_lifetime: 1h\n",
)


@pytest.fixture(autouse=True)
def told() -> Iterator[None]:
    """Catch what the operator is told, wherever it would go by now."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    log = AuditLog.open(str(tmp_path / "audit.jsonl"))
    yield log
    log.close()


def problems(settings: Settings, *texts: str) -> list[str]:
    planes = [compile_plane(text, f"{number}.yaml") for number, text in enumerate(texts)]
    return misfits(settings, {plane.listener: plane for plane in planes})


# What fits


def test_settings_and_policies_that_fit_have_no_problems(tmp_path: Path) -> None:
    assert problems(settings_of(tmp_path), POLICY) == []


def test_a_listener_without_a_policy_is_a_misfit(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, LISTENERS__IN_SIDE="127.0.0.1:9999", LISTENERS__OPS="127.0.0.1:9998")
    (problem,) = problems(settings, POLICY)
    assert problem.startswith("The listener 'in-side' is configured, but no policy file has it: ")
    assert problem.endswith("write one, or remove GATEWAY_LISTENERS__IN_SIDE.")


def test_an_engine_without_an_address_is_a_misfit(tmp_path: Path) -> None:
    text = POLICY.replace("engine: main", "engine: big-one")
    assert problems(settings_of(tmp_path), text) == [
        "0.yaml: the engine 'big-one' is not configured: set GATEWAY_ENGINES__BIG_ONE__URLS."
    ]


def test_addresses_of_clients_mean_nothing_on_loopback(tmp_path: Path) -> None:
    text = POLICY.replace("    limits: standard\n", "    limits: standard\n    from: [192.0.2.0/24]\n")
    (problem,) = problems(settings_of(tmp_path), text)
    assert problem.startswith("0.yaml: client 'visitor' has 'from', but on the listener 'public' every caller comes ")
    beyond = settings_of(tmp_path, LISTENERS__PUBLIC="0.0.0.0:8080", HOSTS__PUBLIC='["llm.example.com"]')
    assert problems(beyond, text) == []


def test_a_caller_whose_tokens_are_asked_about_needs_a_credential_for_that(tmp_path: Path) -> None:
    text = POLICY.replace(
        "      api_key: {}\n",
        "      api_key: {}\n    my-idp:\n      introspection: {issuer: 'https://login.example', audience: us}\n",
    )
    (problem,) = problems(settings_of(tmp_path), text)
    assert problem.startswith("0.yaml: the caller 'my-idp' asks its issuer about tokens, and has no credential")
    assert "GATEWAY_ISSUERS__MY_IDP__CLIENT_ID" in problem
    given = settings_of(tmp_path, ISSUERS__MY_IDP__CLIENT_ID="gateway", ISSUERS__MY_IDP__CLIENT_SECRET="secret")
    assert problems(given, text) == []


def test_tokens_for_certificates_need_a_listener_that_asks_for_them(tmp_path: Path) -> None:
    text = TOKENS.replace("longest_lifetime: 1h\n", "longest_lifetime: 1h\n        sender: mtls\n")
    sentence = (
        "0.yaml: the caller 'corp' has 'sender: mtls', but the listener 'public' asks for no client certificates: "
        "set GATEWAY_TLS__PUBLIC__CERT, …__KEY and …__CLIENT_CA."
    )
    plain = {"TLS__PUBLIC__CERT": "/cert", "TLS__PUBLIC__KEY": "/key"}
    assert problems(settings_of(tmp_path), text) == [sentence]
    assert problems(settings_of(tmp_path, **plain), text) == [sentence]
    assert problems(settings_of(tmp_path, **plain, TLS__PUBLIC__CLIENT_CA="/ca"), text) == []
    proofs = text.replace("sender: mtls", "sender: dpop")
    assert problems(settings_of(tmp_path), proofs) == []
    several = settings_of(tmp_path, WORKERS="2", LEDGER="unix:/run/valkey.sock")
    sentence = (
        "0.yaml: the caller 'corp' has 'sender: dpop', whose nonces and proofs each process keeps for itself: "
        "set GATEWAY_WORKERS=1."
    )
    assert problems(several, proofs) == [sentence]
    assert problems(several, TOKENS) == []


def test_authorities_that_cannot_be_used_are_a_misfit(tmp_path: Path, log: AuditLog) -> None:
    none, empty = tmp_path / "none.pem", tmp_path / "empty.pem"
    empty.write_text("no certificate", "utf-8")
    for file, why in ((none, "cannot be read: No such file or directory"), (empty, "holds no certificate in PEM")):
        settings = settings_of(tmp_path, "https://127.0.0.1:9", ENGINES__MAIN__CA_FILE=str(file))
        with pytest.raises(Misfit) as misfit:
            Gateway(settings, [PUBLIC_PLANE], log, Metrics())
        assert str(misfit.value) == f"GATEWAY_ENGINES__MAIN__CA_FILE {why}."
        settings = settings_of(tmp_path, LEDGER="valkeys://localhost", LEDGER_CA_FILE=str(file))
        with pytest.raises(Misfit) as misfit:
            Gateway(settings, [PUBLIC_PLANE], log, Metrics())
        assert str(misfit.value) == f"GATEWAY_LEDGER_CA_FILE {why}."


def test_a_misfit_says_all_its_problems(tmp_path: Path, log: AuditLog) -> None:
    settings = settings_of(tmp_path, LISTENERS__INSIDE="127.0.0.1:9999")
    with pytest.raises(Misfit) as misfit:
        Gateway(settings, [compile_plane(POLICY.replace("engine: main", "engine: other"), "a")], log, Metrics())
    assert len(misfit.value.problems) == 2
    assert str(misfit.value) == "\n".join(misfit.value.problems)


# What is made of it


def test_there_is_an_application_for_each_listener_and_none_for_a_plane_without_one(
    tmp_path: Path, log: AuditLog
) -> None:
    gateway = Gateway(settings_of(tmp_path), [PUBLIC_PLANE, INSIDE_PLANE], log, Metrics())
    assert list(gateway.apps) == ["public"]
    assert gateway.planes == [PUBLIC_PLANE]
    both = settings_of(tmp_path, LISTENERS__INSIDE="127.0.0.1:9999")
    assert set(Gateway(both, [PUBLIC_PLANE, INSIDE_PLANE], log, Metrics()).apps) == {"public", "inside"}


def test_an_engine_gets_its_own_settings_and_key(tmp_path: Path, log: AuditLog) -> None:
    settings = settings_of(tmp_path, ENGINES__MAIN__API_KEY="engine-key", ENGINES__SPARE__URLS="http://127.0.0.1:8")
    gateway = Gateway(settings, [PUBLIC_PLANE], log, Metrics())
    assert set(gateway.engines) == {"main", "spare"}
    (replica,) = gateway.engines["main"].replicas
    assert replica.client.pool.address.host_field == "127.0.0.1:9"


def test_each_url_of_an_engine_is_a_replica_with_connections_of_its_own(tmp_path: Path, log: AuditLog) -> None:
    settings = settings_of(tmp_path, "http://127.0.0.1:9,unix:/run/vllm/main.sock")
    replicas = Gateway(settings, [PUBLIC_PLANE], log, Metrics()).engines["main"].replicas
    assert [replica.name for replica in replicas] == ["http://127.0.0.1:9", "unix:/run/vllm/main.sock"]
    assert replicas[0].client.pool is not replicas[1].client.pool


async def test_a_request_goes_through_the_whole_house(tmp_path: Path, log: AuditLog) -> None:
    seen: list[bytes] = []

    async def play(line: Line) -> None:
        seen.append(line.head)
        await line.send(whole(b'{"choices":[]}'))

    metrics = Metrics()
    async with playing(warmed(play)) as (_, url):
        settings = settings_of(tmp_path, url, ENGINES__MAIN__API_KEY="engine-key")
        gateway = Gateway(settings, [PUBLIC_PLANE], log, metrics)
        async with gateway.running(), serving(_through(gateway)) as server:
            host = str(settings.listeners["public"])
            answer = await server.ask(chat(host))
            broken = await server.ask(b"garbage\r\n\r\n")
            torn = await server.ask(chat(host).replace(b"content-length: ", b"transfer-encoding: chunked\r\nx: "))
            ready = await gateway.readiness(draining=False)
    assert (answer.status, answer.body) == (200, b'{"choices":[]}')
    assert b"authorization: Bearer engine-key\r\n" in seen[0]
    assert [broken.status, torn.status] == [400, 400]
    assert ready.ready
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_bytes().splitlines()]
    assert [record["id"] for record in records] == [one.headers["x-request-id"] for one in (answer, broken, torn)]
    assert b"gateway_parser_refused_total 2.0" in metrics.render()


def _through(gateway: Gateway) -> Callable[[Downstream], Awaitable[None]]:
    return gateway.apps["public"]


async def test_a_bug_is_told_to_the_operator_without_the_message(tmp_path: Path, log: AuditLog) -> None:
    class Bug(HostRule):
        def check(self, host: bytes | None) -> str:
            raise ZeroDivisionError(f"secret {host!r}")

    gateway = Gateway(settings_of(tmp_path), [PUBLIC_PLANE], log, Metrics())
    gateway.apps["public"].enforcement._hosts = Bug()
    with structlog.testing.capture_logs() as said:
        async with serving(_through(gateway)) as server, server.client() as client:
            client.send(chat("any"))
            answer = await client.answer()
            assert await client.ended()
    assert (answer.status, answer.headers["connection"]) == (500, "close")
    assert [(line["event"], line["request"]) for line in said] == [("internal error", answer.headers["x-request-id"])]
    assert b"secret" not in answer.body


@pytest.mark.parametrize("environ, alike", [({"CACHE_SALT_SECRET": "s" * 32}, True), ({}, False)])
async def test_gateways_with_one_secret_divide_an_engine_s_cache_alike(
    tmp_path: Path, log: AuditLog, environ: dict[str, str], *, alike: bool
) -> None:
    """Without the setting, each process draws a secret of its own: the right thing for one gateway alone."""
    salts: list[str] = []

    async def play(line: Line) -> None:
        salts.append(json.loads(line.body)["cache_salt"])
        await line.send(whole(b"{}"))

    async with playing(warmed(play)) as (_, url):
        settings = settings_of(tmp_path, url, **environ)
        for _ in range(2):
            gateway = Gateway(settings, [PUBLIC_PLANE], log, Metrics())
            async with gateway.running(), serving(_through(gateway)) as server:
                for _ in range(2):
                    await server.ask(chat(str(settings.listeners["public"])))
    first, again, *other = salts
    assert first == again
    assert other == [first, first] if alike else first not in other


# Reload


async def test_a_reload_puts_all_policies_in_place(tmp_path: Path, log: AuditLog) -> None:
    gateway = Gateway(settings_of(tmp_path), [PUBLIC_PLANE], log, Metrics())
    app, before = gateway.apps["public"], gateway.apps["public"].enforcement
    changed = compile_plane(POLICY.replace("1MiB", "2MiB"), "public.yaml")
    gateway.reload([changed, INSIDE_PLANE])
    assert gateway.apps == {"public": app}
    assert app.enforcement is not before
    assert gateway.planes == [changed]


@pytest.mark.parametrize("text", [INSIDE, POLICY.replace("engine: main", "engine: other")])
async def test_a_reload_that_does_not_fit_changes_nothing(tmp_path: Path, log: AuditLog, text: str) -> None:
    gateway = Gateway(settings_of(tmp_path), [PUBLIC_PLANE], log, Metrics())
    before = gateway.apps["public"].enforcement
    with pytest.raises(Misfit):
        gateway.reload([compile_plane(text, "changed.yaml")])
    assert gateway.apps["public"].enforcement is before


async def test_the_keys_of_a_plane_are_kept_as_long_as_the_plane(tmp_path: Path, log: AuditLog) -> None:
    settings = settings_of(tmp_path, ISSUERS__CORP__JWKS_URL="http://127.0.0.1:9/jwks", ISSUERS__CORP__TIMEOUT="1s")
    gateway = Gateway(settings, [compile_plane(TOKENS, "public.yaml")], log, Metrics())
    async with gateway.running():
        assert set(gateway.key_sets.ages_s()) == {"corp"}
        assert gateway.ages_s == {}
        gateway.reload([PUBLIC_PLANE])
        await asyncio.sleep(0)
        assert gateway.key_sets.ages_s() == {}


async def test_connections_to_engines_are_closed_at_the_end(tmp_path: Path, log: AuditLog) -> None:
    async def play(line: Line) -> None:
        await line.send(whole(b"{}"))

    async with playing(warmed(play)) as (engine, url):
        settings = settings_of(tmp_path, url)
        gateway = Gateway(settings, [PUBLIC_PLANE], log, Metrics())
        pool = gateway.engines["main"].replicas[0].client.pool
        async with gateway.running(), serving(_through(gateway)) as server:
            await server.ask(chat(str(settings.listeners["public"])))
            assert pool.idle == 1
        assert pool.idle == 0
        await asyncio.sleep(0.05)
        assert engine.open == 0


async def test_a_reload_has_its_new_models_warmed_up_beside_the_traffic(tmp_path: Path, log: AuditLog) -> None:
    asked: list[bytes] = []

    async def play(line: Line) -> None:
        if line.head.startswith(b"POST"):
            asked.append(line.body)
        await line.send(whole(b'{"data":[{"id":"local"},{"id":"other"}]}'))

    async with playing(play) as (_, url):
        gateway = Gateway(settings_of(tmp_path, url), [PUBLIC_PLANE], log, Metrics())
        async with gateway.running():
            assert asked
            assert not [body for body in asked if b'"other"' in body]
            gateway.reload([compile_plane(POLICY.replace("served_as: local", "served_as: other"), "public.yaml")])
            (replica,) = gateway.engines["main"].replicas
            for _ in range(500):
                if "other" in replica.warm:
                    break
                assert replica.circuit.closed
                await asyncio.sleep(0.01)
    assert [body for body in asked if b'"other"' in body]


async def test_with_a_shared_ledger_its_server_is_asked_and_its_absence_is_told(tmp_path: Path, log: AuditLog) -> None:
    async with resp_server() as server:
        server.answers = [b"+PONG\r\n"]
        more = {"LEDGER": str(server.address), "LEDGER_PASSWORD": "a-password"}
        gateway = Gateway(settings_of(tmp_path, **more), [PUBLIC_PLANE], log, Metrics())
        async with gateway.running():
            assert "the ledger does not answer" not in (await gateway.readiness(draining=False)).problems
            server.answers = [b"-LOADING\r\n"]
            report = await gateway.readiness(draining=True)
    assert (report.ready, report.problems) == (False, ("draining", "the ledger does not answer"))
    assert [b"AUTH", b"a-password"] in server.signed_in


async def test_while_records_cannot_be_written_it_is_not_ready(tmp_path: Path) -> None:
    log = AuditLog.open("/dev/full")
    gateway = Gateway(settings_of(tmp_path), [PUBLIC_PLANE], log, Metrics())
    assert not (await gateway.readiness(draining=False)).problems
    log.write(b"{}")
    log.flush()
    report = await gateway.readiness(draining=True)
    log.close(0)
    assert (report.ready, report.problems) == (False, ("draining", "records cannot be written"))


async def test_an_engine_with_a_bound_has_a_queue_and_others_have_none(tmp_path: Path, log: AuditLog) -> None:
    settings = settings_of(tmp_path, ENGINES__MAIN__IN_FLIGHT="3", ENGINES__OTHER__URLS="http://127.0.0.1:9")
    gateway = Gateway(settings, [PUBLIC_PLANE], log, Metrics())
    assert isinstance(gateway._dispatcher, QueuedDispatcher)
    assert set(gateway._dispatcher._queues) == {"main"}
