"""Listeners that speak TLS, and tokens that are bound to a client's certificate, against the real command."""

from __future__ import annotations

import signal
import ssl
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import openai
import orjson
import pytest

from tests.e2e.playing import last_record, play
from tests.e2e.raw_http import Connection, NotHttp
from tests.e2e.site import HI, HOST, KEYS, MODELS, Site, running, wait
from tests.simulators.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.raw_http import Answer
    from tests.simulators.certificates import Pair


@dataclass(slots=True)
class Vault:
    """The site whose listeners speak TLS: the public one asks for client certificates, the one inside does not."""

    site: Site
    folder: Path
    authority: Authority
    ours: Pair
    theirs: Pair

    def tls(self, shown: Pair | None = None) -> ssl.SSLContext:
        """Trust the servers' authority, and show a certificate."""
        tls = ssl.create_default_context(cafile=self.authority.ca)
        if shown is not None:
            tls.load_cert_chain(shown.cert, shown.key)
        return tls

    def connect(self, shown: Pair | None = None) -> Connection:
        """Open a connection to the public listener."""
        return Connection(self.site.address, tls=self.tls(shown))

    def ask(self, data: bytes, shown: Pair | None = None) -> Answer:
        """Send one request on a connection of its own."""
        with self.connect(shown) as connection:
            connection.send(data)
            return connection.answer()

    def chat(self, token: str, shown: Pair | None = None) -> Answer:
        """Ask for a chat."""
        return self.ask(self.site.request(token=token, body=HI), shown)

    def bound(self, to: Pair, **claims: Any) -> str:  # noqa: ANN401  (any JSON value)
        """Sign a token that is bound to a certificate."""
        return self.site.issuer.token(cnf={"x5t#S256": to.thumbprint}, **claims)

    def refused(self, token: str, shown: Pair, detail: str) -> None:
        """Ask for a chat that must be refused without a trace at the engine, and recorded with its cause."""
        before = len(self.site.reached())
        answer = self.chat(token, shown)
        assert (answer.status, answer.code) == (401, "credential-invalid")
        assert 'error="invalid_token"' in (answer.value("www-authenticate") or "")
        assert detail in self.site.record(answer)["detail"]
        assert len(self.site.reached()) == before


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """Run the gateway with certificates."""
    folder = tmp_path_factory.mktemp("vault")
    authority = Authority(folder, "ours")
    server = authority.server()
    inside = authority.server("inside")
    settings = {
        "TLS__PUBLIC__CERT": str(server.cert),
        "TLS__PUBLIC__KEY": str(server.key),
        "TLS__PUBLIC__CLIENT_CA": str(authority.ca),
        "TLS__INSIDE__CERT": str(inside.cert),
        "TLS__INSIDE__KEY": str(inside.key),
    }
    with running(folder, _for_certificates, **settings) as site:
        yield Vault(site, folder, authority, authority.client("ours"), authority.client("theirs"))


def _for_certificates(policy: str) -> str:
    """Take tokens that are bound to a certificate, and no others."""
    lifetime = "        longest_lifetime: 24h\n"
    return policy.replace(lifetime, f"{lifetime}        sender: mtls\n")


# Who may speak


def test_a_bound_token_is_good_on_a_connection_with_its_certificate(vault: Vault) -> None:
    before = len(vault.site.reached())
    answer = vault.chat(vault.bound(vault.ours), vault.ours)
    assert answer.status == 200
    (seen,) = vault.site.reached()[before:]
    assert seen.json["messages"] == HI["messages"]
    record = vault.site.record(answer)
    assert (record["client"], record["verdict"], record["listener"]) == ("partner", "permit", "public")


def test_a_bound_token_is_nobodys_on_any_other_connection(vault: Vault) -> None:
    """Also once it was verified: each request is held against its own connection."""
    token = vault.bound(vault.ours)
    for _ in range(2):
        assert vault.chat(token, vault.ours).status == 200
        vault.refused(token, vault.theirs, "this connection has another")
    with vault.connect(vault.theirs) as connection:
        for asked, status in ((token, 401), (vault.bound(vault.theirs), 200), (token, 401)):
            connection.send(vault.site.request(MODELS, token=asked))
            assert connection.answer().status == status


@pytest.mark.parametrize(
    "cnf",
    [
        {},
        {"jkt": "k"},
        {"x5t#S256": "k", "jkt": "k"},
        {"x5t#S256": "k", "kid": "k"},
        {"x5t": "k"},
        {"x5t#S256": 5},
        "k",
    ],
)
def test_a_token_that_is_bound_to_nothing_or_to_more_is_refused(vault: Vault, cnf: object) -> None:
    vault.refused(vault.site.issuer.token(cnf=cnf), vault.ours, "cnf.x5t#S256")


def test_a_token_without_a_binding_is_refused(vault: Vault) -> None:
    vault.refused(vault.site.issuer.token(), vault.ours, "cnf.x5t#S256")


def test_a_binding_does_not_make_a_bad_token_good(vault: Vault) -> None:
    vault.refused(vault.bound(vault.ours, exp=2, iat=1), vault.ours, "exp")
    vault.refused(vault.bound(vault.ours, aud="another"), vault.ours, "aud")


def test_a_key_of_the_policy_is_as_good_as_before(vault: Vault) -> None:
    assert vault.chat(KEYS["KEY-ABC"], vault.ours).status == 200


@pytest.mark.parametrize("fault", ["none", "expired", "stranger"])
def test_without_a_good_certificate_nothing_is_even_read(vault: Vault, tmp_path: Path, fault: str) -> None:
    shown = {
        "none": None,
        "expired": vault.authority.client("expired", lasts=timedelta(minutes=-1)),
        "stranger": Authority(tmp_path, "strangers").client("stranger"),
    }[fault]
    token = vault.bound(vault.ours)
    before, records = len(vault.site.engine.requests), vault.site.audit().count(b"\n")
    with pytest.raises(ssl.SSLError, match="alert"):
        vault.chat(token, shown)
    assert vault.chat(token, vault.ours).status == 200
    assert len(vault.site.engine.requests) == before + 1
    wait(lambda: vault.site.audit().count(b"\n") == records + 1, "the one record")


# What is spoken


def test_an_sdk_streams_over_tls(vault: Vault) -> None:
    url = f"https://localhost:{vault.site.inside[1]}/v1"
    before = len(vault.site.reached())
    with (
        openai.DefaultHttpxClient(verify=vault.tls()) as http,
        openai.OpenAI(base_url=url, api_key=KEYS["KEY-INSIDE"], max_retries=0, http_client=http) as client,
    ):
        for _ in range(2):
            stream = client.chat.completions.create(
                model="gpt-4.1", messages=[{"role": "user", "content": "hi"}], max_tokens=8, stream=True
            )
            said = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
            assert "".join(said)
    assert [seen.json["stream"] for seen in vault.site.reached()[before:]] == [True, True]


def test_an_sdk_that_does_not_know_the_authority_sends_nothing(vault: Vault) -> None:
    url = f"https://localhost:{vault.site.inside[1]}/v1"
    before = len(vault.site.reached())
    with (
        openai.OpenAI(base_url=url, api_key=KEYS["KEY-INSIDE"], max_retries=0) as client,
        pytest.raises(openai.APIConnectionError),
    ):
        client.models.list()
    assert len(vault.site.reached()) == before


def test_what_is_no_tls_gets_no_answer_and_makes_no_noise(vault: Vault) -> None:
    before = vault.site.log()
    for _ in range(50):
        with Connection(vault.site.address) as connection:
            connection.send(vault.site.request(MODELS))
            with pytest.raises(NotHttp):
                connection.answer()
    said = map(orjson.loads, vault.site.log()[len(before) :].splitlines())
    lines = [line for line in said if line["event"] != "engine is not ready"]  # where the machine is busy
    assert {(line["event"], line["level"]) for line in lines} <= {("TLS handshake failed", "info")}
    assert len(lines) < 10, "they are sampled"
    assert 'gateway_tls_handshakes_failed_total{listener="public"}' in vault.site.metrics()
    assert vault.chat(vault.bound(vault.ours), vault.ours).status == 200


def test_operators_can_see_when_a_certificate_ends(vault: Vault) -> None:
    """Those of tests last an hour."""
    name = 'gateway_tls_certificate_expires_seconds{listener="public"} '
    (line,) = (line for line in vault.site.metrics().splitlines() if line.startswith(name))
    assert 0 < float(line.removeprefix(name)) <= 3600


def test_a_client_that_leaves_over_tls_ends_the_engines_work_at_once(vault: Vault) -> None:
    site = vault.site
    token = vault.bound(vault.ours, client_id="cli-2")
    waits = []
    for _ in range(3):  # the machine may stall once
        with vault.connect(vault.ours) as connection:
            played = play(site, connection, "stalls", token=token)
            assert connection.head().status == 200
        left = time.monotonic()
        wait(played.has_left, "the end of the engine's request", 2.0)
        waits.append(time.monotonic() - left)
        wait(lambda: last_record(site)["outcome"] == "client-left", "the record", 2.0)
    assert min(waits) < 0.1


@pytest.mark.parametrize("script", ["reset-mid-stream", "fin-mid-stream", "fin-mid-event", "stalls"])
def test_a_stream_that_fails_over_tls_never_looks_whole(vault: Vault, script: str) -> None:
    token = vault.bound(vault.ours, client_id="cli-2")
    data: list[bytes] = []
    with vault.connect(vault.ours) as connection:
        connection.send(vault.site.script(script, token=token))
        assert connection.head().status == 200
        with pytest.raises(NotHttp):
            data.extend(part for _, part in connection.chunks())
        assert connection.ended()
    assert b'"content":"a"' in b"".join(data)
    assert b"[DONE]" not in b"".join(data)


def test_a_large_body_that_is_refused_over_tls_gets_its_answer(vault: Vault) -> None:
    body = b" " * (8 * 1024 * 1024)
    with vault.connect(vault.ours) as connection:
        connection.send(vault.site.request(token="wrong", body=body))
        assert connection.answer().status == 401


# Renewal


def test_a_renewed_certificate_is_shown_at_sighup_and_open_connections_go_on(vault: Vault, tmp_path: Path) -> None:
    site, new = vault.site, Authority(tmp_path, "new")
    old, pair = vault.folder / "inside", new.server("renewed")
    tls = ssl.create_default_context(cafile=new.ca)
    ask = f"GET {MODELS} HTTP/1.1\r\nHost: localhost:{site.inside[1]}\r\n\r\n".encode()
    with Connection(site.inside, tls=vault.tls()) as connection:
        connection.send(ask)
        assert connection.answer().status == 404
        old.with_suffix(".pem").write_bytes(pair.cert.read_bytes())
        old.with_suffix(".key").write_bytes(pair.key.read_bytes())
        site.process.send_signal(signal.SIGHUP)
        wait(lambda: "certificate read again" in site.log(), "the new certificate")
        with Connection((HOST, site.inside[1]), tls=tls) as other:
            other.send(ask)
            assert other.answer().status == 404
        connection.send(ask)
        assert connection.answer().status == 404
