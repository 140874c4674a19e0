from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.inquirer import AT_MOST, Inquirer, origin, own_addresses, pinned
from gateway.addresses import EngineAddress, Tcp, Unix
from gateway.inquiry import Failure
from tests.simulators.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HI = b"HTTP/1.1 200 OK\r\nX-Request-Id: ab\r\ncontent-length: 2\r\n\r\nhi"
HANG = b""


class Listening:
    """A server that says one thing to everybody, and keeps what it heard."""

    def __init__(self, says: bytes) -> None:
        self.says = says
        self.heard: list[bytes] = []
        self.port = 0

    @property
    def way(self) -> Tcp:
        """Where it is."""
        return Tcp("127.0.0.1", self.port)


@asynccontextmanager
async def listening(
    says: bytes, *, tls: ssl.SSLContext | None = None, path: str | None = None
) -> AsyncIterator[Listening]:
    """Run one."""
    one = Listening(says)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or b"0")
            one.heard.append(head + await reader.readexactly(length))
            if one.says == HANG:
                await reader.read()
            writer.write(one.says)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    if path is None:
        server: asyncio.Server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        one.port = server.sockets[0].getsockname()[1]
    else:
        server = await asyncio.start_unix_server(serve, path)
    try:
        yield one
    finally:
        server.close()


async def test_an_answer_is_read_whole_with_its_fields_in_lower_case() -> None:
    async with listening(HI) as server:
        reply = await Inquirer(server.way, "llm.example.com")("GET", "/v1/models", within_s=5)
    assert (reply.status, reply.fields["x-request-id"], reply.body, reply.failure) == (200, "ab", b"hi", None)
    assert reply.seconds > 0
    (heard,) = server.heard
    assert heard.startswith(b"GET /v1/models HTTP/1.1\r\nhost: llm.example.com\r\nuser-agent: vllm-gateway/")
    assert b"(probe)" in heard
    assert b"authorization" not in heard


@pytest.mark.parametrize("target", ["/v1//models", "/v1/%6dodels", "/a/../b", "/x?y=%zz"])
async def test_a_target_goes_out_as_it_is_written(target: str) -> None:
    async with listening(HI) as server:
        await Inquirer(server.way, "localhost")("GET", target, within_s=5)
    assert server.heard[0].split(b" ")[1] == target.encode()


async def test_a_body_is_json_and_a_key_stands_in_the_head_alone() -> None:
    async with listening(HI) as server:
        ask = Inquirer(server.way, "localhost", bearer="a-key")
        await ask("POST", "/sleep", within_s=5, body=b"{}")
    (heard,) = server.heard
    assert b"authorization: Bearer a-key\r\n" in heard
    assert b"content-type: application/json\r\ncontent-length: 2\r\n" in heard
    assert heard.endswith(b"\r\n\r\n{}")
    assert "a-key" not in repr(ask)


async def test_a_unix_socket_is_asked_as_well(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with listening(HI, path=path):
        assert (await Inquirer(Unix(path), "localhost")("GET", "/", within_s=5)).status == 200


async def test_of_a_long_answer_the_beginning_is_kept() -> None:
    long = b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 9_000_000
    async with listening(long) as server:
        reply = await Inquirer(server.way, "localhost")("GET", "/", within_s=5)
    assert reply.status == 200
    assert AT_MOST <= len(reply.body) < AT_MOST + 2**18


async def test_an_answer_may_end_with_its_connection() -> None:
    async with listening(b"HTTP/1.1 200 OK\r\n\r\nto the end") as server:
        assert (await Inquirer(server.way, "localhost")("GET", "/", within_s=5)).body == b"to the end"


@pytest.mark.parametrize(
    "says, failure",
    [
        (HANG, Failure.SILENT),
        (b"SSH-2.0-OpenSSH\r\n", Failure.NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\ncontent-le", Failure.BROKE_OFF),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", Failure.BROKE_OFF),
    ],
)
async def test_how_far_a_question_got_is_told(says: bytes, failure: Failure) -> None:
    async with listening(says) as server:
        reply = await Inquirer(server.way, "localhost")("GET", "/", within_s=0.3)
    assert (reply.status, reply.failure) == (0, failure)


async def test_nobody_there_is_told_apart(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "file").touch()
    ways: dict[Failure, Tcp | Unix] = {
        Failure.REFUSED: Tcp("127.0.0.1", port),
        Failure.NO_SOCKET: Unix(str(tmp_path / "none")),
        Failure.NO_NAME: Tcp("no-such-host.invalid", 80),
    }
    for failure, where in ways.items():
        reply = await Inquirer(where, "localhost")("GET", "/", within_s=5)
        assert reply.failure is failure


async def test_a_connection_that_does_not_come_is_told_from_an_answer_that_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        filling = [socket.socket() for _ in range(3)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        where = Tcp(*full.getsockname())
        reply = await Inquirer(where, "localhost", connect_s=0.2)("GET", "/", within_s=5)
        for one in filling:
            one.close()
    assert reply.failure is Failure.NO_CONNECTION


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def server_side(authority: Authority) -> tuple[ssl.SSLContext, Path]:
    pair = authority.server()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.cert, pair.key)
    return tls, pair.cert


async def test_a_certificate_must_be_believed(authority: Authority) -> None:
    tls, _ = server_side(authority)
    trusted = ssl.create_default_context(cafile=authority.ca)
    async with listening(HI, tls=tls) as server:
        assert (await Inquirer(server.way, "localhost", tls=trusted)("GET", "/", within_s=5)).status == 200
        address = EngineAddress(server.way, tls=True, host_field="localhost")
        reply = await Inquirer.of_origin(address)("GET", "/", within_s=5)
        assert reply.failure is Failure.TLS
        assert reply.detail
        elsewhere = Inquirer(server.way, "localhost", tls=trusted, server_name="llm.example.com")
        reply = await elsewhere("GET", "/", within_s=5)
        assert "llm.example.com" in reply.detail


async def test_a_port_without_tls_is_told(authority: Authority) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    where = Tcp(*server.sockets[0].getsockname())
    tls = ssl.create_default_context(cafile=authority.ca)
    reply = await Inquirer(where, "localhost", tls=tls)("GET", "/", within_s=5)
    server.close()
    assert (reply.failure, reply.detail) == (Failure.TLS, "wrong version number")


async def test_a_listener_of_our_own_is_known_by_its_very_certificate(authority: Authority, tmp_path: Path) -> None:
    tls, cert = server_side(authority)
    other = Authority(tmp_path, "another").server("another")
    async with listening(HI, tls=tls) as server:
        ask = Inquirer(server.way, "x", tls=pinned(cert), server_name="any.example")
        assert (await ask("GET", "/", within_s=5)).status == 200
        stranger = Inquirer(server.way, "x", tls=pinned(other.cert))
        assert (await stranger("GET", "/", within_s=5)).failure is Failure.TLS
    with pytest.raises(OSError, match="No such file"):
        pinned(tmp_path / "none.pem")


@pytest.mark.parametrize(
    "url, where, target",
    [
        ("https://llm.example.com", "https://llm.example.com:443", "/"),
        ("http://127.0.0.1:80/", "http://127.0.0.1:80", "/"),
        ("https://login.example.com/realms/a?b", "https://login.example.com:443", "/realms/a?b"),
    ],
)
def test_a_url_is_taken_apart(url: str, where: str, target: str) -> None:
    address, rest = origin(url)
    assert (str(address), rest) == (where, target)


@pytest.mark.parametrize("url", ["llm.example.com", "ftp://a/b", "https://", "https://me@host/"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        origin(url)


def test_own_addresses_are_none_of_loopback() -> None:
    assert not [one for one in own_addresses() if Tcp(one, 1).loopback]
