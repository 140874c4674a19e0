"""A real vLLM, started once, and gateways in front of it: over TCP, over a Unix socket, and one with a wrong key."""

from __future__ import annotations

import hashlib
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from openai import OpenAI

from tests.simulators.issuer import Issuer
from tests.vllm import real_engine
from tests.vllm.real_engine import RealEngine
from tests.vllm.serving import Serving
from tests.vllm.tap import Tap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = "vgw_" + secrets.token_urlsafe(32)


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Give a folder with a short path, since that of a Unix socket may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="vgw-") as path:
        yield Path(path)


@pytest.fixture(scope="session")
def engine(folder: Path, request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    """Install vLLM if need be, start it, and stop it whatever happens."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        subprocess.run([real_engine.SCRIPT, "setup"], check=True)
    running = RealEngine(folder)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def tap(engine: RealEngine) -> Iterator[Tap]:
    """Give the engine a TCP port."""
    with Tap(engine.socket_path) as running:
        yield running


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """Run an OAuth issuer."""
    with Issuer(audience="vllm-gateway/vllm") as running:
        yield running


@pytest.fixture(scope="session")
def access_token(issuer: Issuer) -> str:
    """Give an access token of the policy's client ``app``."""
    return issuer.token(client_id="app-1")


@pytest.fixture(scope="session")
def serve(folder: Path, issuer: Issuer) -> Iterator[Callable[[str, str, str], Serving]]:
    """Start gateways by name, engine URL and engine key; each must end with status 0."""
    text = (Path(__file__).parent / "policy.yaml").read_text()
    text = text.replace("{issuer}", issuer.url).replace("{key}", hashlib.sha256(KEY.encode()).hexdigest())
    policy = folder / "policy.yaml"
    policy.write_text(text)
    started: list[Serving] = []

    def start(name: str, url: str, engine_key: str) -> Serving:
        serving = Serving(folder / name, policy, engine=url, engine_key=engine_key, jwks_url=issuer.jwks_url)
        started.append(serving)
        return serving

    yield start
    assert [serving.stop() for serving in started] == [0] * len(started)


@pytest.fixture(scope="session")
def over_tcp(serve: Callable[[str, str, str], Serving], tap: Tap) -> Serving:
    """Start a gateway whose engine is a host and a port."""
    return serve("tcp", f"http://127.0.0.1:{tap.port}", real_engine.KEY)


@pytest.fixture(scope="session")
def over_socket(serve: Callable[[str, str, str], Serving], engine: RealEngine) -> Serving:
    """Start a gateway whose engine is a Unix socket."""
    return serve("socket", f"unix:{engine.socket_path}", real_engine.KEY)


@pytest.fixture(params=["tcp", "socket"])
def gateway(request: pytest.FixtureRequest) -> Serving:
    """Give each of the two in turn."""
    serving: Serving = request.getfixturevalue(f"over_{request.param}")
    return serving


@pytest.fixture
def sdk(gateway: Serving) -> Iterator[OpenAI]:
    """Give OpenAI's own client, with a key, as a partner has it."""
    with OpenAI(base_url=gateway.url, api_key=KEY, max_retries=0, timeout=30) as client:
        yield client
