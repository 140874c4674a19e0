"""Microseconds of the project's own functions, without a server: ``python bench/micro.py`` (half a minute)."""

from __future__ import annotations

import base64
import itertools
import statistics
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH.parent))

import keys  # noqa: E402  (the project is found from here, installed or not)
import orjson  # noqa: E402

from gateway.adapters.ledger_memory import MemoryLedger  # noqa: E402
from gateway.audit import AuditRecord, Outcome, Verdict  # noqa: E402
from gateway.dialects.call import Usage  # noqa: E402
from gateway.dialects.media import payloads  # noqa: E402
from gateway.dialects.meter import Meter  # noqa: E402
from gateway.dialects.registry import DIALECTS  # noqa: E402
from gateway.identity import access_token  # noqa: E402
from gateway.identity.credential import CredentialReader  # noqa: E402
from gateway.identity.key_set import KeySet  # noqa: E402
from gateway.identity.token_cache import TokenCache  # noqa: E402
from gateway.limits.charge import prompt_tokens  # noqa: E402
from gateway.limits.fields import LimitFields  # noqa: E402
from gateway.limits.ledger import Holder, Lease  # noqa: E402
from gateway.limits.limit import Limit  # noqa: E402
from gateway.policy.cache_salt import CacheSalts  # noqa: E402
from gateway.policy.compile import compile_plane  # noqa: E402
from gateway.policy.court import Court  # noqa: E402
from gateway.policy.decide import admit, endpoint_for, judge  # noqa: E402
from gateway.policy.decision import Grant, Permit  # noqa: E402
from gateway.policy.model import Endpoint  # noqa: E402
from gateway.reasons import Malformed  # noqa: E402
from gateway.wire import strict_json  # noqa: E402
from gateway.wire.event_stream import EventBuffer  # noqa: E402
from gateway.wire.field_lines import FieldLines  # noqa: E402
from gateway.wire.headers import RequestHeaders  # noqa: E402
from gateway.wire.hosts import HostRule  # noqa: E402
from gateway.wire.http1 import ResponseReader  # noqa: E402
from gateway.wire.target import Target  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.policy.model import Plane

T = TypeVar("T")
EVENT = (
    b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":"T0000000000000000000"},"logprobs":null,"finish_reason":null}]}\n\n'
)
ENGINE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
SAMPLE_S = 0.05


def microseconds(call: Callable[[], object]) -> float:
    """Give the median over seven samples."""
    call()
    begun = time.perf_counter()
    call()
    times = max(3, min(100_000, int(SAMPLE_S / max(time.perf_counter() - begun, 1e-8))))
    samples = []
    for _ in range(7):
        begun = time.perf_counter()
        for _ in range(times):
            call()
        samples.append((time.perf_counter() - begun) / times * 1e6)
    return statistics.median(samples)


def show(name: str, call: Callable[[], object]) -> None:
    print(f"{name:44} {microseconds(call):9.2f}", flush=True)


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except Malformed:
        return
    raise AssertionError("was accepted")


def sure(found: object, kind: type[T]) -> T:
    if not isinstance(found, kind):
        raise TypeError(f"the policy of the benchmark refuses the benchmark: {found!r}")
    return found


def chat(text: int) -> bytes:
    """Make a chat body with so many characters of prompt."""
    sentence = 'Paths, methods and fields: "each" is looked at.\nNothing else passes. Größe zählt. '
    messages = [
        {"role": "user", "content": (sentence * 40)[: min(3000, text - start)]} for start in range(0, text, 3000)
    ]
    return orjson.dumps({"model": "local", "messages": messages, "max_tokens": 64, "temperature": 0.7, "stream": True})


def image(size: int) -> bytes:
    """Make a chat body with an image of about so many bytes."""
    url = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(size * 3 // 4)).decode()
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    return orjson.dumps({"model": "local", "messages": [{"role": "user", "content": parts}], "stream": True})


def gatehouse(plane: Plane) -> Grant:
    """Measure what happens before the body is read; give what it leads to."""
    folder, now = keys.make(), time.time()
    token = (folder / "rs256.jwt").read_text()
    fields = [
        (b"host", b"127.0.0.1:8201"),
        (b"user-agent", b"OpenAI/Python 3.57.0"),
        (b"accept", b"application/json"),
        (b"authorization", b"Bearer " + token.encode()),
        (b"content-type", b"application/json"),
        (b"content-length", b"1000"),
        (b"x-stainless-lang", b"python"),
        (b"x-stainless-retry-count", b"0"),
    ]
    hosts = HostRule.of_tcp(8201, (), loopback=True)
    target = Target.parse(b"/v1/chat/completions")
    lines, known = FieldLines.of(fields), {sha256(fields[3][1]).digest()}
    headers = RequestHeaders.read(lines, http_version="1.1", hosts=hosts)
    credentials = CredentialReader(plane.callers, {})
    show("target", lambda: Target.parse(b"/v1/chat/completions"))
    show("endpoint", lambda: endpoint_for(plane, "POST", target))
    show("header fields (8)", lambda: RequestHeaders.read(lines, http_version="1.1", hosts=hosts))
    show(
        "the same, token seen before", lambda: RequestHeaders.read(lines, http_version="1.1", hosts=hosts, known=known)
    )
    show("credential, which kind", lambda: credentials.read(headers))

    trust = plane.callers["corp"]
    issuers = {trust.issuer: trust}
    key_sets = {"corp": KeySet.parse((folder / "jwks.json").read_bytes())}
    principal = access_token.verify(token, issuers, key_sets, now)
    cache = TokenCache()
    cache.put(token, principal)
    head, payload, signature = token.split(".")
    forged, empty = f"{head}.{payload}.{'A' * len(signature)}", f"{head}.e30.{signature}"
    show("token, seen before", lambda: cache.get(token, now))  # by its SHA-256, which is worked out anew each time
    show("token, not seen before, RS256", lambda: access_token.verify(token, issuers, key_sets, now))
    show("token, forged", lambda: refused(lambda: access_token.verify(forged, issuers, key_sets, now)))
    show("token, without claims", lambda: refused(lambda: access_token.read(empty, issuers, now)))

    endpoint = sure(endpoint_for(plane, "POST", target), Endpoint)
    show("client", lambda: admit(plane, endpoint, principal, "127.0.0.1", "2026-11-30"))
    return sure(admit(plane, endpoint, principal, "127.0.0.1", "2026-11-30"), Grant)


def court(plane: Plane, grant: Grant) -> None:
    """Measure what happens to the body."""
    dialect = DIALECTS["openai-chat"]
    salt = CacheSalts(bytes(32)).salt(plane.name, grant.client.name, "2026-11-30")
    forgetful, remembering = Court(plane, most=0), Court(plane)

    def ruled(court: Court, body: bytes) -> tuple[object, ...]:
        return sure(court.rule(grant, dialect.read(body), salt), tuple)

    for name, body in (("1 KB", chat(850)), ("100 KB", chat(97_000)), ("image of 2 MB", image(2_000_000))):
        call = dialect.read(body)
        sure(judge(plane, grant, call), Permit)
        show(f"body, {name}: strict JSON", lambda body=body: strict_json.loads(body))
        show(f"body, {name}: orjson for comparison", lambda body=body: orjson.loads(body))
        show(f"body, {name}: judge", lambda call=call: judge(plane, grant, call))
        show(f"body, {name}: read, judge, write", lambda body=body: ruled(forgetful, body))
        show(f"body, {name}: the same, parameters known", lambda body=body: ruled(remembering, body))


def dispatch(plane: Plane) -> None:
    """Measure what happens to an answer, and what is written about it."""
    dialect, response, events = DIALECTS["openai-chat"], ResponseReader(), EventBuffer()
    response.feed(ENGINE_HEAD)
    framed = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)

    def through() -> bytes:
        response.feed(framed)
        return events.feed(response.take())

    counted = EVENT[:-3] + b',"usage":{"prompt_tokens":42,"total_tokens":106,"completion_tokens":64}}\n\n'
    show("event of 190 bytes: framing and boundary", through)
    show("event of 190 bytes: search for a count", lambda: dialect.usage(EVENT))
    show("event with a count: the same", lambda: dialect.usage(counted))
    meter = Meter(dialect, hides=True)
    show("event of 190 bytes: search and count of tokens", lambda: meter.events(EVENT))

    record = AuditRecord(0.0, "0" * 32, "bench", "public", plane.digest, "127.0.0.1", "POST", b"/v1/chat/completions")
    record.endpoint, record.client, record.subject, record.credential = "chat", "load", keys.CLIENT, "access-token"
    record.model, record.engine, record.verdict, record.outcome = "local", "main", Verdict.PERMIT, Outcome.OK
    record.status = record.engine_status = 200
    record.changes, record.usage = ("set model", "set chat_template_kwargs.enable_thinking"), Usage(42, 64)
    record.head_ms, record.judge_ms, record.first_byte_ms, record.total_ms = 0.0311, 0.0192, 12.3, 1234.5
    show("audit record as a line", record.to_json)


def limits() -> None:
    """Measure what admission and settlement cost in memory, with a minute that is full of requests."""
    clock = itertools.count(0, 1_000_000)  # a thousand requests a second
    ledger = MemoryLedger(lambda: next(clock), lambda: 1_800_000_000_000_000_000)
    plain = Limit("plain", 1_000_000, 1000)
    counted = Limit("counted", 1_000_000, 1000, 10**12, 10**12)
    holder = Holder("public", "acme", "person")

    def passes(limit: Limit, *, tokens: bool) -> Lease:
        lease = sure(ledger.enter(holder, limit), Lease)
        if tokens:
            ledger.reserve(lease, 1000)
        ledger.settle(lease, 100)
        return lease

    for _ in range(60_000):
        passes(counted, tokens=True)
    fields = LimitFields(counted)
    lease = passes(counted, tokens=True)
    show("limits: admission and settlement", lambda: passes(plain, tokens=False))
    show("limits: the same with tokens", lambda: passes(counted, tokens=True))
    show("limits: header fields of an answer", lambda: fields.of_lease(lease))
    body = chat(850)
    show("limits: estimate of a prompt", lambda: prompt_tokens(len(body), payloads(body, {})[0]))


def main() -> None:
    print("microseconds of one core, median of seven samples")
    plane = compile_plane((BENCH / "conf" / "gateway.yaml").read_text(), "gateway.yaml")
    court(plane, gatehouse(plane))
    dispatch(plane)
    limits()


if __name__ == "__main__":
    main()
