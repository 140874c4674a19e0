"""The doctor by its real command, in front of a running gateway: one broken layer after the other.

What the gateway itself was started with stays whole; the doctor is given settings that differ in one thing, or the
simulators are changed under both.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.cli import main
from tests.e2e.site import ENGINE_KEY, HOST, KEYS, Site, running, wait
from tests.free_port import free_port
from tests.simulators.origin import Origin, Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Ask = Callable[..., "Said"]

RAY = {"cf-ray": "8a1b-FRA", "server": "cloudflare"}


def edited(text: str) -> str:
    """Lead every model to the engine that is a whole one."""
    for name in ("raw", "down"):
        text = text.replace(f"engine: {name}, served_as: {name}", "engine: main, served_as: org/real")
    return text


class Said:
    """What the doctor said: its status, the report for machines, and its text."""

    def __init__(self, status: int, out: str) -> None:
        self.status = status
        self.out = out
        self.report: dict[str, Any] = json.loads(out)
        self.findings: list[dict[str, str]] = self.report["findings"]

    def of(self, layer: str, *verdicts: str) -> list[dict[str, str]]:
        """Give the findings of a layer with some verdicts, or all of them."""
        return [one for one in self.findings if one["layer"] == layer and (one["verdict"] in verdicts or not verdicts)]

    def one(self, layer: str, verdict: str) -> dict[str, str]:
        """Give the only finding of a layer with a verdict."""
        (found,) = self.of(layer, verdict)
        return found

    @property
    def broken(self) -> list[str]:
        """The layers of which something is broken."""
        return sorted({one["layer"] for one in self.findings if one["verdict"] == "broken"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a gateway of which everything is well."""
    with running(tmp_path_factory.mktemp("doctor"), edited) as one:
        yield one


def settings_of(site: Site) -> dict[str, str]:
    """Give the environment that the gateway was started with."""
    environ = Path(f"/proc/{site.process.pid}/environ").read_text("utf-8").split("\0")
    return dict(line.split("=", 1) for line in environ if "=" in line)


@pytest.fixture(scope="module")
def well(site: Site) -> Said:
    """Give what the doctor says where nothing is broken."""
    program = [sys.executable, "-m", "gateway", "doctor", "--json"]
    told = subprocess.run(program, env=settings_of(site), capture_output=True, text=True, check=False)
    assert told.stderr == ""
    return Said(told.returncode, told.stdout)


@pytest.fixture
def ask(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Give a way to call the doctor with the gateway's own settings, some of them changed; ``None`` takes one away."""
    own = {name: value for name, value in settings_of(site).items() if name.startswith("GATEWAY_")}

    def call(*arguments: str, **changes: str | None) -> Said:
        for name, value in {**own, **{f"GATEWAY_{name}": value for name, value in changes.items()}}.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)
        status = main(["doctor", "--json", "--within", "5", *arguments])
        out = capsys.readouterr().out
        assert ENGINE_KEY not in out
        return Said(status, out)

    return call


def test_where_everything_is_well_each_layer_is_told_and_the_status_is_0(site: Site, well: Said) -> None:
    said = well
    assert (said.status, said.report["holds"], said.report["first_broken"], said.broken) == (0, True, None, [])
    assert said.of("identity", "ok")[0]["subject"] == f"corp at {site.issuer.url}"
    assert "answered in" in said.of("model", "ok")[0]["saw"]
    assert "heeded (20 prompt tokens, 14 with it on)" in said.of("model", "ok")[1]["saw"]
    assert said.of("GPU", "ok")[0]["saw"] == "0 running, 0 waiting, KV cache 0% full"
    assert [one["saw"] for one in said.of("gateway", "ok")] == [
        "answers 404 no-such-endpoint to nobody",
        "refuses by itself all 12 paths that only an engine would answer",
        "answers 401 credential-missing to nobody",
        "refuses by itself all 12 paths that only an engine would answer",
        "is ready",
    ]
    unused = {one["subject"] for one in said.of("configuration", "warning")}
    assert unused == {"GATEWAY_ENGINES__RAW", "GATEWAY_ENGINES__DOWN"}


def test_a_person_reads_a_line_for_each_thing_and_the_conclusion_last(site: Site) -> None:
    program = [sys.executable, "-m", "gateway", "doctor"]
    told = subprocess.run(program, env=settings_of(site), capture_output=True, text=True, check=False)
    lines = told.stdout.splitlines()
    assert (told.returncode, told.stderr) == (0, "")
    assert lines[0].startswith(
        "ok         configuration  settings and policies hold: lenient (inside), corpus (public)"
    )
    assert lines[-1].startswith("No layer is broken; ")
    assert ENGINE_KEY not in told.stdout


def test_what_keeps_serve_from_starting_is_status_2_and_nothing_else_is_tried(ask: Ask, tmp_path: Path) -> None:
    said = ask(WORKERS="3")
    assert (said.status, said.report["first_broken"]) == (2, "configuration")
    assert [one["layer"] for one in said.findings] == ["configuration"]
    broken = tmp_path / "policy.yaml"
    broken.write_text("policy: 1\nplane: x\n")
    said = ask(WORKERS=None, POLICIES=str(broken))
    assert said.status == 2
    assert all(one["saw"].startswith(f"{broken}:") for one in said.findings)
    said = ask(POLICIES=None, LISTENERS__MORE=f"{HOST}:{free_port()}")
    assert said.status == 2


def test_an_engine_that_is_down_keeps_what_is_behind_it_from_being_tried(ask: Ask) -> None:
    said = ask(ENGINES__MAIN__URLS=f"http://{HOST}:{free_port()}")
    assert (said.status, said.report["first_broken"]) == (1, "engine")
    assert said.one("engine", "broken")["saw"] == "connection refused"
    assert "journalctl -u vllm" in said.one("engine", "broken")["do"]
    for layer in ("engine API", "model"):
        assert said.one(layer, "not tried")["saw"] == "behind the broken engine"
    assert said.of("GPU")[0]["saw"] == "behind the broken engine"
    assert said.broken == ["engine"]


def test_a_name_that_the_engine_does_not_serve_is_told_with_the_flag(site: Site, ask: Ask, tmp_path: Path) -> None:
    for file in (site.folder / "policies").iterdir():
        text = file.read_text("utf-8").replace(
            "m:    {engine: main, served_as: org/real", "m: {engine: main, served_as: m"
        )
        (tmp_path / file.name).write_text(text.replace("model: org/real", "model: m") if "corpus" in text else text)
    said = ask(POLICIES=str(tmp_path))
    assert said.report["first_broken"] == "engine API"
    broken = said.one("engine API", "broken")
    assert broken["saw"] == "does not serve 'm' (model 'm' of the policy); it serves org/real"
    assert "--served-model-name org/real m" in broken["do"]
    assert said.of("model", "not tried")[0]["subject"].startswith("m on main at ")
    assert "another text of the policy 'corpus'" in said.one("gateway", "warning")["saw"]


def test_a_key_that_the_engine_refuses_is_told_with_its_setting(ask: Ask) -> None:
    said = ask(ENGINES__MAIN__API_KEY="another-key")
    assert said.one("engine API", "broken")["saw"] == "refuses the gateway's key (401)"
    assert "GATEWAY_ENGINES__MAIN__API_KEY" in said.one("engine API", "broken")["do"]
    said = ask(ENGINES__MAIN__API_KEY=None)
    assert said.one("engine API", "broken")["saw"] == "demands a key, and the gateway has none (401)"
    assert (said.status, said.broken) == (1, ["engine API"])


@pytest.mark.parametrize("fault", ["down", "garbage", "error", "empty"])
def test_an_issuer_without_usable_keys_is_the_first_broken_layer(site: Site, ask: Ask, fault: str) -> None:
    site.issuer.fault = fault
    try:
        said = ask()
    finally:
        site.issuer.fault = None
    assert (said.status, said.report["first_broken"], said.broken) == (1, "identity", ["identity"])
    assert "GATEWAY_ISSUERS__CORP__JWKS_URL" in said.one("identity", "broken")["do"]
    assert said.of("model", "ok")


def test_an_engine_whose_core_hangs_is_found_by_asking_it(site: Site, ask: Ask) -> None:
    site.engine.state.paused = True
    try:
        said = ask("--within", "1")
    finally:
        site.engine.state.paused = False
    assert said.report["first_broken"] == "model"
    assert said.one("model", "broken")["saw"] == "no answer in 1 s"
    assert "Xid" in said.one("model", "broken")["do"]
    assert said.of("engine", "ok")
    assert said.of("engine API", "ok")


def test_whoever_interrupts_a_wait_gets_the_conclusion_all_the_same(site: Site) -> None:
    program = [sys.executable, "-m", "gateway", "doctor"]
    before = len(site.engine.requests)
    site.engine.state.paused = True
    try:
        with subprocess.Popen(
            program, env=settings_of(site), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "in development mode" in line:
                    break
            wait(
                lambda: any("chat" in seen.target for seen in site.engine.requests[before:]), "the question that hangs"
            )
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    finally:
        site.engine.state.paused = False
    assert out.splitlines()[-1] == "Interrupted: nothing was broken so far, and not everything was looked at."
    assert (process.returncode, err) == (1, "")


def test_ops_06_an_engine_that_sleeps_is_told_from_one_that_hangs(site: Site, ask: Ask) -> None:
    site.engine.state.sleep_level = 1
    try:
        said = ask()
    finally:
        site.engine.state.sleep_level = None
    assert said.one("model", "broken")["saw"] == "the engine sleeps, so a request would hang"
    assert "/wake_up" in said.one("model", "broken")["do"]


def test_thinking_14_a_template_without_the_switch_is_found_and_the_gateway_passes_the_thought(
    site: Site, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", site.issuer.token())
    site.engine.state.heeds_switch, site.engine.state.reasoning_parser = False, True
    try:
        said = ask("--token-env", "A_TOKEN", "--plane", "corpus")
        passed = site.chat().json["choices"][0]["message"]
    finally:
        site.engine.state.heeds_switch, site.engine.state.reasoning_parser = True, False
    warned = said.one("model", "warning")
    assert "thinks although nobody asked it to" in warned["saw"]
    assert "does nothing to the prompt (14 prompt tokens, 14 with it on)" in warned["saw"]
    assert "thinking_switch" in warned["do"]
    assert "thought although nobody asked it to" in said.one("gateway", "warning")["saw"]
    assert (said.status, said.broken) == (0, [])
    assert passed["reasoning"]


def test_thinking_08_an_answer_that_is_all_thought_although_the_switch_is_heeded_is_the_parsers(
    site: Site, ask: Ask
) -> None:
    site.engine.state.blind_parser = True
    try:
        said = ask()
    finally:
        site.engine.state.blind_parser = False
    warned = said.one("model", "warning")
    assert "the whole answer as thought although enable_thinking is off in the prompt" in warned["saw"]
    assert "--reasoning-parser" in warned["do"]


def test_a_switch_that_changes_nothing_in_the_prompt_is_told(site: Site, ask: Ask) -> None:
    site.engine.state.heeds_switch = False
    try:
        said = ask()
    finally:
        site.engine.state.heeds_switch = True
    assert "changes nothing in the prompt" in said.one("model", "warning")["saw"]


def test_a_ledger_that_is_down_is_told_and_one_that_is_not_needed_is_none(ask: Ask) -> None:
    said = ask(LEDGER=f"valkey://{HOST}:{free_port()}/0")
    assert (said.status, said.broken) == (1, ["ledger"])
    assert said.one("ledger", "broken")["saw"] == "ConnectionError"
    assert "GATEWAY_LEDGER" in said.one("ledger", "broken")["do"]


def test_a_gateway_that_is_down_is_told_and_nothing_is_asked_through_it(ask: Ask, site: Site) -> None:
    said = ask(
        "--public-url",
        "http://127.0.0.1:9",
        LISTENERS__PUBLIC=f"{HOST}:{free_port()}",
        LISTENERS__INSIDE=f"{HOST}:{free_port()}",
        LISTENERS__OPS=f"{HOST}:{free_port()}",
    )
    assert (said.status, said.broken) == (1, ["gateway"])
    assert [one["saw"] for one in said.of("gateway", "broken")] == ["connection refused"] * 3
    assert said.of("tunnel", "not tried")[0]["saw"] == "behind the broken gateway"


def test_an_engine_in_the_gateways_place_is_told(ask: Ask, site: Site) -> None:
    said = ask(LISTENERS__PUBLIC=site.engine.url.removeprefix("http://"))
    broken = said.one("gateway", "broken")
    assert broken["saw"] == "401, and not from the gateway: something else listens there"
    assert "GATEWAY_LISTENERS__PUBLIC" in broken["do"]


def test_a_gateway_without_ops_listener_is_looked_at_from_outside_alone(ask: Ask) -> None:
    said = ask(LISTENERS__OPS=None)
    assert "GATEWAY_LISTENERS__OPS" in said.one("gateway", "not tried")["do"]
    assert said.status == 0


def test_one_real_request_goes_through_the_gateway_and_its_token_is_never_shown(
    site: Site, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = site.issuer.token()
    monkeypatch.setenv("A_TOKEN", token)
    said = ask("--token-env", "A_TOKEN", "--plane", "corpus")
    through = [one for one in said.of("gateway", "ok") if "given credential" in one["subject"]]
    assert [one["subject"].rpartition(": ")[2] for one in through] == [
        "GET /v1/models",
        "POST /v1/chat/completions (m)",
    ]
    identifier = through[1]["saw"].rpartition("request ")[2].rstrip(")")
    assert site.records(identifier)[0]["client"] == "partner"
    assert token not in said.out


def test_a_token_that_is_refused_and_a_client_at_its_limits_are_told_apart(
    site: Site, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", site.issuer.token(exp=1))
    said = ask("--token-env", "A_TOKEN", "--plane", "corpus")
    assert said.one("gateway", "broken")["saw"].startswith("401 credential-invalid (request ")
    assert "audit record" in said.one("gateway", "broken")["do"]


def test_a_plane_may_be_asked_at_another_address(site: Site, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", KEYS["KEY-INSIDE"])
    at = f"http://{site.inside[0]}:{site.inside[1]}"
    said = ask(
        "--gateway", at, "--token-env", "A_TOKEN", "--plane", "lenient", LISTENERS__INSIDE=f"{HOST}:{free_port()}"
    )
    assert said.broken == []
    assert said.of("gateway", "ok")[0]["subject"] == f"lenient at {at}"
    assert said.of("gateway", "ok")[-1]["subject"].endswith("POST /v1/chat/completions (gpt-4.1)")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--token-env", "NOT_SET"],
        ["--gateway", "http://10.0.0.1:80", "--plane", "corpus"],
        ["--gateway", "https://llm.example.com/v1", "--plane", "corpus"],
        ["--gateway", "https://llm.example.com"],
        ["--public-url", "llm.example.com"],
        ["--public-url", "https://llm.example.com", "--plane", "nowhere", "--token-env", "PATH"],
    ],
)
def test_wishes_that_cannot_be_fulfilled_are_one_sentence_and_status_2(
    site: Site, arguments: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings_of(site).items():
        monkeypatch.setenv(name, value)
    assert main(["doctor", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "nan", "601"])
def test_a_wait_is_a_number_of_seconds_within_reason(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--within", seconds])
    assert end.value.code == 2
    assert "a number of seconds up to 600" in capsys.readouterr().err


@pytest.mark.parametrize(
    "page, saw, do",
    [
        (Page(530, b"error code: 1033", RAY), "530 with 1033, a page of the edge, ray 8a1b-FRA: no tunnel", "http2"),
        (Page(502, b"<html>Bad gateway</html>", RAY), "502, a page of the edge", "'service' of its config"),
        (Page(403, b"<html>challenge</html>", RAY), "403, refused by the edge", "SDKs must not get a challenge"),
        (Page(200, b"hello"), "200, neither from the gateway", "who answers for this name?"),
    ],
)
def test_clients_14_whose_page_comes_back_from_outside_is_told(ask: Ask, page: Page, saw: str, do: str) -> None:
    with Origin({"*": page}) as origin:
        said = ask("--public-url", origin.url)
    broken = said.one("tunnel", "broken")
    assert (said.status, said.broken) == (1, ["tunnel"])
    assert broken["saw"].startswith(saw)
    assert do in broken["do"]


def test_clients_14_the_gateways_own_answer_from_outside_is_well(site: Site, ask: Ask) -> None:
    said = ask("--public-url", f"http://{site.host}")
    assert said.one("tunnel", "ok")["saw"].startswith("the gateway answers 401 credential-missing to nobody (request ")


def test_a_login_of_access_before_the_gateway_is_no_fault(ask: Ask) -> None:
    login = {**RAY, "location": "https://team.cloudflareaccess.com/cdn-cgi/access/login/llm.example.com"}
    with Origin({"*": Page(302, b"", login)}) as origin:
        said = ask("--public-url", origin.url)
    assert said.status == 0
    assert "Access answers before the gateway" in said.of("tunnel", "warning")[0]["saw"]


def test_stream_18_calls_that_the_edge_would_give_up_are_warned_of(ask: Ask) -> None:
    with Origin({"*": Page(524, b"", RAY)}) as origin:
        said = ask("--public-url", origin.url, DEADLINES__TOTAL="600s")
        short = ask("--public-url", origin.url, DEADLINES__TOTAL="95s")
    warnings = said.of("tunnel", "warning")
    assert "error 524): chat 600 s" in warnings[0]["saw"]
    assert "GATEWAY_DEADLINES__TOTAL=95s" in warnings[0]["do"]
    assert short.of("tunnel", "warning") == []


def test_ops_18_a_tunnel_that_is_not_connected_is_told_of_http2(ask: Ask) -> None:
    with Origin({"*": Page(530, b"<h1>Error <span>1033</span></h1>", RAY)}) as origin:
        said = ask("--public-url", origin.url)
    assert "'protocol: http2'" in said.one("tunnel", "broken")["do"]


def test_body_02_the_engine_that_fetches_media_is_told_with_its_flags(well: Said) -> None:
    (warned,) = [one for one in well.of("engine API", "warning") if "media" in one["saw"]]
    assert "allowed.example" in warned["saw"]
    assert "--allowed-media-domains allowed.example" in warned["do"]
    assert "VLLM_MEDIA_URL_ALLOW_REDIRECTS=0" in warned["do"]


def test_routing_01_a_model_under_another_name_is_recommended_its_alias(well: Said) -> None:
    (warned,) = [one for one in well.of("engine API", "warning") if "served_as" in one["do"]]
    assert "name 'org/real' as their model" in warned["saw"]
    assert "--served-model-name gpt-4.1" in warned["do"]


def test_routing_07_the_engines_own_state_is_asked_for_with_its_key(site: Site, well: Said) -> None:
    assert well.status == 0
    asked = [seen for seen in site.engine.requests if seen.target == "/v1/models" and seen.status == 200]
    assert asked
    assert all(seen.own_traffic for seen in asked)


def test_limits_05_several_workers_without_a_shared_ledger_are_told(ask: Ask) -> None:
    said = ask(WORKERS="2")
    assert (said.status, said.report["first_broken"]) == (2, "configuration")
    assert "WORKERS" in said.findings[0]["saw"]


def test_the_doors_that_an_engine_opens_to_anybody_are_told(well: Said) -> None:
    doors = [one["do"] for one in well.of("engine API", "warning")]
    assert any("without VLLM_SERVER_DEV_MODE" in do for do in doors)
    assert any("VLLM_ALLOW_RUNTIME_LORA_UPDATING" in do for do in doors)


def test_the_driver_is_asked_where_there_is_one(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, NVIDIA H100, 0, 81000, 81559, 41, 3'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    said = ask()
    assert (said.status, said.broken) == (1, ["GPU"])
    assert "3 ECC errors" in said.one("GPU", "broken")["saw"]
