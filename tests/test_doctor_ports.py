"""The ways to what settings name: each leads there, keeps its own secret, and shows it to nobody else."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.app import Misfit
from gateway.doctor_ports import Misasked, Wishes, surroundings
from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess, IntrospectionIssuer
from gateway.inquiry import Failure
from gateway.policy.compile import compile_plane
from tests.free_port import free_port
from tests.simulators.certificates import Authority
from tests.simulators.issuer import Issuer
from tests.simulators.origin import Origin, Page
from tests.simulators.resp_server import resp_server
from tests.small_house import INSIDE, POLICY, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gateway.review.surroundings import Surroundings

PUBLIC = compile_plane(POLICY, "public.yaml")
BOTH = [PUBLIC, compile_plane(INSIDE, "inside.yaml")]
KEY = "engine-key"
TOKEN = "a-token"
NO_WISHES = Wishes()


@pytest.fixture
def here() -> Iterator[Origin]:
    with Origin({"*": Page(200, b"{}")}) as origin:
        yield origin


def made(
    folder: Path, wishes: Wishes = NO_WISHES, engine: str = "http://127.0.0.1:9", /, **settings: str
) -> Surroundings:
    return surroundings(settings_of(folder, engine, **settings), [PUBLIC], wishes)


async def test_an_engine_is_asked_with_its_key_and_without(tmp_path: Path, here: Origin) -> None:
    site = made(tmp_path, NO_WISHES, here.url, ENGINES__MAIN__API_KEY=KEY)
    main = site.engines["main"]
    (replica,) = main.replicas
    assert (main.variable, main.has_key, replica.loopback) == ("GATEWAY_ENGINES__MAIN", True, True)
    await replica.ask("GET", "/v1/models", within_s=5)
    await replica.ask_keyless("GET", "/version", within_s=5)
    assert [fields.get("authorization") for _, fields in here.asked] == [f"Bearer {KEY}", None]
    assert KEY not in repr(site)


def test_each_replica_has_a_way_of_its_own_and_only_one_on_loopback_is_looked_for_elsewhere(tmp_path: Path) -> None:
    urls = "http://127.0.0.1:8000,unix:/run/vllm.sock,https://gpu.example"
    replicas = made(tmp_path, NO_WISHES, urls).engines["main"].replicas
    assert [one.name for one in replicas] == ["http://127.0.0.1:8000", "unix:/run/vllm.sock", "https://gpu.example:443"]
    assert [one.loopback for one in replicas] == [True, True, False]
    assert all(address.endswith(":8000") for address in replicas[0].elsewhere)
    assert replicas[1].elsewhere == replicas[2].elsewhere == {}


def test_authorities_that_cannot_be_used_keep_serve_from_starting(tmp_path: Path) -> None:
    with pytest.raises(Misfit, match="GATEWAY_ENGINES__MAIN__CA_FILE cannot be read"):
        made(tmp_path, NO_WISHES, "https://gpu.example", ENGINES__MAIN__CA_FILE=str(tmp_path / "none.pem"))
    with pytest.raises(Misfit, match="GATEWAY_TLS__PUBLIC__CERT cannot be used"):
        made(tmp_path, TLS__PUBLIC__CERT=str(tmp_path / "none.pem"), TLS__PUBLIC__KEY=str(tmp_path / "none.key"))


@pytest.mark.parametrize(
    "listens, hosts, host",
    [
        ("127.0.0.1:PORT", None, "127.0.0.1:PORT"),
        ("127.0.0.1:PORT", "llm.example.com", "127.0.0.1:PORT"),
        ("0.0.0.0:PORT", "llm.example.com,other.example", "llm.example.com"),
    ],
)
async def test_a_listener_is_asked_by_a_name_that_it_serves(
    tmp_path: Path, here: Origin, listens: str, hosts: str | None, host: str
) -> None:
    more = {} if hosts is None else {"HOSTS__PUBLIC": hosts}
    site = made(tmp_path, LISTENERS__PUBLIC=listens.replace("PORT", str(here.port)), **more)
    await site.listeners["public"].ask("GET", "/", within_s=5)
    assert here.asked[0][1]["host"] == host.replace("PORT", str(here.port))


async def test_an_ops_listener_is_asked_by_its_address(tmp_path: Path, here: Origin) -> None:
    assert made(tmp_path).ops is None
    site = made(tmp_path, LISTENERS__OPS=f"0.0.0.0:{here.port}", HOSTS__OPS="ops.example")
    assert site.ops is not None
    await site.ops.ask("GET", "/readyz", within_s=5)
    assert here.asked[0][1]["host"] == f"127.0.0.1:{here.port}"


async def test_a_unix_socket_has_any_name_or_the_first_of_the_settings(tmp_path: Path) -> None:
    site = made(tmp_path, LISTENERS__PUBLIC=f"unix:{tmp_path}/none.sock")
    reply = await site.listeners["public"].ask("GET", "/", within_s=5)
    assert reply.failure is Failure.NO_SOCKET


def test_a_listener_that_asks_for_certificates_is_closed_to_the_doctor(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    pair = authority.server()
    tls = {"TLS__PUBLIC__CERT": str(pair.cert), "TLS__PUBLIC__KEY": str(pair.key)}
    assert made(tmp_path, **tls).listeners["public"].closed == ""
    site = made(tmp_path, TLS__PUBLIC__CLIENT_CA=str(authority.ca), **tls)
    assert "client's certificate" in site.listeners["public"].closed


async def test_a_token_is_shown_to_its_plane_alone(tmp_path: Path, here: Origin) -> None:
    public = {"LISTENERS__PUBLIC": f"127.0.0.1:{here.port}"}
    site = made(tmp_path, Wishes(token=TOKEN), **public)
    assert site.visitor is not None
    assert site.visitor.plane == "demo"
    await site.visitor.ask("GET", "/v1/models", within_s=5)
    await site.listeners["public"].ask("GET", "/v1/models", within_s=5)
    assert [fields.get("authorization") for _, fields in here.asked] == [f"Bearer {TOKEN}", None]
    assert TOKEN not in repr(site) + repr(Wishes(token=TOKEN))


async def test_another_address_takes_the_place_of_the_listeners(tmp_path: Path, here: Origin) -> None:
    site = made(tmp_path, Wishes(gateway=here.url, token=TOKEN))
    assert (site.listeners["public"].address, site.visitor is not None) == (here.url, True)
    await site.listeners["public"].ask("GET", "/", within_s=5)
    assert site.visitor is not None
    await site.visitor.ask("GET", "/", within_s=5)
    assert [fields.get("authorization") for _, fields in here.asked] == [None, f"Bearer {TOKEN}"]
    assert made(tmp_path, Wishes(gateway=here.url)).visitor is None


@pytest.mark.parametrize(
    "wishes, said",
    [
        (Wishes(plane="nowhere", token=TOKEN), "--plane with one of demo"),
        (Wishes(token="two words"), "printable ASCII"),
        (Wishes(token=""), "printable ASCII"),
        (Wishes(token="a\r\nb: c"), "printable ASCII"),
        (Wishes(gateway="http://10.0.0.1"), "--gateway must be an origin"),
        (Wishes(gateway="https://llm.example.com/v1"), "--gateway must be an origin"),
        (Wishes(public_url="llm.example.com"), "--public-url must be a URL"),
    ],
)
def test_wishes_that_do_not_fit_are_refused_in_a_sentence(tmp_path: Path, wishes: Wishes, said: str) -> None:
    with pytest.raises(Misasked) as refused:
        made(tmp_path, wishes)
    assert said in str(refused.value)


def test_of_several_planes_one_must_be_named(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, LISTENERS__INSIDE=f"127.0.0.1:{free_port()}")
    with pytest.raises(Misasked, match="demo, inside"):
        surroundings(settings, BOTH, Wishes(token=TOKEN))
    site = surroundings(settings, BOTH, Wishes(token=TOKEN, plane="inside"))
    assert site.visitor is not None
    assert site.visitor.plane == "inside"


def test_a_plane_without_an_address_is_closed(tmp_path: Path) -> None:
    site = surroundings(settings_of(tmp_path), BOTH, NO_WISHES)
    assert [one.name for one in site.planes] == ["demo"]
    assert [one.name for one in site.closed] == ["inside"]


def test_settings_of_an_issuer_that_no_caller_has_are_named(tmp_path: Path) -> None:
    site = surroundings(settings_of(tmp_path, ISSUERS__THE_COPR__TIMEOUT="1s"), BOTH, NO_WISHES)
    assert (site.issuers, site.idle) == ({}, ["GATEWAY_ISSUERS__THE_COPR"])


async def test_each_issuer_has_its_way_with_or_without_settings(tmp_path: Path) -> None:
    with Issuer() as issuer:
        corp = AccessTokenIssuer("corp", issuer.url, "aud", frozenset({"RS256"}), "at+jwt", 30, "client_id", 3600)
        asked = IntrospectionIssuer("asked", issuer.url, "aud")
        edge = CloudflareAccess("edge", "example", "aud")
        one = replace(PUBLIC, callers={**PUBLIC.callers, "corp": corp, "asked": asked}, edge=edge)
        settings = settings_of(
            tmp_path, ISSUERS__ASKED__CLIENT_ID="gateway", ISSUERS__ASKED__CLIENT_SECRET="the-secret"
        )
        site = surroundings(settings, [one], NO_WISHES)
        assert list(site.issuers) == ["asked", "corp", "edge"]
        assert site.issuers["corp"].variable == "GATEWAY_ISSUERS__CORP"
        assert (await site.issuers["corp"].ask.key_set()).keys
        assert await site.issuers["asked"].ask.introspect() == b'{"active": false}'
        assert "the-secret" not in repr(site)


async def test_a_ledger_is_asked_by_its_own_way_and_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(tmp_path).ledger is None
    async with resp_server() as server:
        server.answers = [b"+PONG\r\n", b"-NOAUTH no\r\n"]
        site = made(tmp_path, LEDGER=str(server.address), LEDGER_PASSWORD="hunter2hunter2")
        assert site.ledger is not None
        assert await site.ledger() == ""
        assert await site.ledger() == "AuthenticationError"
        assert server.signed_in[0][-1] == b"hunter2hunter2"
    assert await site.ledger() == "ConnectionError"
    captured: Any = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


async def test_a_ledger_with_tls_is_believed_as_the_gateway_believes_it(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    pair = ours.server()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.cert, pair.key)
    async with resp_server(tls) as server:
        server.answers = [b"+PONG\r\n"]
        for file, answer in (
            (ours.ca, ""),
            (other.ca, "ConnectionError"),
            (tmp_path / "none.pem", "GATEWAY_LEDGER_CA_FILE cannot be read: No such file or directory"),
        ):
            ask = made(tmp_path, LEDGER=str(server.address), LEDGER_CA_FILE=str(file)).ledger
            assert ask is not None
            assert await ask() == answer


async def test_the_driver_is_asked_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    told = await made(tmp_path).gpus()
    assert told is not None
    assert "--query-gpu=index,name" in told[1]
