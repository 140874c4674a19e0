"""Doubles for the doctor: ways out that answer from a table, and surroundings in which everything is well."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from gateway.identity.key_set import KeySet
from gateway.inquiry import Failure, Reply
from gateway.policy.model import Deadlines
from gateway.reasons import Reason, Unavailable
from gateway.review.gateway_findings import FORBIDDEN
from gateway.review.surroundings import EngineAt, IssuerAt, ListenerAt, ReplicaAt, Surroundings
from tests.policy.planes import plane
from tests.simulators.signing import default_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.inquiry import Ask
    from gateway.review.diagnosis import Finding

NOW = 1_800_000_000.0
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"  # NOW
REFUSED = Reply(failure=Failure.REFUSED)
SILENT = Reply(failure=Failure.SILENT, seconds=30)
KEYLESS = Reply(404, {}, b'{"detail":"Not Found"}')


def reply(value: object, status: int = 200, **fields: str) -> Reply:
    """Give an answer in JSON."""
    return Reply(status, {name.replace("_", "-"): text for name, text in fields.items()}, orjson.dumps(value))


def ours(status: int, reason: str) -> Reply:
    """Give an answer that the gateway made."""
    line = f'vllm-gateway; error=http_request_denied; details="{reason}"'
    return reply({"error": {"code": reason}}, status, proxy_status=line, x_request_id="0" * 32)


class Answers:
    """An ``Ask``: answers by method and target, ``*`` for all others; ``asked`` has what was asked."""

    def __init__(self, answers: Mapping[str, Reply]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, bytes, float]] = []

    async def __call__(self, method: str, target: str, *, within_s: float, body: bytes = b"") -> Reply:
        """Answer."""
        self.asked.append((f"{method} {target}", body, within_s))
        found = self.answers.get(f"{method} {target}", self.answers.get("*"))
        assert found is not None, f"{method} {target}"
        return found

    @property
    def targets(self) -> list[str]:
        """What was asked, without bodies."""
        return [what for what, _, _ in self.asked]


METRICS = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="local"} 2.0
vllm:num_requests_waiting{engine="0",model_name="local"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="local"} 0.25
vllm:engine_sleep_state{engine="0",sleep_state="awake"} 1.0
"""


def chat(content: str | None = "Hi", tokens: int = 20, **message: object) -> Reply:
    """Give an answer to a chat."""
    choice = {"message": {"role": "assistant", "content": content, **message}}
    return reply({"choices": [choice], "usage": {"prompt_tokens": tokens, "completion_tokens": 3}})


class Model(Answers):
    """An engine that serves models: a chat's prompt is longer where its switch is off."""

    def __init__(self, *names: str, **answers: Reply) -> None:
        served = [{"id": name, "max_model_len": 8192} for name in names]
        super().__init__(
            {
                "GET /health": Reply(200),
                "GET /version": reply({"version": "0.32.0"}),
                "GET /v1/models": reply({"data": served}),
                "GET /metrics": Reply(200, {}, METRICS),
                "POST /v1/embeddings": reply({"data": []}),
                "*": KEYLESS,
                **answers,
            }
        )

    async def __call__(self, method: str, target: str, *, within_s: float, body: bytes = b"") -> Reply:
        """Answer a chat by its switch, all else from the table."""
        if target == "/v1/chat/completions" and f"{method} {target}" not in self.answers:
            self.asked.append((f"{method} {target}", body, within_s))
            return chat(tokens=14 if b'"enable_thinking":true' in body or b'"thinking":true' in body else 20)
        return await super().__call__(method, target, within_s=within_s, body=body)


class Keys:
    """An ``Issuer`` that has keys, or a reason why not."""

    def __init__(self, *, failure: str = "", answer: bytes = b'{"active": false}', date: str = DATE) -> None:
        self.failure = failure
        self.answer = answer
        self.date = date

    async def key_set(self) -> KeySet:
        """Give the keys."""
        self._check()
        keys = [default_keys("a")[name].public for name in ("K1", "E1")]
        return KeySet.parse(orjson.dumps({"keys": keys}))

    async def introspect(self) -> bytes:
        """Answer about a token."""
        self._check()
        return self.answer

    async def look(self) -> Reply:
        """Give an answer with a date."""
        return Reply(200, {"date": self.date})

    def _check(self) -> None:
        if self.failure:
            raise Unavailable(Reason.KEYS_UNAVAILABLE, self.failure)


def gateway(**answers: Reply) -> Answers:
    """Give a gateway that refuses everything to nobody."""
    refused = {f"{method} {target}": ours(404, "no-such-endpoint") for method, target in FORBIDDEN}
    return Answers({**refused, "GET /v1/models": ours(401, "credential-missing"), **answers})


def engine(*replicas: Ask, has_key: bool = True, loopback: bool = True, elsewhere: Any = None) -> EngineAt:  # noqa: ANN401  (a mapping of ports)
    """Give an engine; who shows no key sees the same but the list of models."""
    found = [
        ReplicaAt(f"http://127.0.0.1:{8000 + number}", loopback, one, _keyless(one), elsewhere or {})
        for number, one in enumerate(replicas)
    ]
    return EngineAt("GATEWAY_ENGINES__MAIN", has_key, found)


class _Keyless(Answers):
    def __init__(self, keyed: Ask) -> None:
        super().__init__(getattr(keyed, "answers", {}))
        self._keyed = keyed

    async def __call__(self, method: str, target: str, *, within_s: float, body: bytes = b"") -> Reply:
        if target == "/v1/models" and self.answers:
            return Reply(401, {}, b'{"error":"Unauthorized"}')
        return await self._keyed(method, target, within_s=within_s, body=body)


def _keyless(keyed: Ask) -> Ask:
    return _Keyless(keyed)


async def no_gpus() -> tuple[bool, str] | None:
    """Have no driver."""
    return None


def surroundings(**changes: Any) -> Surroundings:  # noqa: ANN401  (whichever fields a test is about)
    """Give surroundings with one plane, its engines and its gateway, in which everything is well."""
    local = plane()
    models = {"local": local.models["local"], "embed": replace(local.models["embed"], served_as="embed")}
    served = replace(local, models=models)
    known: dict[str, Any] = {
        "planes": [served],
        "closed": [],
        "engines": {"main": engine(Model("local")), "embedder": engine(Model("embed"))},
        "issuers": {},
        "listeners": {served.listener: ListenerAt("127.0.0.1:8080", "GATEWAY_LISTENERS__PUBLIC", gateway())},
        "deadlines": Deadlines(100, 60, 600),
        "keep_alive_s": 15.0,
        "now": lambda: NOW,
        "gpus": no_gpus,
    }
    return Surroundings(**{**known, **changes})


def issuer(keys: Keys) -> IssuerAt:
    """Give the issuer of a caller named corp."""
    return IssuerAt("GATEWAY_ISSUERS__CORP", keys)


class Told:
    """Collects findings."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def __call__(self, finding: Finding) -> None:
        """Take one."""
        self.findings.append(finding)

    @property
    def lines(self) -> list[str]:
        """Each in short: verdict, layer, subject and what was seen."""
        return [f"{one.verdict} {one.layer}: {one.subject}: {one.saw}" for one in self.findings]

    @property
    def short(self) -> list[str]:
        """Verdicts and layers alone."""
        return [f"{one.verdict} {one.layer}" for one in self.findings]
