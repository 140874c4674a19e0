"""The doctor in front of a real vLLM: what it says of the engine is what the engine is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.vllm.conftest import KEY

if TYPE_CHECKING:
    from tests.vllm.real_engine import RealEngine
    from tests.vllm.serving import Serving

APIS = {"/v1/chat/completions", "/v1/responses", "/v1/messages"}


def examined(gateway: Serving, *arguments: str, **changes: str) -> tuple[int, list[dict[str, str]]]:
    """Run the doctor with the settings of a running gateway, some of them changed."""
    lines = Path(f"/proc/{gateway.process.pid}/environ").read_text("utf-8").split("\0")
    settings = {name: value for name, _, value in (line.partition("=") for line in lines) if name}
    told = subprocess.run(
        [sys.executable, "-m", "gateway", "doctor", "--json", *arguments],
        env={**os.environ, **settings, "A_KEY": KEY, **changes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stderr == ""
    assert KEY not in told.stdout
    report: dict[str, Any] = json.loads(told.stdout)
    return told.returncode, report["findings"]


def of(findings: list[dict[str, str]], layer: str, verdict: str) -> list[str]:
    return [one["saw"] for one in findings if (one["layer"], one["verdict"]) == (layer, verdict)]


@pytest.fixture(scope="module")
def findings(over_socket: Serving) -> list[dict[str, str]]:
    status, findings = examined(over_socket, "--token-env", "A_KEY")
    assert status == 1
    return findings


def test_the_engine_answers_and_the_model_that_it_lacks_is_the_first_broken_thing(
    findings: list[dict[str, str]],
) -> None:
    assert of(findings, "engine", "ok") == ["answers, and /health says 200"]
    assert of(findings, "engine API", "ok") == ["vLLM 0.32.0 serves local (context 512)"]
    broken = [one for one in findings if one["verdict"] == "broken"]
    assert [one["saw"] for one in broken] == [
        "does not serve 'never-loaded' (model 'ghost' of the policy); it serves local"
    ]
    assert "--served-model-name" in broken[0]["do"]


def test_its_development_mode_is_seen(findings: list[dict[str, str]]) -> None:
    warnings = of(findings, "engine API", "warning")
    assert any(saw.startswith("is in development mode") for saw in warnings)
    assert not any("loads adapters" in saw or "demands no key" in saw for saw in warnings)


def test_the_model_answers_and_its_switch_is_heeded_by_each_api(findings: list[dict[str, str]]) -> None:
    """What it writes is random, so that once in a while it begins with the mark of thought."""
    answered, *tried = [one["saw"] for one in findings if one["layer"] == "model" and one["verdict"] != "not tried"]
    assert answered.startswith("answered in ")
    assert {saw.split()[0] for saw in tried} == APIS
    assert all("(23 prompt tokens, 17 with it on)" in saw for saw in tried)


def test_its_own_numbers_are_read(findings: list[dict[str, str]]) -> None:
    (load,) = of(findings, "GPU", "ok")
    assert load == "0 running, 0 waiting, KV cache 0% full"


def test_a_real_request_goes_through_and_nothing_dangerous_does(
    findings: list[dict[str, str]], engine: RealEngine, over_socket: Serving
) -> None:
    said = of(findings, "gateway", "ok")
    assert "refuses by itself all 12 paths that only an engine would answer" in said
    assert sum(saw.startswith("answered in ") for saw in said) == 2
    mark = engine.mark()
    examined(over_socket)
    assert {path for method, path, _ in engine.served_since(mark) if method == "POST"} == APIS


def test_a_wrong_key_is_told(over_socket: Serving) -> None:
    status, findings = examined(over_socket, GATEWAY_ENGINES__MAIN__API_KEY="another")
    assert (status, of(findings, "engine API", "broken")) == (1, ["refuses the gateway's key (401)"])


def test_what_it_was_started_with_for_media_is_seen(over_socket: Serving, tmp_path: Path) -> None:
    """In development mode vLLM tells its settings; it was started without those that forbid."""
    policy = Path(f"/proc/{over_socket.process.pid}/environ").read_text("utf-8").split("GATEWAY_POLICIES=")[1]
    text = Path(policy.split("\0")[0]).read_text("utf-8")
    opened = tmp_path / "policy.yaml"
    opened.write_text(text.replace("limits:\n", "media: {hosts: [img.example.com]}\n\nlimits:\n", 1))
    _, findings = examined(over_socket, GATEWAY_POLICIES=str(opened))
    (saw,) = [saw for saw in of(findings, "engine API", "warning") if "media" in saw]
    assert saw.endswith("it follows redirects, so an allowed host can lead it anywhere")
