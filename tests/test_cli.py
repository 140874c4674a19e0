from __future__ import annotations

import gzip
import io
import os
import re
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from gateway import __version__
from gateway.adapters.server_certificate import TlsFiles, server_side
from gateway.cli import FOUND, HOLDS, MISUSED, main
from gateway.identity.api_key import sha256_of
from gateway.policy.schema import render
from tests.simulators.certificates import Authority
from tests.simulators.issuer import Issuer
from tests.small_house import POLICY, environment

PARTNER = str(Path(__file__).parent / "policy" / "examples" / "partner.yaml")
ASK = ["acme app", "POST /v1/chat/completions"]
BODY = b'{"model":"local","messages":[]}'

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without any setting."""
    for name in [name for name in os.environ if name.startswith("GATEWAY_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def body(tmp_path: Path) -> str:
    """Write a body into a file."""
    file = tmp_path / "body.json"
    file.write_bytes(BODY)
    return str(file)


def test_the_version_is_told(capsys: Said) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == HOLDS
    assert capsys.readouterr().out == f"vllm-gateway {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["frobnicate"], ["chec"], ["key"], ["key", "new"], ["demo", "--port", "x"], ["demo", "--port", "65536"]],
)
def test_wrong_usage_is_one_sentence_and_status_2(arguments: list[str], capsys: Said) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == MISUSED
    said = capsys.readouterr().err
    assert said.startswith("vllm-gateway")
    assert said.count("\n") == 1


def test_schema_prints_the_schema(capsys: Said) -> None:
    assert main(["schema"]) == HOLDS
    assert capsys.readouterr().out == render()


def test_key_new_shows_a_key_once_and_the_stanza(capsys: Said) -> None:
    assert main(["key", "new", "acme", "--not-after", "2027-01-31", "--json"]) == HOLDS
    made = orjson.loads(capsys.readouterr().out)
    assert made["sha256"] == sha256_of(made["key"])
    assert made["not_after"] == "2027-01-31"
    assert main(["key", "new", "acme"]) == HOLDS
    assert "{sha256: " in capsys.readouterr().out


def test_key_new_refuses_what_is_no_name_and_no_day(capsys: Said) -> None:
    assert main(["key", "new", "Acme Inc."]) == MISUSED
    assert "lower-case letters" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["key", "new", "acme", "--not-after", "tomorrow"])
    assert end.value.code == MISUSED


def test_check_tells_whether_policies_hold(tmp_path: Path, capsys: Said) -> None:
    assert main(["check", PARTNER]) == HOLDS
    assert "cases hold" in capsys.readouterr().out
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("policy: 1\n", "utf-8")
    assert main(["check", str(wrong), "--json"]) == FOUND
    assert orjson.loads(capsys.readouterr().out)["holds"] is False


def test_check_of_a_path_that_leads_nowhere_is_misuse(capsys: Said) -> None:
    assert main(["check", "nowhere.yaml"]) == MISUSED
    assert "nowhere.yaml" in capsys.readouterr().err


def test_check_takes_the_policies_of_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setenv("GATEWAY_POLICIES", PARTNER)
    assert main(["check"]) == HOLDS
    assert PARTNER in capsys.readouterr().out
    monkeypatch.setenv("GATEWAY_POLICIES", "")
    assert main(["check"]) == MISUSED
    assert capsys.readouterr().err.startswith("GATEWAY_POLICIES ")


def test_explain_shows_a_permit_and_a_refusal(body: str, capsys: Said) -> None:
    assert main(["explain", PARTNER, *ASK, body]) == HOLDS
    assert capsys.readouterr().out.startswith("permit\n")
    assert main(["explain", PARTNER, "acme app", "POST /invocations", body, "--json"]) == FOUND
    assert orjson.loads(capsys.readouterr().out)["reason"] == "no-such-endpoint"


def test_explain_finds_a_plane_by_its_name(monkeypatch: pytest.MonkeyPatch, body: str, capsys: Said) -> None:
    monkeypatch.setenv("GATEWAY_POLICIES", PARTNER)
    assert main(["explain", "partner", *ASK, body]) == HOLDS
    assert main(["explain", "partnr", *ASK, body]) == MISUSED
    assert capsys.readouterr().err == "No plane is called 'partnr', and no such file exists; there are: partner.\n"


def test_explain_reads_a_body_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BODY)))
    assert main(["explain", PARTNER, *ASK, "-"]) == HOLDS
    assert '"enable_thinking": false' in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([PARTNER, "nobody we know", "GET /v1/models"], "but not 'nobody we know'."),
        ([PARTNER, *ASK, "nowhere.json"], "nowhere.json cannot be read: No such file or directory."),
        (["nowhere.yaml", *ASK], "policies does not exist."),
    ],
)
def test_explain_says_in_a_sentence_what_it_cannot_find(
    arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", *arguments]) == MISUSED
    assert capsys.readouterr().err.endswith(f"{sentence}\n")


def test_explain_of_a_policy_that_does_not_compile_says_why(tmp_path: Path, capsys: Said) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("policy: 2\n", "utf-8")
    assert main(["explain", str(wrong), *ASK]) == MISUSED
    assert capsys.readouterr().err.startswith(f"{wrong}:1:")


def test_explain_judges_as_of_today(tmp_path: Path, capsys: Said) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    file = tmp_path / "policy.yaml"
    file.write_text(
        Path(PARTNER).read_text("utf-8").replace("not_after: 2027-01-31", f"not_after: {yesterday}"), "utf-8"
    )
    assert main(["explain", str(file), "batch, old key", "GET /v1/models"]) == FOUND
    assert "credential-invalid" in capsys.readouterr().out


def test_serve_says_which_setting_is_missing(capsys: Said) -> None:
    assert main(["serve"]) == MISUSED
    assert "GATEWAY_LISTENERS__PUBLIC" in capsys.readouterr().err


def test_serve_says_which_policy_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said) -> None:
    monkeypatch.setenv("GATEWAY_POLICIES", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GATEWAY_LISTENERS__PUBLIC", "127.0.0.1:8080")
    assert main(["serve"]) == MISUSED
    assert "nowhere does not exist." in capsys.readouterr().err


def test_demo_says_which_port_it_cannot_use(capsys: Said) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["demo", "--port", str(port)]) == MISUSED
    assert capsys.readouterr().err == f"Port {port} cannot be used: Address already in use.\n"


def test_the_command_is_a_module_too_and_its_help_is_quick() -> None:
    """Help imports no room: completion and typing errors do not wait for a server to load."""
    code = "import sys; from gateway import cli; cli.parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert not {name for name in loaded if name.startswith(("uvicorn", "pydantic", "yaml", "gateway."))} - {
        "gateway.cli",
        "gateway.cli_inputs",
    }
    shown = subprocess.run([sys.executable, "-m", "gateway", "--version"], capture_output=True, check=True, text=True)
    assert shown.stdout == f"vllm-gateway {__version__}\n"


def test_whoever_stops_reading_gets_no_traceback() -> None:
    command = f"{sys.executable} -m gateway schema | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True)
    assert (done.stdout, done.stderr) == ("{\n", "")


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Give a text on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_key_check_says_whose_a_key_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said) -> None:
    file = tmp_path / "policy.yaml"
    text = Path(PARTNER).read_text("utf-8")
    held = re.search(r"sha256: ([0-9a-f]{64})", text)
    assert held is not None
    file.write_text(text.replace(held[1], sha256_of("the key"), 1), "utf-8")
    given(monkeypatch, "the key\n")
    assert main(["key", "check", str(file)]) in {HOLDS, FOUND}
    assert "Plane partner: client " in capsys.readouterr().out
    monkeypatch.setenv("GATEWAY_POLICIES", PARTNER)
    given(monkeypatch, "another")
    assert main(["key", "check", "--json"]) == FOUND
    assert orjson.loads(capsys.readouterr().out)["holders"] == []


def test_a_secret_that_is_empty_or_cannot_be_read_is_misuse(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said
) -> None:
    given(monkeypatch, " \n")
    assert main(["key", "check", PARTNER]) == MISUSED
    assert capsys.readouterr().err == "The key is empty.\n"
    none = str(tmp_path / "none")
    assert main(["token", "--issuer", "https://i", "--client-id", "a", "--client-secret-file", none]) == MISUSED
    assert capsys.readouterr().err.startswith("The client secret cannot be read: ")


def test_token_needs_no_secret_of_who_shows_a_certificate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said
) -> None:
    authority = Authority(tmp_path, "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    server, shown = authority.server(), authority.client()
    given(monkeypatch, "")
    with Issuer(tls=server_side(TlsFiles("X", server.cert, server.key, authority.ca))) as issuer:
        where = ["token", "--token-url", f"{issuer.origin}/token", "--client-id", "app"]
        assert main([*where, "--client-certificate", str(shown.cert), str(shown.key)]) == HOLDS
        assert capsys.readouterr().out.count(".") == 2
        assert main([*where, "--client-certificate", str(shown.cert), str(tmp_path / "none")]) == MISUSED


def test_token_prints_a_token_for_the_next_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s\n", "utf-8")
    with Issuer() as issuer:
        arguments = ["token", "--issuer", issuer.url, "--client-id", "app", "--client-secret-file", str(secret)]
        assert main(arguments) == HOLDS
        assert capsys.readouterr().out.count(".") == 2
        assert main([*arguments, "--json", "--post", "--for", PARTNER]) == FOUND
        said = capsys.readouterr()
        assert orjson.loads(said.out)["token_type"] == "Bearer"
        assert said.err == "The plane partner would refuse it: iss is no issuer of this plane.\n"
        issuer.granting = (401, b'{"error": "invalid_client"}')
        given(monkeypatch, "s")
        assert main(["token", "--token-url", f"{issuer.origin}/token", "--client-id", "app"]) == FOUND
        assert capsys.readouterr().err == "The issuer gave no token: invalid_client.\n"
    given(monkeypatch, "s")
    assert main(["token", "--token-url", f"{issuer.origin}/token", "--client-id", "app"]) == MISUSED


def test_import_writes_what_it_can_and_names_what_it_cannot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Said
) -> None:
    file = tmp_path / "config.yaml"
    entry = "{model_name: local, litellm_params: {model: hosted_vllm/m, api_base: $BASE, api_key: os.environ/UP}, "
    text = f"model_list: [{entry}model_info: {{max_output_tokens: 9}}}}]\n"
    monkeypatch.setenv("UP", "sk-real")
    file.write_text(text.replace("$BASE", "'http://127.0.0.1:8000/v1'"), "utf-8")
    assert main(["import", "litellm", str(file)]) == HOLDS
    said = capsys.readouterr()
    assert "GATEWAY_ENGINES__LOCAL__URLS=http://127.0.0.1:8000\n" in said.out
    assert "sk-real" not in said.out + said.err
    file.write_text(text.replace("$BASE", "'http://127.0.0.1:8000/v1', timeout: 5"), "utf-8")
    assert main(["import", "litellm", str(file)]) == FOUND
    assert "litellm_params.timeout: not carried over" in capsys.readouterr().err
    assert main(["import", "litellm", str(file), "--json"]) == FOUND
    assert len(orjson.loads(capsys.readouterr().out)["lost"]) == 1


def test_import_refuses_a_key_in_the_file_and_a_file_that_cannot_be_read(tmp_path: Path, capsys: Said) -> None:
    file = tmp_path / "config.yaml"
    hard_coded = (
        "model_list: [{model_name: a, litellm_params: {model: openai/m, api_base: 'http://[::1]', api_key: sk-1}}]"
    )
    file.write_text(hard_coded, "utf-8")
    assert main(["import", "litellm", str(file)]) == MISUSED
    said = capsys.readouterr()
    assert "the key itself stands in the file" in said.err
    assert (said.out, "sk-1" in said.err) == ("", False)
    file.write_bytes(b"\xff")
    assert main(["import", "litellm", str(file)]) == MISUSED
    assert capsys.readouterr().err == f"{file} cannot be read: it is not UTF-8.\n"
    assert main(["import", "litellm", str(tmp_path / "none")]) == MISUSED
    assert capsys.readouterr().err.endswith("cannot be read: No such file or directory.\n")


RECORD = b'{"time":"2026-12-01T10:00:00Z","plane":"p","client":"acme","model":"m","usage":{"prompt":3,"completion":4}}'


def test_usage_adds_up_the_logs_that_are_named(tmp_path: Path, capsys: Said) -> None:
    plain, packed = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1.gz"
    plain.write_bytes(RECORD + b"\n")
    packed.write_bytes(gzip.compress(RECORD + b"\n" + RECORD))
    assert main(["usage", "--json", str(plain), str(packed)]) == HOLDS
    assert orjson.loads(capsys.readouterr().out)["usage"][0]["completion"] == 12
    assert main(["usage", "--since", "2026-12-02", str(plain)]) == HOLDS
    assert "acme" not in capsys.readouterr().out


def test_usage_reads_the_log_of_the_settings_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    plain = tmp_path / "audit.jsonl"
    plain.write_bytes(RECORD + b"\n{")
    monkeypatch.setenv("GATEWAY_AUDIT_LOG", str(plain))
    assert main(["usage"]) == FOUND
    assert "acme" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RECORD)))
    assert main(["usage", "-"]) == HOLDS
    assert "acme" in capsys.readouterr().out


def test_usage_without_a_log_says_what_to_do(capsys: Said) -> None:
    assert main(["usage"]) == MISUSED
    assert capsys.readouterr().err == "Name an audit log, or set GATEWAY_AUDIT_LOG to its path.\n"
    assert main(["usage", "/nowhere/audit.jsonl"]) == MISUSED
    assert "cannot be read" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["usage", "--since", "yesterday"])


def test_the_doctor_says_why_serve_would_not_start(capsys: Said) -> None:
    assert main(["doctor"]) == MISUSED
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("broken     configuration  No listener is configured")
    assert told[-1].startswith("The first broken layer is: configuration (")


def test_the_doctor_takes_a_token_by_the_name_of_a_variable(capsys: Said) -> None:
    assert main(["doctor", "--token-env", "NOT_SET_ANYWHERE"]) == MISUSED
    assert capsys.readouterr().err == "The environment has no variable NOT_SET_ANYWHERE.\n"


def test_the_doctor_refuses_wishes_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    for name, value in environment(tmp_path, "http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    assert main(["doctor", "--public-url", "nowhere"]) == MISUSED
    assert capsys.readouterr().err.startswith("--public-url must be a URL")
