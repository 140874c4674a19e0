"""The shipped partner policy on loopback, as a partner's own client meets it, and beside it a policy for raw texts.

Enters: what is played, and for which engine. Leaves: ``Partners``, with the URL, a key of the client ``batch`` and
tokens of ``acme``. The policy is the committed file; only its issuer and one hash are those of this run. ``engine`` is
vLLM's imitation, which records what reached it; ``played`` says what a script tells it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
from anyio.from_thread import start_blocking_portal

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.raw_http import ask, request
from tests.e2e.site import DEADLINES, ENGINE_KEY, HOST, command, policy_text, wait
from tests.free_port import free_port
from tests.house.tree import text
from tests.simulators.issuer import Issuer
from tests.simulators.raw_engine import RawEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gateway.simulator.record import Recorded
    from tests.e2e.raw_http import Answer
    from tests.simulators.raw_engine import Step

KEY = "vgw_a-key-of-the-batch"
_ISSUER = "https://login.example.com/realms/partners"
_HASH = "c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2"
_ACME = "6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90"


@dataclass(frozen=True, slots=True, repr=False)
class Partners:
    """A gateway with the shipped policy and that of ``texts.yaml``, and both its engines."""

    address: tuple[str, int]
    texts: tuple[str, int]
    engine: EngineSimulator
    played: RawEngine
    issuer: Issuer
    folder: Path

    @property
    def url(self) -> str:
        """The gateway's URL, without ``/v1``: Anthropic's SDK adds it, OpenAI's does not."""
        return f"http://{HOST}:{self.address[1]}"

    def token(self, *, groups: tuple[str, ...] = (), scope: str = "llm.embed") -> str:
        """Give an access token of ``acme``."""
        return self.issuer.token(azp=_ACME, groups=list(groups), scope=scope)

    def post(self, target: str, body: object, *, texts: bool = False, **fields: str) -> Answer:
        """Ask by hand, with the given header fields."""
        headers = {"Content-Type": "application/json", **{name.replace("_", "-"): one for name, one in fields.items()}}
        address = self.texts if texts else self.address
        host = f"{HOST}:{address[1]}"
        return ask(address, request(target, host, method="POST", headers=headers, body=orjson.dumps(body)))

    def reached(self) -> list[Recorded]:
        """Give the requests that reached the engine and that a caller caused."""
        return [seen for seen in self.engine.requests if not seen.own_traffic]

    def last(self) -> Any:  # noqa: ANN401  (a JSON value)
        """Give the body that reached the engine last."""
        return self.reached()[-1].json

    def record(self, request_id: str | None) -> dict[str, Any]:
        """Give the audit record of a request; waits a little for it."""
        found: list[dict[str, Any]] = []

        def written() -> bool:
            lines = (self.folder / "audit.jsonl").read_bytes().splitlines(keepends=True)
            records = (orjson.loads(line) for line in lines if line.endswith(b"\n"))
            found[:] = [record for record in records if record["id"] == request_id]
            return bool(found)

        wait(written, "an audit record")
        (record,) = found
        return record


@contextlib.contextmanager
def shipped(folder: Path, scripts: Mapping[str, tuple[Step, ...]], plays: str = "REASONER") -> Iterator[Partners]:
    """Run everything within this block; the engine of the name ``plays`` is the one that plays scripts."""
    with contextlib.ExitStack() as stack:
        begin = stack.enter_context
        portal = begin(start_blocking_portal())
        state = EngineState(("local", "deepseek", "bge-m3"), max_model_len=65536)
        engine = begin(portal.wrap_async_context_manager(EngineSimulator(state, api_key=ENGINE_KEY)))
        played = begin(portal.wrap_async_context_manager(RawEngine(scripts)))
        issuer = begin(Issuer())
        public, texts, ops = free_port(), free_port(), free_port()
        policies = folder / "policies"
        policies.mkdir()
        policy = text("policies/partner.yaml").replace(_ISSUER, issuer.url)
        policy = policy.replace(_HASH, sha256(KEY.encode()).hexdigest())
        (policies / "partner.yaml").write_text(policy, "utf-8")
        (policies / "texts.yaml").write_text(policy_text("texts.yaml"), "utf-8")
        urls = dict.fromkeys(("MAIN", "EMBEDDER", "REASONER", "RAW"), engine.url) | {plays: played.url}
        environment = {
            "GATEWAY_POLICIES": str(policies),
            "GATEWAY_LISTENERS__PUBLIC": f"{HOST}:{public}",
            "GATEWAY_LISTENERS__TEXTS": f"{HOST}:{texts}",
            "GATEWAY_LISTENERS__OPS": f"{HOST}:{ops}",
            **{f"GATEWAY_ENGINES__{name}__URLS": url for name, url in urls.items()},
            **{f"GATEWAY_ENGINES__{name}__API_KEY": ENGINE_KEY for name in urls},
            **{f"GATEWAY_ISSUERS__{name}__JWKS_URL": issuer.jwks_url for name in ("CORP", "TUNNEL")},
            "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
            **{f"GATEWAY_DEADLINES__{name}": value for name, value in DEADLINES.items()},
        }
        process = begin(command(folder / "gateway.log", environment))
        ready = request("/readyz", f"{HOST}:{ops}")

        def up() -> bool:
            assert process.poll() is None, f"the gateway ended: {(folder / 'gateway.log').read_text('utf-8')}"
            with contextlib.suppress(OSError):
                return ask((HOST, ops), ready).status == 200
            return False

        wait(up, "the gateway", 20.0)
        yield Partners((HOST, public), (HOST, texts), engine, played, issuer, folder)
