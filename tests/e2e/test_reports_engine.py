"""The reports about engines, their failures and who is told: one test for each, as in ``test_reports``.

Those about web pages are in ``test_pages``. What a report says of the doctor is in ``test_doctor``.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from anyio.from_thread import start_blocking_portal

from gateway.cli import main
from gateway.listener import KEEP_ALIVE_S
from tests.e2e.asking import refused
from tests.e2e.fault_matrix import black_hole
from tests.e2e.pair import TWO_MODELS, Engine, two
from tests.e2e.playing import answer_to, flows, last_record, play, played_whole
from tests.e2e.raw_http import NotHttp, ask, request
from tests.e2e.site import ENGINE_KEY, HI, HOST, MODELS, command, policy_text, running, wait
from tests.free_port import free_port
from tests.simulators.raw_engine import RawEngine
from tests.small_house import POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.pair import Two
    from tests.e2e.site import Site
    from tests.simulators.raw_engine import Seen

REPORTS = orjson.loads(Path(__file__).parents[1].joinpath("corpus", "reports.json").read_bytes())
MIB = 1024 * 1024
INSIDE = re.compile(rb"127\.0\.0\.1|invalid|Traceback|/home|/models|Errno|" + ENGINE_KEY.encode())


def test_every_report_of_the_stage_has_a_test() -> None:
    wanted = {report["id"].lower().replace("-", "_") for report in REPORTS if report["stage"] == "engine"}
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert not [report for report in wanted if f"def test_{report}_" not in text]


# Bodies and streams


def test_body_12_an_endless_refusal_of_the_engine_is_cut_short(site: Site) -> None:
    before = site.memory()
    answer = site.ask(site.script("huge-error", stream=False))
    assert (answer.status, answer.code) == (400, "engine-error")
    assert len(answer.body) < 4096
    assert site.memory() - before < 20 * MIB
    played_whole(site, "chat")


def test_stream_18_callers_who_give_up_and_ask_again_do_not_pile_up(site: Site) -> None:
    most = 0
    site.engine.state.latency_s = 30
    try:
        for _ in range(5):
            with site.connect() as connection:
                connection.send(site.request(body=HI))
                wait(lambda: site.engine.state.running, "the request")
                most = max(most, len(site.engine.state.running))
            wait(lambda: not site.engine.state.running, "the end of the engine's work", 2.0)
    finally:
        site.engine.state.latency_s = 0
    assert most == 1


# Which engine


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Run two engines with a model each; the second asks for a key that the gateway does not have."""
    urls = {"ENGINES__MAIN__URLS": "{0}", "ENGINES__SECOND__URLS": "{1}"}
    with two(tmp_path_factory.mktemp("apart"), TWO_MODELS, models=("local", "org/other"), key="k", **urls) as site:
        wait(lambda: site.ready(0), "the first engine", 20)
        yield site


def test_routing_07_an_engine_that_is_not_there_or_wants_another_key_delays_no_other(apart: Two) -> None:
    second = apart.engines[1]
    wait(lambda: apart.replicas("second")[second.url]["state"] == "engine-refused-gateway", "its refusal", 10)
    assert apart.chat()[0] == 200
    status, body, _, _ = apart.chat(model="other")
    assert (status, body["error"]["code"]) == (502, "engine-refused-gateway")
    second.kill()
    wait(lambda: "connection refused" in apart.replicas("second")[second.url]["state"], "its end", 10)
    status, body, _, _ = apart.chat(model="other")
    assert (status, body["error"]["code"]) == (503, "engine-unavailable")
    second.key = None
    second.start()
    wait(lambda: apart.chat(model="other")[0] == 200, "the second engine", 20)


def test_routing_09_callers_mistakes_take_no_engine_out(site: Site) -> None:
    for number in range(50):
        script = ("bad-request", "unauthorized", "unknown-model", "too-many")[number % 4]
        assert answer_to(site, script).status in {400, 404, 429, 502}
    played_whole(site, "chat")
    (replica,) = (
        ask(site.ops, request("/readyz", f"{HOST}:{site.ops[1]}"))
        .json["planes"]["corpus"]["engines"]["raw"]["replicas"]
        .values()
    )
    assert (replica["ready"], replica["state"]) == (True, "serving")


def test_routing_11_another_replica_only_while_none_has_a_byte(tmp_path: Path) -> None:
    with two(tmp_path) as site:
        wait(lambda: site.ready(0) and site.ready(1), "both replicas", 20)
        with site.open_stream() as dying:
            first = next(engine for engine in site.engines if engine.asked)
            other = next(engine for engine in site.engines if engine is not first)
            first.kill()
            with contextlib.suppress(NotHttp):
                data = b"".join(part for _, part in dying.chunks())
                raise AssertionError(f"the stream ended as if nothing had happened: {data!r}")
        assert not other.asked
        for number in range(10):
            assert site.chat(messages=[{"role": "user", "content": f"{number}"}])[0] == 200
        assert len(other.asked) == 10


# What is told


def test_errors_07_no_failure_tells_of_the_inside(tmp_path: Path, site: Site) -> None:
    plain = site.engine.url.replace("http:", "https:")
    second = {"ENGINES__SECOND__URLS": "http://engine.invalid:8000", "ENGINES__SECOND__PLAIN_HTTP": "true"}
    settings = {"ENGINES__MAIN__URLS": plain, **second}
    with two(tmp_path, TWO_MODELS, models=("a", "b"), **settings) as other:
        wait(lambda: "TLS" in other.state(other.name(0)), "the first try", 10)
        for model in ("local", "other"):
            status, body, _, _ = other.chat(model=model)
            assert (status, body["error"]["code"]) == (503, "engine-unavailable")
            assert not INSIDE.search(orjson.dumps(body))
    unknown = site.chat(model="m2")
    assert (unknown.status, unknown.code) == (404, "model-not-permitted")
    assert not INSIDE.search(unknown.body)


def test_errors_09_the_engines_reason_reaches_who_can_mend_it(site: Site) -> None:
    mended = answer_to(site, "bad-request")
    assert (mended.status, mended.json["error"]["message"]) == (400, "said the engine")
    unknown = answer_to(site, "unknown-model")
    assert (unknown.status, "`raw`" in unknown.json["error"]["message"]) == (404, False)
    ours = answer_to(site, "not-implemented")
    assert (ours.status, ours.code) == (501, "engine-error")
    assert not INSIDE.search(ours.body)


def test_clients_14_an_engine_that_is_down_is_no_limit(site: Site) -> None:
    answer = site.chat(token=site.issuer.token(client_id="cli-2"), model="down")
    assert answer.status in {502, 503}
    assert answer.json["error"]["type"] == "server_error"


# Numbers


def test_metrics_01_numbers_are_for_operators_and_name_nobody(site: Site, tmp_path: Path) -> None:
    for token in (None, ""):
        refused(site, site.request("/metrics", token=token))
    site.chat()
    assert "gateway_decisions_total" in site.metrics()
    assert not re.search(r"@|cli-1|ak_live|[0-9a-f]{64}", site.metrics())
    policies, ops = tmp_path / "policies", free_port()
    policies.mkdir()
    (policies / "demo.yaml").write_text(POLICY, "utf-8")
    environment = {
        "GATEWAY_POLICIES": str(policies),
        "GATEWAY_LISTENERS__PUBLIC": f"{HOST}:{free_port()}",
        "GATEWAY_LISTENERS__OPS": f"0.0.0.0:{ops}",
        "GATEWAY_ENGINES__MAIN__URLS": site.raw.url,
        "GATEWAY_AUDIT_LOG": str(tmp_path / "audit.jsonl"),
        "GATEWAY_OPS_TOKEN": "ops-token",
    }

    def asked(path: str, **fields: str) -> int:
        with contextlib.suppress(OSError):
            return ask((HOST, ops), request(path, f"{HOST}:{ops}", headers=fields)).status
        return 0

    with command(tmp_path / "gateway.log", environment):
        wait(lambda: asked("/livez") == 200, "the gateway", 20)
        assert asked("/readyz") in {200, 503}
        assert asked("/metrics") == 401
        assert asked("/metrics", Authorization="Bearer ops-token") == 200


def test_metrics_05_how_a_stream_ended_is_what_is_counted(site: Site) -> None:
    before = site.audit().count(b"\n")
    outcomes: list[str] = []
    for script in ("reset-mid-stream", "ends-without-done", "engine-error-event", "stalls", "five-events"):
        if script in {"reset-mid-stream", "stalls"}:
            flows(site, script)
        else:
            assert answer_to(site, script).status == 200
        wait(lambda: site.audit().count(b"\n") > before + len(outcomes), "a record")
        outcomes.append(last_record(site)["outcome"])
    with site.connect() as connection:
        play(site, connection, "stalls")
        connection.reset()
    wait(lambda: site.audit().count(b"\n") == before + 6, "six records")
    outcomes.append(last_record(site)["outcome"])
    assert outcomes == ["engine-died", "engine-died", "engine-died", "idle", "ok", "client-left"]


def test_metrics_07_scraping_delays_nobody_and_what_was_open_is_closed(site: Site) -> None:
    site.engine.state.latency_s = 0.02
    stop, scrapes = threading.Event(), 0

    def scrape() -> None:
        nonlocal scrapes
        while not stop.wait(0.05):
            site.metrics()
            scrapes += 1

    def first_byte(_: int) -> float:
        begun = time.monotonic()
        with site.connect() as connection:
            connection.send(site.request(body={**HI, "stream": True}))
            assert connection.head().status == 200
            took = time.monotonic() - begun
            assert b"[DONE]" in b"".join(part for _, part in connection.chunks())
        return took

    scraping = threading.Thread(target=scrape)
    scraping.start()
    try:
        with ThreadPoolExecutor(10) as pool:
            took = sorted(pool.map(first_byte, range(50)))
    finally:
        stop.set()
        scraping.join()
        site.engine.state.latency_s = 0
    assert took[25] < 0.5
    assert scrapes
    assert not re.search(r"(?m)^gateway_streams_open\{.*\} [1-9]", site.metrics())


# Connections


def test_ops_08_a_deploy_lets_streams_finish_or_ends_them_cleanly(tmp_path: Path) -> None:
    for drain, whole in (("30s", True), ("1s", False)):
        folder = tmp_path / drain
        folder.mkdir()
        with two(folder, latency="0.2", DEADLINES__DRAIN=drain, ENGINES__MAIN__URLS="{0},{1}") as site:
            wait(lambda: site.ready(0) and site.ready(1), "both replicas", 20)
            data = b""
            with site.open_stream() as stream:
                site.process.send_signal(signal.SIGTERM)
                try:
                    for _, part in stream.chunks():
                        data += part
                    ended = True
                except NotHttp:
                    ended = False
            assert ended is whole
            assert (b"[DONE]" in data, b'"code":"draining"' in data) == (whole, not whole)
            assert site.process.wait(10) == 0


class HangsUp(RawEngine):
    """An engine that closes a connection on which nothing came for a fifth of a second."""

    async def _read(self, number: int, reader: asyncio.StreamReader) -> Seen | None:
        try:
            async with asyncio.timeout(0.2):
                return await RawEngine._read(self, number, reader)
        except TimeoutError:
            return None


def test_ops_10_a_connection_that_the_engine_closed_costs_no_request(tmp_path: Path) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(HangsUp()) as engine:
        assert isinstance(engine, HangsUp)
        with running(tmp_path, ENGINES__RAW__URLS=engine.url) as site, site.connect() as connection:
            for number in range(60):
                connection.send(site.script("chat", stream=False))
                assert connection.answer("POST").status == 200
                time.sleep(0.18 + number % 5 / 100)
        assert len(engine.asked) == 60


def test_ops_12_callers_who_vanish_leave_no_connection_behind(tmp_path: Path) -> None:
    with running(tmp_path, ENGINES__RAW__POOL="4", ENGINES__RAW__KEEP_ALIVE="1s") as site:
        for _ in range(100):
            with site.connect() as connection:
                connection.send(site.script("late-chat", stream=False))
                connection.reset()
        begun = time.monotonic()
        played_whole(site, "chat")
        assert time.monotonic() - begun < 1
        wait(
            lambda: site.raw.connections <= 1,
            "the end of all connections to the engine but the one it is watched on",
            10,
        )


def test_ops_14_callers_who_leave_while_an_engine_takes_no_connection_block_nothing(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, ENGINES__DOWN__URLS=f"http://{HOST}:{port}") as site:
        token = site.issuer.token(client_id="cli-2")
        with black_hole(port):
            for _ in range(50):
                with site.connect() as connection:
                    connection.send(site.request(token=token, body={**HI, "model": "down"}))
                    connection.reset()
        engine = Engine(tmp_path, port, "down")
        engine.start()
        try:
            wait(lambda: site.chat(token=token, model="down").status in {200, 502, 503}, "an answer")
            wait(lambda: site.chat(token=token, model="down").status != 503, "the engine", 20)
        finally:
            engine.kill()


def test_ops_16_idle_connections_outlast_the_tunnels_and_large_bodies_leave_them_whole(site: Site) -> None:
    assert KEEP_ALIVE_S > 90
    large = {**HI, "messages": [{"role": "user", "content": "x" * (3 * MIB)}], "max_tokens": 1}
    with site.connect() as connection:
        for _ in range(3):
            connection.send(site.request(body=large))
            assert connection.answer("POST").status in {200, 400}
            time.sleep(0.3)


def test_ops_18_half_a_websocket_is_a_path_that_is_not_there(site: Site) -> None:
    with site.connect() as connection:
        for _ in range(2):
            connection.send(site.request("/v1/realtime", fields={"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}))
            answer = connection.answer("GET")
            assert (answer.status, answer.code) == (404, "no-such-endpoint")
        connection.send(site.request(MODELS))
        assert connection.answer("GET").status == 200


# Configuration


def test_config_01_a_reference_is_followed_by_the_import_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "model_list: [{model_name: a, litellm_params: {model: openai/m, api_base: 'http://[::1]/v1', max_tokens: 5, "
        "api_key: os.environ/UP}}]\n",
        "utf-8",
    )
    monkeypatch.setenv("UP", "sk-real")
    assert main(["import", "litellm", str(config)]) == 0
    said = capsys.readouterr()
    assert "GATEWAY_ENGINES__A__API_KEY=\n" in said.out
    assert "sk-real" not in said.out + said.err
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text("lenient.yaml").replace("served_as: org/real", "served_as: os.environ/UP"), "utf-8")
    assert main(["check", str(policy)]) == 1
    assert re.search(rf"^{policy}:[0-9]+:[0-9]+: models\.gpt-4\.1\.served_as: ", capsys.readouterr().out, re.MULTILINE)
    monkeypatch.setenv("GATEWAY_LISTENERS__PUBLIC", f"{HOST}:8080")
    monkeypatch.setenv("GATEWAY_ENGINES__MAIN__URLS", "http://127.0.0.1:1")
    monkeypatch.setenv("GATEWAY_ENGINES__MAIN__API_KEY", "")
    assert main(["serve"]) == 2
    assert "GATEWAY_ENGINES__MAIN__API_KEY is empty" in capsys.readouterr().err


@pytest.mark.parametrize("name, value", [("GATEWAY_DEADLINES__IDLE", "abc"), ("GATEWAY_WORKERS", "1e3")])
def test_config_07_a_setting_has_a_type_and_a_reference_the_one_of_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert main(["serve"]) == 2
    assert f"{name} must be" in capsys.readouterr().err
    config = tmp_path / "config.yaml"
    config.write_text(
        "model_list: [{model_name: a, litellm_params: {model: openai/m, api_base: 'http://[::1]/v1', max_tokens: 5, "
        "tpm: os.environ/TPM}}]\n",
        "utf-8",
    )
    monkeypatch.setenv("TPM", "100")
    assert main(["import", "litellm", str(config)]) == 0
    assert "a: {tokens_per_minute: 100}" in capsys.readouterr().out
    monkeypatch.setenv("TPM", "abc")
    assert main(["import", "litellm", str(config)]) == 2
    assert "litellm_params.tpm: this must be a whole number" in capsys.readouterr().err
