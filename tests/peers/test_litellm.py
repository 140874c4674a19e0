"""LiteLLM's own proxy behind the gateway, and its configuration carried over: both serve the same callers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import openai
import orjson
import pytest
from anyio.from_thread import start_blocking_portal

from gateway.review.litellm import translate
from gateway.review.litellm_file import read
from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.raw_http import NotHttp, ask, request
from tests.e2e.site import HOST, command, wait
from tests.free_port import free_port
from tests.small_house import KEY, POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator

LITELLM = Path(".venv-peers/bin/litellm")
ENGINE_KEY, MASTER_KEY = "engine-key", "sk-master-key-of-this-test"
CONFIG = """\
model_list:
  - model_name: local
    litellm_params:
      model: hosted_vllm/org/real
      api_base: {engine}/v1
      api_key: os.environ/ENGINE_KEY
    model_info: {{max_output_tokens: 256}}
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
"""


@dataclass
class Behind:
    """A recording engine, and LiteLLM in front of it."""

    engine: EngineSimulator
    url: str
    config: Path


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """Run engine and LiteLLM; ``make test-peers`` installs it."""
    assert LITELLM.exists(), "LiteLLM is not installed: make test-peers builds .venv-peers from requirements-peers.lock"
    folder = tmp_path_factory.mktemp("litellm")
    with start_blocking_portal() as portal:
        simulator = EngineSimulator(EngineState(("org/real",)), api_key=ENGINE_KEY)
        with portal.wrap_async_context_manager(simulator) as engine:
            config = folder / "config.yaml"
            config.write_text(CONFIG.format(engine=engine.url), "utf-8")
            port = free_port()
            environment = {
                **{name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "LITELLM_"))},
                "ENGINE_KEY": ENGINE_KEY,
                "LITELLM_MASTER_KEY": MASTER_KEY,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_TELEMETRY": "False",
            }
            options = ["--config", str(config), "--host", HOST, "--port", str(port), "--telemetry", "False"]
            with (
                (folder / "litellm.log").open("wb") as log,
                subprocess.Popen([str(LITELLM), *options], env=environment, stdout=log, stderr=log) as process,
            ):
                try:
                    _wait(port, process, folder / "litellm.log")
                    yield Behind(engine, f"http://{HOST}:{port}", config)
                finally:
                    process.terminate()
                    try:
                        process.wait(10)
                    except subprocess.TimeoutExpired:
                        process.kill()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    asked = request("/v1/models", f"{HOST}:{port}", headers={"Authorization": f"Bearer {MASTER_KEY}"})
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, NotHttp):
            if ask((HOST, port), asked, timeout=5.0).status == 200:
                return
        time.sleep(0.5)
    raise AssertionError(f"LiteLLM does not serve: {log.read_text('utf-8', 'replace')[-2000:]}")


@contextlib.contextmanager
def gateway(folder: Path, policy: str, **settings: str) -> Iterator[tuple[str, int]]:
    """Run a gateway with one engine; give its address once it is ready."""
    public, ops = free_port(), free_port()
    (folder / "policies").mkdir()
    (folder / "policies" / "demo.yaml").write_text(policy, "utf-8")
    environment = {
        "GATEWAY_POLICIES": str(folder / "policies"),
        "GATEWAY_LISTENERS__PUBLIC": f"{HOST}:{public}",
        "GATEWAY_LISTENERS__OPS": f"{HOST}:{ops}",
        "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
        **settings,
    }

    def ready() -> bool:
        with contextlib.suppress(OSError):
            return ask((HOST, ops), request("/readyz", f"{HOST}:{ops}")).status == 200
        return False

    with command(folder / "gateway.log", environment):
        wait(ready, "the gateway", 60)
        yield HOST, public


def serves(address: tuple[str, int]) -> None:
    """Ask as a caller does: a list, a chat, a stream."""
    with openai.OpenAI(base_url=f"http://{address[0]}:{address[1]}/v1", api_key=KEY, max_retries=0) as client:
        assert "local" in {model.id for model in client.models.list()}
        answer = client.chat.completions.create(model="local", messages=[{"role": "user", "content": "hi"}])
        assert answer.choices[0].message.content
        assert answer.usage is not None
        stream = client.chat.completions.create(
            model="local", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        assert "".join(part.choices[0].delta.content or "" for part in stream if part.choices)


def test_litellm_is_an_engine_like_another(behind: Behind, tmp_path: Path) -> None:
    engine = {"GATEWAY_ENGINES__MAIN__URLS": behind.url, "GATEWAY_ENGINES__MAIN__API_KEY": MASTER_KEY}
    before = len(behind.engine.requests)
    with gateway(tmp_path, POLICY, **engine) as address:
        serves(address)
        for path in ("/key/generate", "/model/info", "/health"):
            data = request(path, f"{HOST}:{address[1]}", headers={"Authorization": f"Bearer {KEY}"})
            assert ask(address, data).status == 404
    chats = [seen for seen in behind.engine.requests[before:] if seen.target == "/v1/chat/completions"]
    assert chats, "what the gateway sent has come through LiteLLM"
    assert all(seen.json["model"] == "org/real" for seen in chats)
    assert all(seen.json["chat_template_kwargs"] == {"enable_thinking": False} for seen in chats)
    records = [orjson.loads(line) for line in (tmp_path / "audit.jsonl").read_bytes().splitlines()]
    # An SDK closes behind [DONE], and LiteLLM ends its streams a little later: that caller left.
    assert {record["outcome"] for record in records if record["verdict"] == "permit"} <= {"ok", "client-left"}


def test_its_configuration_carried_over_serves_the_same_callers_without_it(behind: Behind, tmp_path: Path) -> None:
    imported = translate(read(behind.config.read_text("utf-8"), "config.yaml"), {})
    assert [problem.where for problem in imported.lost] == ["general_settings.master_key"]
    alone = "  local:   {engine: main, served_as: local, most_tokens: 256}\n"
    assert alone in POLICY
    policy = POLICY.replace(alone, imported.policy().removeprefix("models:\n")).replace("engine: main", "engine: local")
    lines = [line.split("=", 1) for line in imported.settings().splitlines() if not line.startswith("#")]
    settings = {name: value or ENGINE_KEY for name, value in lines}
    with gateway(tmp_path, policy.replace("served_as: local", "served_as: org/real"), **settings) as address:
        serves(address)
