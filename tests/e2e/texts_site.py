"""The shipped partner policy and a policy for raw texts, in one gateway before a recording engine, on real sockets.

Enters: nothing. Leaves: ``TextsSite``. Of the partner policy only the issuer and one key are replaced, so that what
passes here passes what is shipped.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from anyio.from_thread import start_blocking_portal
from openai import OpenAI

from gateway.simulator.engine import EngineSimulator
from gateway.simulator.state import EngineState
from tests.e2e.raw_http import ask, request
from tests.e2e.site import DEADLINES, ENGINE_KEY, HOST, KEYS, command, free_port, policy_text, wait
from tests.simulators.issuer import Issuer
from tests.simulators.raw_engine import End, RawEngine, chunk, head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.raw_http import Answer
    from tests.simulators.raw_engine import Step

RESPONSES = "/v1/responses"
COMPLETIONS = "/v1/completions"
PARTNER = Path(__file__).parents[2] / "policies" / "partner.yaml"
PARTNER_KEY = "vgw_partner"
_SECOND_KEY = "c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2"
_ISSUER = "https://login.example.com/realms/partners"

_CREATED = (
    b'{"response":{"id":"resp_1","status":"in_progress","output":[],"usage":null},"sequence_number":0,'
    b'"type":"response.created"}'
)
_LONG = b"x" * 1_500_000
_DELTA = (
    b'{"content_index":0,"delta":" hi","item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":2,'
    b'"type":"response.output_text.delta"}'
)
_DONE = (
    b'{"response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":7,'
    b'"output_tokens_details":{"reasoning_tokens":2},"total_tokens":12},"user":null},"sequence_number":3,'
    b'"type":"response.completed"}'
)


def framed(style: str) -> tuple[bytes, ...]:
    """Write a response's events with their names, as ``data`` alone, with CRLF, or with comments and more lines."""
    line = b"\r\n" if style == "crlf" else b"\n"
    extra = b": still here" + line + line if style == "comments" else b""
    more = b"id: 1" + line + b"retry: 10" + line if style == "comments" else b""
    events = []
    for kind, data in (
        (b"response.created", _CREATED),
        (b"response.output_text.delta", _DELTA),
        (b"response.completed", _DONE),
    ):
        name = b"" if style == "data" else b"event: " + kind + line
        events.append(extra + name + more + b"data: " + data + line + line)
    return tuple(events)


def _pieces(event: bytes) -> tuple[bytes, ...]:
    return tuple(event[start : start + 20_000] for start in range(0, len(event), 20_000))


STYLES = ("named", "data", "crlf", "comments")
_STREAM = head("content-type: text/event-stream; charset=utf-8", "transfer-encoding: chunked")
SCRIPTS: dict[str, tuple[Step, ...]] = {
    **{style: (_STREAM, *map(chunk, framed(style)), b"0\r\n\r\n") for style in STYLES},
    "cut": (_STREAM, *map(chunk, framed("named")[:2]), End.CLOSE),
    "long": (
        _STREAM,
        chunk(framed("named")[0]),
        *(chunk(piece) for piece in _pieces(framed("named")[2].replace(b'"output":[]', b'"output":"%b"' % _LONG))),
        b"0\r\n\r\n",
    ),
}


@dataclass(slots=True, repr=False)
class TextsSite:
    """A gateway with two planes, and what reached its engine."""

    partner: tuple[str, int]
    texts: tuple[str, int]
    engine: EngineSimulator
    raw: RawEngine
    folder: Path

    def openai(self, *, texts: bool = False) -> OpenAI:
        """Make OpenAI's client, for the partner plane unless said otherwise; it tries nothing again."""
        host, port = self.texts if texts else self.partner
        key = KEYS["KEY-INSIDE"] if texts else PARTNER_KEY
        return OpenAI(base_url=f"http://{host}:{port}/v1", api_key=key, max_retries=0)

    def sent(self) -> dict[str, Any]:
        """Give the body that reached the engine last."""
        last = [seen for seen in self.engine.requests if not seen.own_traffic][-1]
        value = last.json
        assert isinstance(value, dict)
        return value

    def reached(self) -> int:
        """Count what callers sent to the engine."""
        return len([seen for seen in self.engine.requests if not seen.own_traffic])

    def post(self, path: str, body: dict[str, Any], *, texts: bool = False) -> Answer:
        """Post JSON over a connection of its own."""
        address = self.texts if texts else self.partner
        key = KEYS["KEY-INSIDE"] if texts else PARTNER_KEY
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        host = f"{address[0]}:{address[1]}"
        return ask(address, request(path, host, method="POST", headers=headers, body=orjson.dumps(body)))

    def script(self, name: str) -> Answer:
        """Ask the engine that plays scripts for a stream of a response."""
        return self.post(RESPONSES, {"model": "raw", "input": f"script:{name}", "stream": True}, texts=True)

    def record(self, request_id: str | None) -> dict[str, Any]:
        """Give the audit record of a request."""

        def found() -> list[dict[str, Any]]:
            lines = (self.folder / "audit.jsonl").read_bytes().splitlines()
            return [one for one in map(orjson.loads, lines) if one["id"] == request_id]

        wait(found, "an audit record")
        return found()[0]


@contextlib.contextmanager
def running_texts(folder: Path) -> Iterator[TextsSite]:
    """Run everything within this block."""
    with contextlib.ExitStack() as stack:
        begin = stack.enter_context
        portal = begin(start_blocking_portal())
        state = EngineState(("local", "deepseek", "bge-m3"), max_model_len=32768)
        engine = begin(portal.wrap_async_context_manager(EngineSimulator(state, api_key=ENGINE_KEY)))
        raw = begin(portal.wrap_async_context_manager(RawEngine(SCRIPTS)))
        issuer = begin(Issuer())
        partner, texts, ops = (free_port() for _ in range(3))
        policies = folder / "policies"
        policies.mkdir()
        shipped = PARTNER.read_text("utf-8").replace(_ISSUER, issuer.url)
        shipped = shipped.replace(_SECOND_KEY, sha256(PARTNER_KEY.encode()).hexdigest())
        (policies / "partner.yaml").write_text(shipped, encoding="utf-8")
        (policies / "texts.yaml").write_text(policy_text("texts.yaml"), encoding="utf-8")
        environment = {
            "GATEWAY_POLICIES": str(policies),
            "GATEWAY_LISTENERS__PUBLIC": f"{HOST}:{partner}",
            "GATEWAY_LISTENERS__TEXTS": f"{HOST}:{texts}",
            "GATEWAY_LISTENERS__OPS": f"{HOST}:{ops}",
            **{f"GATEWAY_ENGINES__{name}__URLS": engine.url for name in ("MAIN", "REASONER", "EMBEDDER")},
            **{f"GATEWAY_ENGINES__{name}__API_KEY": ENGINE_KEY for name in ("MAIN", "REASONER", "EMBEDDER", "RAW")},
            "GATEWAY_ENGINES__RAW__URLS": raw.url,
            "GATEWAY_ISSUERS__CORP__JWKS_URL": issuer.jwks_url,
            "GATEWAY_ISSUERS__TUNNEL__JWKS_URL": issuer.jwks_url,
            "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
            **{f"GATEWAY_DEADLINES__{name}": value for name, value in DEADLINES.items()},
        }
        process = begin(command(folder / "gateway.log", environment))
        ready = request("/readyz", f"{HOST}:{ops}")

        def up() -> bool:
            assert process.poll() is None, (folder / "gateway.log").read_text("utf-8")
            with contextlib.suppress(OSError):
                return ask((HOST, ops), ready).status == 200
            return False

        wait(up, "the gateway", 20.0)
        yield TextsSite((HOST, partner), (HOST, texts), engine, raw, folder)
