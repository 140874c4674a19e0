from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from gateway.addresses import LedgerAddress, Tcp, Unix
from gateway.settings import Settings, SettingsError, load_settings, portion, resolved
from gateway.wire.hosts import HostRule

LEAST = {"GATEWAY_LISTENERS__PUBLIC": "127.0.0.1:8080"}


def _problems(**environ: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as refused:
        load_settings(_environ(**environ))
    return refused.value.problems


def _environ(**environ: str) -> dict[str, str]:
    return {**LEAST, **{f"GATEWAY_{name}": value for name, value in environ.items()}}


def test_the_least_that_must_be_set_is_a_listener() -> None:
    settings = load_settings(LEAST)
    assert settings.listeners == {"public": Tcp("127.0.0.1", 8080)}
    assert settings.policies == (Path("policies"),)
    assert settings.audit_log == "stdout"
    assert settings.ledger is None
    assert settings.log_level == "info"
    assert settings.workers == 1
    assert settings.ops_token is None
    assert settings.cache_salt_secret is None


def test_the_deadlines_are_those_of_the_contract() -> None:
    assert load_settings(LEAST).deadlines.model_dump() == {
        "head": 15.0,
        "body": 30.0,
        "connect": 5.0,
        "first_byte": 100.0,
        "idle": 60.0,
        "total": 600.0,
        "drain": 30.0,
        "notice": 0.0,
    }


def test_everything_can_be_set() -> None:
    settings = load_settings(
        _environ(
            POLICIES="a.yaml,b/",
            LISTENERS__CONTROL="unix:/run/control.sock",
            LISTENERS__OPS="[::1]:9090",
            HOSTS__PUBLIC='["llm.example.com"]',
            ENGINES__MY_ENGINE__URLS='["http://127.0.0.1:8000", "https://engine.internal"]',
            ENGINES__MY_ENGINE__API_KEY="sk-engine",
            ENGINES__MY_ENGINE__POOL="4",
            ENGINES__MY_ENGINE__KEEP_ALIVE="0s",
            ISSUERS__PARTNER_IDP__JWKS_URL="https://issuer.example/jwks",
            ISSUERS__PARTNER_IDP__JWKS_MAX_AGE="1m",
            ISSUERS__EDGE__TIMEOUT="500ms",
            DEADLINES__IDLE="5m",
            LEDGER="memory://",
            AUDIT_LOG="/var/log/audit.jsonl",
            MAX_CONNECTIONS="100",
            WORKERS="1",
            OPS_TOKEN="token",
            LOG_LEVEL="debug",
        )
    )
    assert settings.policies == (Path("a.yaml"), Path("b"))
    assert settings.listeners["control"] == Unix("/run/control.sock")
    assert settings.hosts == {"public": ("llm.example.com",)}
    engine = settings.engines["my-engine"]
    assert [str(url) for url in engine.urls] == ["http://127.0.0.1:8000", "https://engine.internal:443"]
    assert engine.api_key is not None
    assert engine.api_key.get_secret_value() == "sk-engine"
    assert (engine.pool, engine.keep_alive, engine.plain_http) == (4, 0.0, False)
    issuer = settings.issuers["partner-idp"]
    assert (issuer.jwks_url, issuer.jwks_max_age) == ("https://issuer.example/jwks", 60.0)
    assert (issuer.jwks_max_stale, issuer.jwks_cool_down, issuer.timeout) == (86_400.0, 60.0, 5.0)
    assert settings.issuers["edge"].timeout == 0.5
    assert settings.deadlines.idle == 300.0
    assert settings.ops_token is not None
    assert "sk-engine" not in repr(settings)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        load_settings(LEAST).workers = 2


@pytest.mark.parametrize(
    "name,value,sentence",
    [
        ("DEADLINES__IDLE", "abc", "GATEWAY_DEADLINES__IDLE must be a duration such as 500ms, 15s, 5m or 24h."),
        ("DEADLINES__IDLE", "0s", "GATEWAY_DEADLINES__IDLE must be longer than 0."),
        ("WORKERS", "1e3", "GATEWAY_WORKERS must be a whole number from 1 up, in digits."),
        ("ENGINES__MAIN__POOL", "4", "GATEWAY_ENGINES__MAIN__URLS is missing."),
        ("DEADLINE__IDLE", "5s", "GATEWAY_DEADLINE__IDLE is not a setting. Did you mean GATEWAY_DEADLINES__IDLE?"),
        ("AUDIT_LOG", "", "GATEWAY_AUDIT_LOG is empty, and empty never means a default: give it a value or remove it."),
        (
            "LISTENERS__B",
            "127.0.0.1:8080",
            "GATEWAY_LISTENERS__PUBLIC has the same address as GATEWAY_LISTENERS__B.",
        ),
        ("HOSTS__NOBODY", "a.example", "GATEWAY_HOSTS__NOBODY has no listener: set GATEWAY_LISTENERS__NOBODY."),
    ],
)
def test_an_error_names_the_variable_and_the_form(name: str, value: str, sentence: str) -> None:
    assert _problems(**{name: value}) == (sentence,)


def test_an_engine_has_as_many_replicas_as_urls() -> None:
    urls = "http://127.0.0.1:8000,unix:/run/vllm/b.sock,https://gpu.internal"
    ca = {"ENGINES__MAIN__CA_FILE": "/etc/ca.pem", "ENGINES__MAIN__AFFINITY_SLACK": "0"}
    engine = load_settings(_environ(ENGINES__MAIN__URLS=urls, **ca)).engines["main"]
    assert [str(url) for url in engine.urls] == [
        "http://127.0.0.1:8000",
        "unix:/run/vllm/b.sock",
        "https://gpu.internal:443",
    ]
    assert (engine.ca_file, engine.affinity_slack) == (Path("/etc/ca.pem"), 0)


def test_authorities_without_https_have_no_use() -> None:
    (problem,) = _problems(ENGINES__MAIN__URLS="http://127.0.0.1:8000", ENGINES__MAIN__CA_FILE="/etc/ca.pem")
    assert problem == "GATEWAY_ENGINES__MAIN__CA_FILE has no use: none of the engine's URLs is https."


def test_a_slack_is_a_whole_number() -> None:
    (problem,) = _problems(ENGINES__MAIN__URLS="http://127.0.0.1:8000", ENGINES__MAIN__AFFINITY_SLACK="-1")
    assert problem == "GATEWAY_ENGINES__MAIN__AFFINITY_SLACK must be a whole number from 0 up, in digits."


def test_a_ledger_that_gateways_share_has_its_password_beside_its_url() -> None:
    settings = load_settings(_environ(LEDGER="valkeys://gateway@cache.internal/2", LEDGER_PASSWORD="a-password"))
    assert settings.ledger == LedgerAddress(Tcp("cache.internal", 6379), tls=True, database=2, name="gateway")
    assert settings.ledger_password is not None
    assert settings.ledger_password.get_secret_value() == "a-password"
    assert "a-password" not in repr(settings)
    (problem,) = _problems(LEDGER="valkey://:a-password@127.0.0.1")
    assert problem.startswith("GATEWAY_LEDGER must hold no password: that is GATEWAY_LEDGER_PASSWORD")
    for address in ({}, {"LEDGER": "valkey://127.0.0.1:6379"}, {"LEDGER": "unix:/run/valkey.sock"}):
        (problem,) = _problems(LEDGER_CA_FILE="/ca.pem", **address)
        assert problem.startswith("GATEWAY_LEDGER_CA_FILE has no use")
    (problem,) = _problems(LEDGER_PASSWORD="a-password")
    assert problem.startswith("GATEWAY_LEDGER_PASSWORD has no server: set GATEWAY_LEDGER")


def test_more_than_one_worker_needs_a_ledger_that_they_share() -> None:
    for ledger in ({}, {"LEDGER": "memory://"}):
        (problem,) = _problems(WORKERS="2", **ledger)
        assert problem.startswith(
            "GATEWAY_WORKERS must be 1: with a ledger in memory, each process would grant the limits anew. "
            "Set GATEWAY_LEDGER to a server"
        )
    assert load_settings(_environ(WORKERS="2", LEDGER="unix:/run/valkey.sock")).workers == 2


def test_a_bound_that_cannot_be_shared_out_among_the_workers_is_refused() -> None:
    shared = {"LEDGER": "unix:/run/valkey.sock", "WORKERS": "3", "ENGINES__MAIN__URLS": "http://127.0.0.1:8000"}
    problems = _problems(**shared, MAX_CONNECTIONS="2", ENGINES__MAIN__IN_FLIGHT="2")
    assert problems == (
        "GATEWAY_MAX_CONNECTIONS is less than GATEWAY_WORKERS, among which it is shared out.",
        "GATEWAY_ENGINES__MAIN__IN_FLIGHT is less than GATEWAY_WORKERS, among which it is shared out.",
    )


def test_the_shares_of_all_workers_are_the_bound_and_nobody_has_the_ops_listener() -> None:
    settings = load_settings(
        _environ(
            LEDGER="unix:/run/valkey.sock",
            WORKERS="3",
            MAX_CONNECTIONS="10",
            LISTENERS__OPS="127.0.0.1:9090",
            TLS__OPS__CERT="/cert",
            TLS__OPS__KEY="/key",
            ENGINES__MAIN__URLS="http://127.0.0.1:8000",
            ENGINES__MAIN__IN_FLIGHT="8",
            ENGINES__MAIN__WAITING="2",
            ENGINES__FREE__URLS="http://127.0.0.1:8001",
        )
    )
    shares = [portion(settings, number) for number in (1, 2, 3)]
    assert [share.max_connections for share in shares] == [4, 3, 3]
    assert [share.engines["main"].in_flight for share in shares] == [3, 3, 2]
    assert [share.engines["main"].waiting for share in shares] == [1, 1, 0]
    assert {share.engines["free"] for share in shares} == {settings.engines["free"]}
    assert all(list(share.listeners) == ["public"] and not share.tls for share in shares)


def test_settings_can_be_handed_on_with_the_secrets_in_place_of_their_files(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("sk-secret\n")
    environ = _environ(OPS_TOKEN_FILE=str(file))
    given = resolved({**environ, "PATH": "/bin"})
    file.unlink()
    assert "PATH" not in given
    assert load_settings(given).ops_token == SecretStr("sk-secret")


def test_the_secret_of_the_salts_is_long_and_never_shown(tmp_path: Path) -> None:
    settings = load_settings(_environ(CACHE_SALT_SECRET="s" * 32))
    assert settings.cache_salt_secret is not None
    assert settings.cache_salt_secret.get_secret_value() == "s" * 32
    assert "sss" not in repr(settings)
    file = tmp_path / "secret"
    file.write_text("t" * 64 + "\n")
    assert load_settings(_environ(CACHE_SALT_SECRET_FILE=str(file))).cache_salt_secret == SecretStr("t" * 64)
    (problem,) = _problems(CACHE_SALT_SECRET="s" * 31)
    assert problem.startswith("GATEWAY_CACHE_SALT_SECRET must have at least 32 characters, such as")
    assert "sss" not in problem


def test_how_an_issuer_is_asked_about_tokens_can_be_set() -> None:
    settings = load_settings(
        _environ(
            ISSUERS__OPAQUE__CLIENT_ID="gateway",
            ISSUERS__OPAQUE__CLIENT_SECRET="s",
            ISSUERS__OPAQUE__INTROSPECTION_URL="https://login.example/introspect",
            ISSUERS__OPAQUE__CACHE="0s",
            REVOKED_FILE="/revoked",
        )
    )
    assert settings.issuers["opaque"].client_id == "gateway"
    assert settings.revoked_file == Path("/revoked")


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("CLIENT_ID", "GATEWAY_ISSUERS__OPAQUE__CLIENT_SECRET is missing: an id and a secret go together."),
        ("CLIENT_SECRET", "GATEWAY_ISSUERS__OPAQUE__CLIENT_ID is missing: an id and a secret go together."),
    ],
)
def test_half_a_credential_is_none(name: str, sentence: str) -> None:
    assert _problems(**{f"ISSUERS__OPAQUE__{name}": "x"}) == (sentence,)


def test_a_listener_can_speak_tls() -> None:
    files = {"TLS__PUBLIC__CERT": "/cert.pem", "TLS__PUBLIC__KEY": "/key.pem"}
    cert, key, authority = Path("/cert.pem"), Path("/key.pem"), Path("/ca.pem")
    assert load_settings(_environ()).tls_files == {}
    assert load_settings(_environ(**files)).tls_files == {"public": (cert, key, None)}
    with_clients = load_settings(_environ(**files, TLS__PUBLIC__CLIENT_CA="/ca.pem"))
    assert with_clients.tls_files == {"public": (cert, key, authority)}


@pytest.mark.parametrize(
    "given, sentences",
    [
        ({"CERT": "/c"}, ["GATEWAY_TLS__PUBLIC__KEY is missing: a certificate and its key go together."]),
        ({"KEY": "/k"}, ["GATEWAY_TLS__PUBLIC__CERT is missing: a certificate and its key go together."]),
        (
            {"CLIENT_CA": "/a"},
            [
                "GATEWAY_TLS__PUBLIC__CERT is missing: a certificate and its key go together.",
                "GATEWAY_TLS__PUBLIC__KEY is missing: a certificate and its key go together.",
            ],
        ),
    ],
)
def test_half_of_what_tls_needs_is_refused(given: dict[str, str], sentences: list[str]) -> None:
    assert _problems(**{f"TLS__PUBLIC__{name}": value for name, value in given.items()}) == tuple(sentences)


def test_tls_is_for_a_listener_of_the_network() -> None:
    pair = {"CERT": "/c", "KEY": "/k"}
    nobody = _problems(**{f"TLS__NOBODY__{name}": value for name, value in pair.items()})
    assert nobody == ("GATEWAY_TLS__NOBODY has no listener: set GATEWAY_LISTENERS__NOBODY.",)
    control = {f"TLS__CONTROL__{name}": value for name, value in pair.items()}
    assert _problems(LISTENERS__CONTROL="unix:/run/a.sock", **control) == (
        "GATEWAY_TLS__CONTROL is for a Unix socket, which speaks no TLS: remove it.",
    )


def test_an_answer_about_a_token_counts_for_a_minute_at_most() -> None:
    (problem,) = _problems(ISSUERS__OPAQUE__CACHE="61s")
    assert problem.startswith("GATEWAY_ISSUERS__OPAQUE__CACHE is more than 60s")


def test_a_gateway_without_a_plane_does_not_start() -> None:
    for environ in ({}, {"GATEWAY_LISTENERS__OPS": "127.0.0.1:9090"}):
        with pytest.raises(SettingsError, match="No listener"):
            load_settings(environ)


def test_beyond_loopback_the_hosts_must_be_listed_except_for_ops() -> None:
    (problem,) = _problems(LISTENERS__PUBLIC="0.0.0.0:8080", LISTENERS__OPS="0.0.0.0:9090")
    assert problem.startswith("GATEWAY_HOSTS__PUBLIC is missing")
    load_settings(_environ(LISTENERS__PUBLIC="0.0.0.0:8080", HOSTS__PUBLIC="llm.example.com"))


def test_plain_http_beyond_loopback_must_be_asked_for() -> None:
    (problem,) = _problems(ENGINES__MAIN__URLS="http://127.0.0.1:8000,http://10.0.0.1:8000")
    assert "GATEWAY_ENGINES__MAIN__PLAIN_HTTP=true" in problem
    load_settings(_environ(ENGINES__MAIN__URLS="http://10.0.0.1:8000", ENGINES__MAIN__PLAIN_HTTP="true"))


def test_several_problems_are_told_at_once_and_none_repeats_a_value() -> None:
    problems = _problems(DEADLINES__IDLE="sk-a", ENGINES__MAIN__URLS="sk-b", OPS_TOKEN="sk c", LOG_LEVEL="sk-d")
    assert len(problems) == 4
    assert not [problem for problem in problems if "sk" in problem]


def test_each_listener_has_its_rule_for_hosts() -> None:
    settings = load_settings(
        _environ(
            LISTENERS__CONTROL="unix:/run/a.sock",
            LISTENERS__INSIDE="unix:/run/b.sock",
            HOSTS__INSIDE="inside.example",
            LISTENERS__OPS="0.0.0.0:9090",
        )
    )
    assert settings.host_rule("public").check(b"localhost:8080")
    assert settings.host_rule("control") == HostRule.of_unix()
    assert settings.host_rule("ops").check(b"10.0.0.1:9090")
    assert settings.host_rule("inside") == HostRule.of_tcp(80, ["inside.example"], loopback=False)
    assert isinstance(settings, Settings)


def test_a_line_before_an_engine_needs_a_bound_on_the_engine() -> None:
    engine = {"ENGINES__MAIN__URLS": "http://127.0.0.1:8000"}
    bounded = load_settings(_environ(**engine, ENGINES__MAIN__IN_FLIGHT="8", ENGINES__MAIN__WAIT="500ms"))
    assert (bounded.engines["main"].in_flight, bounded.engines["main"].wait) == (8, 0.5)
    assert load_settings(_environ(**engine)).engines["main"].in_flight is None
    for field, value in (("WAITING", "4"), ("WAIT", "1s")):
        (problem,) = _problems(**engine, **{f"ENGINES__MAIN__{field}": value})
        assert problem == (
            f"GATEWAY_ENGINES__MAIN__{field} has no meaning without a bound: set GATEWAY_ENGINES__MAIN__IN_FLIGHT."
        )
