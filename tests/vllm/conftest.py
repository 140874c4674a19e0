"""A real vLLM, started once, and gateways in front of it: over TCP, over a Unix socket, and one with a wrong key.

For embeddings, rankings and scores a second vLLM serves the same model, and for recordings a third serves a Whisper;
each ends with the file that asks for it.
"""

from __future__ import annotations

import contextlib
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
CACHING = "--enable-prefix-caching"


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Give a folder with a short path, since that of a Unix socket may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="vgw-") as path:
        yield Path(path)


@contextlib.contextmanager
def started(
    folder: Path,
    name: str,
    request: pytest.FixtureRequest,
    *arguments: str,
    command: str = "serve",
    port: int | None = None,
) -> Iterator[RealEngine]:
    """Install vLLM if need be, start one, and stop it whatever happens."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        subprocess.run([real_engine.SCRIPT, "setup"], check=True)
    running = RealEngine(folder, name, *arguments, command=command, port=port)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def engine(folder: Path, request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    """Start the one that generates."""
    with started(folder, "vllm", request, CACHING) as running:
        yield running


@pytest.fixture(scope="module")
def pooling_engine(folder: Path, request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    """Start one that makes vectors of texts, and so ranks and scores them by their likeness."""
    with started(folder, "pooling", request, CACHING, "--runner", "pooling", "--convert", "embed") as running:
        yield running


@pytest.fixture(scope="module")
def hearing_engine(folder: Path, request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    """Start one that hears; with its prefix cache on, vLLM 0.32 would end at the first recording."""
    with started(folder, "hearing", request, command="hear") as running:
        yield running


@pytest.fixture(scope="session")
def tap(engine: RealEngine) -> Iterator[Tap]:
    """Give the engine a TCP port."""
    with Tap(engine) as running:
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


def policy(folder: Path, name: str, issuer: Issuer) -> Path:
    """Fill in a policy of this folder and give the file."""
    text = (Path(__file__).parent / name).read_text()
    text = text.replace("{issuer}", issuer.url).replace("{key}", hashlib.sha256(KEY.encode()).hexdigest())
    filled = folder / name
    filled.write_text(text)
    return filled


@pytest.fixture(scope="session")
def serve(folder: Path, issuer: Issuer) -> Iterator[Callable[[str, str, str], Serving]]:
    """Start gateways by name, engine URL and engine key; each must end with status 0."""
    filled = policy(folder, "policy.yaml", issuer)
    running: list[Serving] = []

    def start(name: str, url: str, engine_key: str) -> Serving:
        serving = Serving(folder / name, filled, engine=url, engine_key=engine_key, jwks_url=issuer.jwks_url)
        running.append(serving)
        return serving

    yield start
    assert [serving.stop() for serving in running] == [0] * len(running)


@pytest.fixture(scope="session")
def over_tcp(serve: Callable[[str, str, str], Serving], tap: Tap) -> Serving:
    """Start a gateway whose engine is a host and a port."""
    return serve("tcp", f"http://127.0.0.1:{tap.port}", real_engine.KEY)


@pytest.fixture(scope="session")
def over_socket(serve: Callable[[str, str, str], Serving], engine: RealEngine) -> Serving:
    """Start a gateway whose engine is a Unix socket."""
    return serve("socket", f"unix:{engine.socket_path}", real_engine.KEY)


@pytest.fixture(scope="module")
def pooling(folder: Path, issuer: Issuer, pooling_engine: RealEngine) -> Iterator[Serving]:
    """Start a gateway in front of the engine that makes vectors."""
    with served(folder, "pooling", issuer, pooling_engine) as running:
        yield running


@pytest.fixture(scope="module")
def hearing(folder: Path, issuer: Issuer, hearing_engine: RealEngine) -> Iterator[Serving]:
    """Start a gateway in front of the engine that hears."""
    with served(folder, "hearing", issuer, hearing_engine) as running:
        yield running


@contextlib.contextmanager
def served(folder: Path, name: str, issuer: Issuer, engine: RealEngine) -> Iterator[Serving]:
    """Start a gateway with the policy of a name; it must end with status 0."""
    url, filled = f"unix:{engine.socket_path}", policy(folder, f"{name}.yaml", issuer)
    running = Serving(folder / f"at-{name}", filled, engine=url, engine_key=real_engine.KEY, jwks_url=issuer.jwks_url)
    yield running
    assert running.stop() == 0


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
