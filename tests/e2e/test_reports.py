"""One test for each report of what went wrong in other gateways; ``tests/corpus/reports.json`` tells each story.

Those of the first stage are here, the others in the files of their subject; all are looked for here.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import orjson
import pytest

from gateway.cli import main
from gateway.simulator.routes import ALWAYS, DEV_MODE
from tests.e2e.asking import refused, sent_body
from tests.e2e.playing import last_record
from tests.e2e.raw_http import ask, request
from tests.e2e.site import CHAT, HI, HOST, KEYS, MODELS, policy_text, wait
from tests.simulators.signing import compact, hmac_sha256, signing_input

if TYPE_CHECKING:
    from tests.e2e.site import Site

STAGES = ("gate", "wall", "who", "what", "how-much")
REPORTS = orjson.loads(Path(__file__).parents[1].joinpath("corpus", "reports.json").read_bytes())
OFF: dict[str, Any] = {"enable_thinking": False}


def test_every_report_of_the_stages_has_a_test() -> None:
    wanted = {report["id"].lower().replace("-", "_") for report in REPORTS if report["stage"] in STAGES}
    here = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    named = set(re.findall(r"^def test_([a-z]+_[0-9]+)_", here, re.MULTILINE))
    assert wanted - named == set()


@pytest.mark.parametrize("path", ["/invocations", "/ping"])
@pytest.mark.parametrize("token", [None, ""])
def test_auth_01_the_engines_open_door_is_no_door_here(site: Site, path: str, token: str | None) -> None:
    refused(site, site.request(path, token=token, body=HI))


def test_auth_09_the_algorithm_is_the_keys_own(site: Site) -> None:
    key = site.issuer.keys["K1"]
    claims = site.issuer.claims()
    none = signing_input({"alg": "none", "typ": "at+jwt", "kid": "k1"}, claims)
    hmac = signing_input({"alg": "HS256", "typ": "at+jwt", "kid": "k1"}, claims)
    good = site.issuer.token()
    forged = [compact(none, b""), compact(hmac, hmac_sha256(key.pem, hmac)), good[:-6] + "AAAAAA"]
    for token in forged:
        refused(site, site.request(body=HI, token=token), 401, "credential-invalid")
    assert site.chat(token=good).status == 200


def test_auth_15_every_bad_token_is_401_and_none_a_500(site: Site) -> None:
    issuer = site.issuer
    good = issuer.token()
    tokens = [
        issuer.token(iat=1, exp=2),
        ".".join(good.split(".")[:2]),
        f"{good}.a.b",
        "!!!.???.===",
        "a" * 10_000,
        compact(signing_input({"alg": "RS256", "kid": "k1", "typ": "at+jwt"}, b"not json"), b"x"),
        issuer.token(header={"kid": 7}),
        issuer.token(exp="tomorrow"),
        issuer.token(aud={"a": 1}),
        issuer.token(sub="a\0b"),
    ]
    for token in tokens:
        answer = refused(site, site.request(body=HI, token=token), 401, "credential-invalid")
        assert 'error="invalid_token"' in (answer.value("www-authenticate") or "")
        assert answer.json["error"]["message"] == "The credential is not valid."


def test_path_02_nothing_beside_v1_is_served_without_a_key(site: Site) -> None:
    paths = [path.replace("{", "").replace("}", "") for _, path, _ in (*ALWAYS, *DEV_MODE)]
    assert len(paths) > 70
    for path in sorted({*paths} - {CHAT, MODELS}):
        refused(site, site.request(path))
        refused(site, site.request(path, body={}))
    assert site.engine.state.scheduling


@pytest.mark.parametrize(
    "path", ["/v1/modelsX", "/v1/models/", "/v1/models/../x", "/xv1/models", "/v1/model", "/V1/models"]
)
def test_path_04_an_entry_is_a_whole_path(site: Site, path: str) -> None:
    refused(site, site.request(path))
    assert site.ask(site.request(MODELS)).status == 200


def test_body_10_a_stray_field_is_named(site: Site) -> None:
    answer = refused(site, site.request(body={**HI, "batch_size": 32}), 400, "parameter-not-accepted")
    assert answer.json["error"]["param"] == "batch_size"
    before = len(site.reached())
    dropped = site.chat_inside(batch_size=32)
    assert dropped.status == 200
    assert dropped.value("x-gateway-changes") == "drop batch_size"
    assert "batch_size" not in site.reached()[before].json
    assert "drop batch_size" in site.record(dropped)["changes"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kwargs", [OFF, {**OFF, "thinking": False}])
def test_thinking_02_an_off_switch_arrives(site: Site, *, stream: bool, kwargs: dict[str, bool]) -> None:
    body = sent_body(site, stream=stream, chat_template_kwargs=kwargs, temperature=0.5)
    assert body["chat_template_kwargs"] == kwargs
    assert body["messages"] == HI["messages"]
    assert body["temperature"] == 0.5


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"chat_template_kwargs": None},
        {"chat_template_kwargs": {}},
        {"chat_template_kwargs": {"enable_thinking": None}},
        {"chat_template_kwargs": {"enable_thinking": None}, "reasoning_effort": "none"},
        {"reasoning_effort": None},
    ],
)
def test_thinking_04_saying_nothing_is_sent_as_off(site: Site, fields: dict[str, Any]) -> None:
    body = sent_body(site, **fields)
    assert body["chat_template_kwargs"] == OFF
    assert b"null" not in orjson.dumps(body)
    answer = site.chat(**fields)
    assert answer.json["usage"]["prompt_tokens"] == 20


def test_stream_02_a_caller_who_leaves_ends_an_answer_without_a_stream(site: Site) -> None:
    before = len(site.reached())
    site.engine.state.latency_s = 30
    try:
        with site.connect() as connection:
            connection.send(site.request(body=HI))
            wait(lambda: len(site.reached()) > before, "the request")
            time.sleep(0.5)
        wait(lambda: site.reached()[before].left, "the end of the engine's work", 2.0)
        wait(lambda: last_record(site)["outcome"] == "client-left", "the record", 2.0)
    finally:
        site.engine.state.latency_s = 0
    assert not site.engine.state.running
    assert site.chat().status == 200


def test_stream_04_nothing_runs_on_when_the_caller_of_a_stream_is_gone(site: Site) -> None:
    site.engine.state.latency_s = 0.1
    try:
        with site.connect() as connection:
            connection.send(site.request(body={**HI, "stream": True, "max_tokens": 64}))
            assert connection.head().status == 200
            next(connection.chunks())
        wait(lambda: not site.engine.state.running, "the end of the engine's work", 3.0)
    finally:
        site.engine.state.latency_s = 0


def test_routing_03_a_permission_is_for_the_alias_that_was_asked_for(site: Site) -> None:
    assert site.chat(model="m").status == 200
    for name in ("org/real", "M", " m", "m ", "raw", "m\n", "gpt-4.1", "m/../m"):
        refused(site, site.request(body={**HI, "model": name}), 404, "model-not-permitted")


@pytest.mark.parametrize("alias", ["gpt-4.*", "(a+)+$", "gpt-?"])
def test_routing_05_a_model_is_a_name_and_no_pattern(
    site: Site, alias: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(policy_text("lenient.yaml").replace("models: [gpt-4.1]", f"models: ['{alias}']"), "utf-8")
    assert main(["check", str(file)]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{file}:")
    assert "clients.inside.models" in said
    assert site.chat_inside(model="gpt-4.1").status == 200
    for name in ("gpt-4x1", "gpt-4.1\nX", "gpt-4.1\n"):
        assert site.chat_inside(model=name).status == 404


def test_errors_11_a_refusal_is_not_tried_again_by_an_sdk(site: Site) -> None:
    """The SDK repeats 408, 409, 429 and every 5xx; none of these is a refusal here."""
    url = f"http://{site.host}/v1"
    with openai.OpenAI(base_url=url, api_key=KEYS["KEY-ABC"], max_retries=3) as client:
        for fields, error in (
            ({"extra_body": {"priority": 1}}, openai.BadRequestError),
            ({"model": "elsewhere"}, openai.NotFoundError),
            ({"reasoning_effort": "high"}, openai.PermissionDeniedError),
        ):
            before = site.audit().count(b"\n")
            with pytest.raises(error):
                client.chat.completions.create(**{**HI, **fields})
            time.sleep(0.1)
            assert site.audit().count(b"\n") == before + 1
    with openai.OpenAI(base_url=url, api_key="wrong", max_retries=3) as client:
        before = site.audit().count(b"\n")
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
        time.sleep(0.1)
        assert site.audit().count(b"\n") == before + 1


@pytest.mark.parametrize("method, path", [("GET", "/api/tags"), ("POST", "/api/pull"), ("GET", "/api/version")])
def test_clients_08_what_ollama_would_answer_is_404_in_json(site: Site, method: str, path: str) -> None:
    answer = refused(site, site.request(path, method, body={} if method == "POST" else None))
    assert answer.value("content-type") == "application/json"
    assert site.record(answer)["endpoint"] is None
    assert path not in site.metrics()


@pytest.mark.parametrize(
    "old, new, near",
    [
        ("    requests_per_minute: 1000000", "    requests_per_minut: 1", "requests_per_minute"),
        ("    may: [chat]", "    mayy: [chat]", "may"),
        ("most_tokens: 64", "most_token: 64", "most_tokens"),
    ],
)
def test_config_03_a_misspelt_key_is_refused_and_the_nearest_named(
    old: str, new: str, near: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = policy_text("lenient.yaml")
    assert old in text
    file = tmp_path / "policy.yaml"
    file.write_text(text.replace(old, new, 1), "utf-8")
    assert main(["check", str(file)]) == 1
    assert f"`{near}`" in capsys.readouterr().out


def test_config_03_a_misspelt_setting_is_refused_and_the_nearest_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GATEWAY_DEADLINE__IDLE", "5s")
    assert main(["serve"]) == 2
    assert "GATEWAY_DEADLINES__IDLE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "old, new, key",
    [
        ("    may: [chat]", "    may: []", "clients.inside.may"),
        ("    models: [gpt-4.1]", "    models: []", "clients.inside.models"),
        ("most_tokens: 64", "most_tokens: 0", "models.gpt-4.1.most_tokens"),
        ("concurrent_requests: 1000", "concurrent_requests: 0", "limits.wide.concurrent_requests"),
        ("    limits: wide", "    limits: wide\n    suspended: false", "clients.inside.suspended"),
        ("plane: lenient", "plane: lenient\npublic: false", "public"),
    ],
)
def test_config_05_false_zero_and_empty_are_never_taken_for_absent(
    old: str, new: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = policy_text("lenient.yaml")
    assert old in text
    file = tmp_path / "policy.yaml"
    file.write_text(text.replace(old, new, 1), "utf-8")
    assert main(["check", str(file)]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{file}:")
    assert f" {key}:" in said


def test_config_05_an_empty_setting_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GATEWAY_LISTENERS__PUBLIC", f"{HOST}:8080")
    monkeypatch.setenv("GATEWAY_POLICIES", "")
    assert main(["serve"]) == 2
    assert "GATEWAY_POLICIES is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, line",
    [
        ("policy: 1\npolicy: 1\n", 2),
        ("policy: 1\nmodels:\n  a: {engine: x}\n  a: {engine: y}\n", 4),
        ("policy: 1\n\tplane: x\n", 2),
        ("", 1),
        ("- policy: 1\n", 1),
    ],
)
def test_config_09_errors_of_yaml_have_a_place(
    text: str, line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text, "utf-8")
    assert main(["check", str(file)]) == 1
    assert capsys.readouterr().out.startswith(f"{file}:{line}:")


def test_the_ops_listener_is_no_way_in(site: Site) -> None:
    """It is here because the reports forget it: what is no plane reaches no engine."""
    before = len(site.reached())
    host = f"{site.ops[0]}:{site.ops[1]}"
    headers = {"Authorization": f"Bearer {site.issuer.token()}", "Content-Type": "application/json"}
    answer = ask(site.ops, request(CHAT, host, method="POST", headers=headers, body=orjson.dumps(HI)))
    assert answer.status == 404
    assert len(site.reached()) == before
