"""The whole thing again, for the question who is calling: one gateway, and for each fault of an issuer one that has it.

Enters: nothing. Leaves: ``Callers``: sites of one process, one for each plane, and the issuers behind their callers by
name. Proxies and a netrc of the environment lead to a canary, which must never be asked.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from anyio.from_thread import start_blocking_portal

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.raw_http import ask, request
from tests.e2e.site import ENGINE_KEY, HOST, REAL_MODEL, Site, command, wait
from tests.free_port import free_port
from tests.simulators.issuer import Issuer
from tests.simulators.raw_engine import RawEngine
from tests.simulators.signing import SigningKey, part, rsa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Any

TEAM, TAG, EDGE_TAG = "example", "4a" * 32, "5b" * 32
SERVICE = "e367826f93b8d71185e03fe518aff3b4.access"
PERSON = "7335d417-61da-459d-899c-0a01c76a2f94"
KEY, NEAR_KEY = "ak_live_calling", "ak_live_near"
EDGE, SCOPED, ASKED = "vllm-gateway/edge", "vllm-gateway/scoped", "vllm-gateway/asked"
SHARED_SECRET = b"a secret that stands in the key set"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library warns, which is all that it does
    WEAK = SigningKey("weak", "RS256", rsa("weak", 1024))
RESOURCE = "https://llm.example.com/v1"

QUICK = {"JWKS_MAX_AGE": "2s", "JWKS_COOL_DOWN": "1s"}
# Issuers with settings of their own; all others have the defaults.
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "stale": {**QUICK, "JWKS_MAX_STALE": "5s"},
    "removed": QUICK,
    "rotated": QUICK,
    "wiped": QUICK,
    "late": {"JWKS_COOL_DOWN": "3s"},
    "drip": {"TIMEOUT": "1s"},
    "endless": {"TIMEOUT": "1s"},
    "recovering": {"TIMEOUT": "1s"},
}
# What each is like from the start: a fault, or nothing.
ISSUERS: Mapping[str, str | None] = {
    "corp": None,
    "flooded": None,
    "down": "down",
    "recovering": "down",
    "stale": None,
    "removed": None,
    "rotated": None,
    "wiped": None,
    "redirect": "redirect",
    "huge": "huge",
    "endless": "endless",
    "bomb": "bomb",
    "drip": "drip",
    "mixed": None,
    "unfit": None,
    "twins": None,
    "weak": None,
    "private": None,
    "late": None,
    "bound": None,
}


@dataclass(slots=True)
class Callers:
    """One process with four planes. ``other`` is a second issuer with the kids of the first."""

    public: Site
    edge: Site
    scoped: Site
    proofs: Site
    issuers: Mapping[str, Issuer]
    other: Issuer
    canary: Issuer
    revoked: Path

    def token(self, name: str, key: str = "K1", **changes: Any) -> str:  # noqa: ANN401  (any JSON value)
        """Sign a good token of an issuer."""
        return self.issuers[name].token(key, **changes)

    def status(self, token: str | None) -> int:
        """Ask for the models with a token."""
        return self.public.ask(self.public.request("/v1/models", token=token)).status


@contextlib.contextmanager
def calling(folder: Path) -> Iterator[Callers]:
    """Run everything within this block."""
    with contextlib.ExitStack() as stack:
        begin = stack.enter_context
        portal = begin(start_blocking_portal())
        engine = begin(
            portal.wrap_async_context_manager(EngineSimulator(EngineState((REAL_MODEL,)), api_key=ENGINE_KEY))
        )
        raw = begin(portal.wrap_async_context_manager(RawEngine()))
        issuers = {name: begin(Issuer()) for name in ISSUERS}
        issuers["bound"].audience = "vllm-gateway/bound"
        for name, keys in _key_sets(issuers["corp"].keys).items():
            issuers[name].raw_keys = json.dumps({"keys": keys}).encode()
        other, canary = begin(Issuer(name="b")), begin(Issuer())
        for name, fault in ISSUERS.items():
            issuers[name].fault, issuers[name].redirect_to = fault, f"{canary.origin}/keys"
        (folder / "netrc").write_text("machine 127.0.0.1 login a password b\n", "utf-8")
        revoked = folder / "revoked"
        revoked.write_text("# nobody yet\n", "utf-8")
        ports = {name: free_port() for name in ("PUBLIC", "EDGE", "SCOPED", "PROOFS", "OPS")}
        policies = folder / "policies"
        policies.mkdir()
        for name, text in _policies({**issuers, "other": other}).items():
            (policies / f"{name}.yaml").write_text(text, "utf-8")
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), canary.origin)
        environment = {
            **proxies,
            "NO_PROXY": "",
            "no_proxy": "",
            "NETRC": str(folder / "netrc"),
            "GATEWAY_POLICIES": str(policies),
            **{f"GATEWAY_LISTENERS__{name}": f"{HOST}:{port}" for name, port in ports.items()},
            "GATEWAY_ENGINES__MAIN__URLS": engine.url,
            "GATEWAY_ENGINES__MAIN__API_KEY": ENGINE_KEY,
            "GATEWAY_REVOKED_FILE": str(revoked),
            "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
            "GATEWAY_LOG_LEVEL": "debug",
            "GATEWAY_ISSUERS__TUNNEL__JWKS_URL": issuers["corp"].jwks_url,
            "GATEWAY_ISSUERS__EDGE__JWKS_URL": issuers["corp"].jwks_url,
            "GATEWAY_ISSUERS__ASKED__CLIENT_ID": "gateway",
            "GATEWAY_ISSUERS__ASKED__CLIENT_SECRET": "secret-of-the-gateway",
            "GATEWAY_ISSUERS__ASKED__CACHE": "2s",
            "GATEWAY_ISSUERS__ASKED__TIMEOUT": "1s",
            **{
                f"GATEWAY_ISSUERS__{name.upper()}__{field}": value
                for name, fields in SETTINGS.items()
                for field, value in fields.items()
            },
        }
        process = begin(command(folder / "gateway.log", environment))
        address = {name: (HOST, port) for name, port in ports.items()}
        site = Site(address["PUBLIC"], address["EDGE"], address["OPS"], engine, raw, issuers["corp"], folder, process)
        _wait_for_life(site)
        views = {
            name: replace(site, address=address[name.upper()], _records={}) for name in ("edge", "scoped", "proofs")
        }
        yield Callers(site, views["edge"], views["scoped"], views["proofs"], issuers, other, canary, revoked)


def _key_sets(keys: Mapping[str, SigningKey]) -> Mapping[str, list[dict[str, Any]]]:
    """Give the key sets of issuers that publish something odd; each has a good key too."""
    good, ec = keys["K1"].public, keys["E1"].public
    octets = {"kty": "oct", "kid": "oct1", "k": part(SHARED_SECRET)}
    return {
        "mixed": [{"kty": "RSA", "kid": "bad", "use": "sig", "e": "AQAB"}, good],
        "unfit": [octets, {**good, "kid": "enc1", "use": "enc"}, good],
        "twins": [good, {**ec, "kid": "k1"}],
        "weak": [WEAK.public, {**good, "kid": "one", "e": "AQ"}, good],
        "private": [{**good, "d": "cHJpdmF0ZQ"}, ec],
    }


def _wait_for_life(site: Site) -> None:
    """Wait until the process answers; it is not ready, because some issuers are down."""
    alive = request("/livez", f"{site.ops[0]}:{site.ops[1]}")

    def up() -> bool:
        assert site.process.poll() is None, f"the gateway ended: {site.log()}"
        with contextlib.suppress(OSError):
            return ask(site.ops, alive).status == 200
        return False

    wait(up, "the gateway", 20.0)


def _policies(issuers: Mapping[str, Issuer]) -> dict[str, str]:
    many = [name for name in issuers if name != "bound"]
    trusted = [_token_caller(name, issuers[name].url, issuers[name].audience) for name in many]
    trusted += [
        f"    tunnel: {{cloudflare_access: {{team: {TEAM}, audience: {TAG}, groups_claim: custom.groups}}}}",
        f"    asked: {{introspection: {{issuer: '{issuers['corp'].url}', audience: {ASKED}}}}}",
        "    keys: {api_key: {carriers: [authorization, x-api-key]}}",
    ]
    ids = {name: f"{{{name}: cli-1}}" for name in many}
    ids |= {
        "person": f"{{tunnel: {PERSON}}}",
        "service": f"{{tunnel: {SERVICE}}}",
        "opaque": "{asked: cli-1}",
        "keyed": f"{{keys: [{{sha256: {_sha256(KEY)}}}]}}",
        "team": "{tunnel: {group: research}}",
    }
    at_edge = [_token_caller("corp", issuers["corp"].url, EDGE), "    locks: {api_key: {}}"]
    near = {"corp": "{corp: cli-1}", "near": f"{{locks: [{{sha256: {_sha256(NEAR_KEY)}}}]}}"}
    edge = f"  edge:\n    cloudflare_access: {{team: {TEAM}, audience: {EDGE_TAG}}}\n"
    bound = [_token_caller("bound", issuers["bound"].url, issuers["bound"].audience, sender="dpop")]
    scoped = [_token_caller("corp", issuers["corp"].url, SCOPED)]
    return {
        "public": _policy("public", trusted, ids, more=f"metadata: {{resource: '{RESOURCE}'}}\n"),
        "edge": _policy("edge", at_edge, near, edge=edge, more=_OPERATIONS, near=True),
        "scoped": _policy("scoped", scoped, {"corp": "{corp: cli-1}"}, needs="chat"),
        "proofs": _policy("proofs", bound, {"bound": "{bound: cli-1}"}),
    }


_OPERATIONS = "operations:\n" + "".join(
    f"  {fact}: [told elsewhere]\n"
    for fact in (
        "public_hosts",
        "internal_hosts",
        "subjects",
        "security_groups",
        "access_logs",
        "flow_logs",
        "audit_log_kept",
    )
)


def _token_caller(name: str, issuer: str, audience: str, sender: str = "") -> str:
    return f"""    {name}:
      access_token:
        issuer: {issuer}
        audience: {audience}
        algorithms: [RS256, ES256]
        token_type: at+jwt
        clock_skew: 30s
        client_claim: client_id
        longest_lifetime: 24h
""" + (f"        sender: {sender}\n" if sender else "")


def _policy(
    name: str,
    trusted: Iterable[str],
    ids: Mapping[str, str],
    *,
    edge: str = "",
    more: str = "",
    needs: str = "",
    near: bool = False,
) -> str:
    """Write a policy with chat and models, in which each client may everything."""
    needed = f"    needs: [{needs}]\n" if needs else ""
    where = {"near": "    from: [198.51.100.0/24]\n"} if near else {}
    all_ = "    may: [chat, models]\n    models: [m]\n    limits: wide\n"
    clients = "".join(f"  {client}:\n    is: {is_}\n{where.get(client, '')}{all_}" for client, is_ in ids.items())
    scopes = f", scopes: [{needs}]" if needs else ""
    address = {"near": ", address: 198.51.100.9"} if near else {}
    who = "".join(f"    {client}: {{client: {client}{scopes}{address.get(client, '')}}}\n" for client in ids)
    lists = "".join(f"    - {{name: {c} lists, who: {c}, ask: GET /v1/models, permit: {{models: [m]}}}}\n" for c in ids)
    first = next(iter(ids))
    return f"""policy: 1
plane: {name}
listener: {name}
summary: What the question who is calling needs.
trust:
{edge}  callers:
{chr(10).join(one.rstrip() for one in trusted)}
endpoints:
  chat:
    allow: POST /v1/chat/completions
    dialect: openai-chat
    body_limit: 1MiB
{needed}  models:
    allow: GET /v1/models
    dialect: openai-models
{needed}models:
  m: {{engine: main, served_as: org/real, most_tokens: 64}}
parameters:
  chat: {{accept: [standard], unlisted: refuse}}
limits:
  wide: {{requests_per_minute: 1000000, concurrent_requests: 1000}}
clients:
{clients}{more}cases:
  who:
    nobody: {{}}
{who}  expect:
    - name: chats
      who: {first}
      ask: POST /v1/chat/completions
      body: {{messages: [{{role: user, content: hi}}]}}
      permit: {{}}
    - {{name: no chat, who: nobody, ask: POST /v1/chat/completions, deny: credential-missing}}
    - {{name: no list, who: nobody, ask: GET /v1/models, deny: credential-missing}}
{lists}"""


def _sha256(key: str) -> str:
    return sha256(key.encode()).hexdigest()
