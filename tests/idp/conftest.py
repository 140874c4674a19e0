"""An identity provider that we did not write, and a gateway that trusts it in three ways."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx2
import orjson
import pytest
from anyio.from_thread import start_blocking_portal

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.raw_http import Answer, ask, request
from tests.e2e.site import ENGINE_KEY, HOST, MODELS, REAL_MODEL, command, wait
from tests.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
JWT, OPAQUE, BOUND = (f"https://llm.example.com/{kind}" for kind in ("jwt", "opaque", "bound"))
ELSEWHERE = "https://other.example.com"
POLICY = """policy: 1
plane: {plane}
listener: {plane}
summary: What a real identity provider issues.
trust:
  callers:
{callers}endpoints:
  models: {{allow: GET /v1/models, dialect: openai-models, needs: [chat]}}
models:
  m: {{engine: main, served_as: org/real, most_tokens: 64}}
limits:
  wide: {{requests_per_minute: 1000000, concurrent_requests: 1000}}
clients:
{clients}cases:
  who:
    nobody: {{}}
{who}  expect:
    - {{name: no list, who: nobody, ask: GET /v1/models, deny: credential-missing}}
{expect}"""


@dataclass(frozen=True, slots=True)
class Idp:
    """The provider and the gateway, and how to ask both."""

    issuer: str
    public: tuple[str, int]
    proofs: tuple[str, int]
    process: subprocess.Popen[bytes]

    def post(self, path: str, data: bytes, **fields: str) -> dict[str, Any]:
        """Send something to the provider."""
        kind = "application/json" if path == "/control" else "application/x-www-form-urlencoded"
        with httpx2.Client(trust_env=False, timeout=20) as client:
            answer = client.post(self.issuer + path, content=data, headers={"content-type": kind, **fields})
        assert answer.is_success, answer.text
        told: dict[str, Any] = orjson.loads(answer.content) if answer.content else {}
        return told

    def token(self, resource: str, scope: str = "chat", **fields: str) -> str:
        """Get an access token by client credentials."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        answer = self.post("/token", urlencode(form).encode(), authorization=BASIC, **fields)
        return str(answer["access_token"])

    def control(self, **order: bool) -> list[str]:
        """Change the provider's keys; give the kids that it has now."""
        kids: list[str] = self.post("/control", orjson.dumps(order))["kids"]
        return kids

    def ask(self, credential: str, *, proofs: bool = False, **fields: str) -> Answer:
        """Ask the gateway for its models."""
        address = self.proofs if proofs else self.public
        headers = {"Authorization": credential, **fields}
        return ask(address, request(MODELS, f"{address[0]}:{address[1]}", headers=headers))

    def status(self, token: str) -> int:
        """Ask with a bearer token."""
        return self.ask(f"Bearer {token}").status


BASIC = "Basic YXBwOnNlY3JldC1vZi1hcHA="


@pytest.fixture(scope="session")
def idp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Idp]:
    """Run provider, engine and gateway."""
    folder = tmp_path_factory.mktemp("idp")
    node = shutil.which("node")
    assert node, "these tests need node"
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(
            subprocess.Popen([node, "provider.js"], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        )
        stack.callback(provider.kill)
        issuer = _issuer(provider)
        portal = stack.enter_context(start_blocking_portal())
        state = EngineState((REAL_MODEL,))
        engine = stack.enter_context(portal.wrap_async_context_manager(EngineSimulator(state, api_key=ENGINE_KEY)))
        ports = {name: free_port() for name in ("PUBLIC", "PROOFS", "OPS")}
        policies = folder / "policies"
        policies.mkdir()
        tokens = _tokens("corp", issuer, JWT)
        asked = f"    asked: {{introspection: {{issuer: '{issuer}', audience: '{OPAQUE}'}}}}\n"
        (policies / "public.yaml").write_text(_policy("public", tokens + asked, "corp", "asked"), "utf-8")
        (policies / "proofs.yaml").write_text(
            _policy("proofs", _tokens("bound", issuer, BOUND, "        sender: dpop\n"), "bound"), "utf-8"
        )
        environment = {
            "GATEWAY_POLICIES": str(policies),
            **{f"GATEWAY_LISTENERS__{name}": f"{HOST}:{port}" for name, port in ports.items()},
            "GATEWAY_ENGINES__MAIN__URLS": engine.url,
            "GATEWAY_ENGINES__MAIN__API_KEY": ENGINE_KEY,
            "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
            "GATEWAY_ISSUERS__CORP__JWKS_COOL_DOWN": "1s",
            "GATEWAY_ISSUERS__CORP__JWKS_MAX_AGE": "3s",
            "GATEWAY_ISSUERS__ASKED__CLIENT_ID": "gateway",
            "GATEWAY_ISSUERS__ASKED__CLIENT_SECRET": "secret-of-gateway",
            "GATEWAY_ISSUERS__ASKED__CACHE": "2s",
        }
        process = stack.enter_context(command(folder / "gateway.log", environment))
        ops = (HOST, ports["OPS"])

        def ready() -> bool:
            assert process.poll() is None, (folder / "gateway.log").read_text("utf-8")
            with contextlib.suppress(OSError):
                return ask(ops, request("/readyz", f"{ops[0]}:{ops[1]}")).status == 200
            return False

        wait(ready, "the gateway", 30)
        yield Idp(issuer, (HOST, ports["PUBLIC"]), (HOST, ports["PROOFS"]), provider)


def _issuer(provider: subprocess.Popen[bytes]) -> str:
    """Wait for the line in which the provider says who it is."""
    assert provider.stdout is not None
    for line in provider.stdout:
        if line.startswith(b"issuer "):
            return line.split()[1].decode()
    raise AssertionError("the provider did not begin")


def _tokens(name: str, issuer: str, audience: str, more: str = "") -> str:
    return f"""    {name}:
      access_token:
        issuer: {issuer}
        audience: {audience}
        algorithms: [RS256]
        token_type: at+jwt
        clock_skew: 30s
        client_claim: client_id
        longest_lifetime: 1h
{more}"""


def _policy(plane: str, callers: str, *names: str) -> str:
    rest = "    may: [models]\n    models: [m]\n    limits: wide\n"
    return POLICY.format(
        plane=plane,
        callers=callers,
        clients="".join(f"  {name}:\n    is: {{{name}: app}}\n{rest}" for name in names),
        who="".join(f"    {name}: {{client: {name}, scopes: [chat]}}\n" for name in names),
        expect="".join(
            f"    - {{name: {n} lists, who: {n}, ask: GET /v1/models, permit: {{models: [m]}}}}\n" for n in names
        ),
    )
