"""A listener that speaks TLS, over real sockets: what clients can do there, and what the server makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.adapters.downstream import Downstream
from gateway.adapters.edge_limits import EdgeLimits
from gateway.adapters.handshakes import HandshakeLimits, Handshakes
from gateway.adapters.server_certificate import ServerCertificate, TlsFiles
from gateway.reasons import Malformed
from tests.adapters.wiring import Cut, get, post, serving
from tests.simulators.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from pathlib import Path

    from tests.adapters.wiring import Client
    from tests.simulators.certificates import Pair

pytestmark = pytest.mark.usefixtures("nothing_left")

MIB = 1024 * 1024


class Failures:
    """Counts handshakes that came to nothing."""

    def __init__(self) -> None:
        self.count = 0
        self._one_more = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._one_more.set()

    async def reach(self, count: int) -> None:
        """Wait until there are so many."""
        async with asyncio.timeout(5):
            while self.count < count:
                self._one_more.clear()
                await self._one_more.wait()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.server()


@pytest.fixture
def certificate(server: Pair) -> ServerCertificate:
    return ServerCertificate(TlsFiles("GATEWAY_TLS__PUBLIC", server.cert, server.key))


@pytest.fixture
def mutual(server: Pair, authority: Authority) -> ServerCertificate:
    return ServerCertificate(TlsFiles("GATEWAY_TLS__PUBLIC", server.cert, server.key, authority.ca))


@pytest.fixture
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


def client_side(authority: Authority, shown: Pair | None = None, **versions: ssl.TLSVersion) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=str(authority.ca))
    if shown is not None:
        tls.load_cert_chain(shown.cert, shown.key)
    for name, version in versions.items():
        setattr(tls, name, version)
    return tls


async def tell(request: Downstream) -> None:
    """Answer with the thumbprint of the client's certificate."""
    request.answer(200, [], (request.certificate or "none").encode())


async def refuse(request: Downstream) -> None:
    """Answer without a look at the body."""
    request.answer(401, [], b"no")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_requests_are_answered_over_tls_one_after_another(
    certificate: ServerCertificate, authority: Authority, version: ssl.TLSVersion
) -> None:
    tls = client_side(authority, maximum_version=version, minimum_version=version)
    async with serving(tell, tls=certificate) as served, served.client(tls=tls) as client:
        for _ in range(3):
            client.send(get())
            assert (await client.answer()).body == b"none"


# What a handshake must be


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_versions_before_1_2_are_refused(
    certificate: ServerCertificate, authority: Authority, version: ssl.TLSVersion
) -> None:
    tls = client_side(authority)
    tls.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        tls.minimum_version = tls.maximum_version = version
    failures = Failures()
    async with serving(tell, tls=certificate, failed=failures) as served:
        assert await asyncio.to_thread(_alert, served.port, tls) == "TLSV1_ALERT_PROTOCOL_VERSION"
        await failures.reach(1)


async def test_http_1_1_is_the_one_protocol_that_is_chosen(
    certificate: ServerCertificate, authority: Authority
) -> None:
    tls = client_side(authority)
    tls.set_alpn_protocols(["h2", "http/1.1"])
    async with serving(tell, tls=certificate) as served, served.client(tls=tls) as client:
        chosen = client._writer.get_extra_info("ssl_object")
        assert chosen.selected_alpn_protocol() == "http/1.1"


async def test_a_client_cannot_begin_the_handshake_anew(certificate: ServerCertificate, authority: Authority) -> None:
    """RFC 9325 §3.5: the ciphers of 1.2 are few, and the server says no to another round."""
    assert certificate.current.options & ssl.OP_NO_RENEGOTIATION
    tls = client_side(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    async with serving(tell, tls=certificate) as served, served.client(tls=tls) as client:
        name = client._writer.get_extra_info("cipher")[0]
    assert name.startswith("ECDHE-")
    assert "GCM" in name or "CHACHA20" in name


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 20_000, b"SSH-2.0-x\r\n"]
)
async def test_what_is_no_tls_costs_a_connection_and_one_quiet_line(
    certificate: ServerCertificate, authority: Authority, sent: bytes, logged: list[MutableMapping[str, Any]]
) -> None:
    failures = Failures()
    async with serving(tell, tls=certificate, failed=failures) as served:
        for count in range(1, 4):
            async with served.client() as client:
                client.send(sent)
                rest = b""
                with contextlib.suppress(Cut):
                    rest = await client.rest()
                assert b"HTTP/1.1" not in rest
            await failures.reach(count)
        assert (await served.ask(get(), tls=client_side(authority))).status == 200
    assert {line["log_level"] for line in logged} == {"info"}
    assert {line["event"] for line in logged} == {"TLS handshake failed"}
    assert all(line["sampled"] for line in logged)


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01"])
async def test_a_handshake_that_does_not_end_is_ended_by_the_deadline_of_the_head(
    certificate: ServerCertificate, begun: bytes
) -> None:
    failures = Failures()
    async with (
        serving(tell, EdgeLimits(head_s=0.2), tls=certificate, failed=failures) as served,
        served.client() as client,
    ):
        start = time.monotonic()
        client.send(begun)
        assert await client.ended()
        assert 0.15 < time.monotonic() - start < 10
        await failures.reach(1)
        assert not served.connections


async def test_behind_the_handshake_the_head_has_its_deadline(
    certificate: ServerCertificate, authority: Authority
) -> None:
    limits = EdgeLimits(head_s=0.3, linger_s=0.5)
    async with (
        serving(tell, limits, tls=certificate) as served,
        served.client(tls=client_side(authority)) as client,
    ):
        assert await client.ended()


async def test_a_connection_counts_from_its_first_byte(certificate: ServerCertificate, authority: Authority) -> None:
    failures = Failures()
    async with serving(tell, EdgeLimits(connections=2), tls=certificate, failed=failures) as served:
        async with served.client(), served.client(tls=client_side(authority)), served.client() as third:
            assert await third.ended()
        await failures.reach(1)
        assert failures.count == 1, "the third was never begun"
        assert (await served.ask(get(), tls=client_side(authority))).status == 200


async def test_who_leaves_in_the_handshake_leaves_nothing(certificate: ServerCertificate, authority: Authority) -> None:
    failures = Failures()
    async with serving(tell, EdgeLimits(connections=3), tls=certificate, failed=failures) as served:
        for count in range(1, 11):
            async with served.client() as client:
                client.send(b"\x16\x03\x01")
            await failures.reach(count)
        assert (await served.ask(get(), tls=client_side(authority))).status == 200


async def test_a_socket_that_gives_no_connection_is_told_of_and_tried_again(
    certificate: ServerCertificate, logged: list[MutableMapping[str, Any]]
) -> None:
    door = Handshakes(certificate, asyncio.Protocol, HandshakeLimits(1, 1, 1), (), Failures())
    with socket.socket() as deaf:
        deaf.setblocking(False)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await door.accept(deaf)
    assert [(line["event"], line["why"]) for line in logged] == [("no connection can be accepted", "Invalid argument")]


async def test_a_bug_ends_its_own_connection_alone(
    certificate: ServerCertificate, authority: Authority, logged: list[MutableMapping[str, Any]]
) -> None:
    made: list[asyncio.Protocol] = []

    def protocol() -> asyncio.Protocol:
        if not made:
            made.append(asyncio.Protocol())
            raise ZeroDivisionError
        return asyncio.Protocol()

    door = Handshakes(certificate, protocol, HandshakeLimits(5, 1, 9), (), Failures())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        async with asyncio.TaskGroup() as group:
            accepting = group.create_task(door.accept(listening))
            port = listening.getsockname()[1]
            with pytest.raises(ConnectionError):
                await asyncio.open_connection(
                    "127.0.0.1", port, ssl=client_side(authority), server_hostname="localhost"
                )
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=client_side(authority), server_hostname="localhost"
            )
            writer.transport.abort()
            accepting.cancel()
    line = logged[0]
    assert (line["event"], type(line["exc_info"])) == ("TLS handshake failed: bug", ZeroDivisionError)


async def test_a_handshake_under_way_has_a_moment_when_no_more_are_taken(
    certificate: ServerCertificate, authority: Authority
) -> None:
    door = Handshakes(certificate, asyncio.Protocol, HandshakeLimits(0.5, 1, 9), (), Failures())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        async with asyncio.TaskGroup() as group:
            accepting = group.create_task(door.accept(listening))
            _, silent = await asyncio.open_connection("127.0.0.1", port)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.sleep(0.1)
            accepting.cancel()
            await asyncio.sleep(0)
            await writer.start_tls(client_side(authority), server_hostname="localhost")
            assert not accepting.done(), "the other one may still come"
        silent.transport.abort()
        writer.transport.abort()


async def test_a_certificate_that_was_renewed_is_shown_from_the_next_handshake_on(
    authority: Authority, tmp_path: Path
) -> None:
    new = Authority(tmp_path, "new")
    pair = new.server("first")
    shown = authority.server("shown")
    certificate = ServerCertificate(TlsFiles("GATEWAY_TLS__PUBLIC", shown.cert, shown.key))
    async with serving(tell, tls=certificate) as served, served.client(tls=client_side(authority)) as client:
        client.send(get())
        assert (await client.answer()).status == 200
        shown.cert.write_bytes(pair.cert.read_bytes())
        shown.key.write_bytes(pair.key.read_bytes())
        certificate.refresh()
        client.send(get())
        assert (await client.answer()).status == 200, "the connection goes on"
        assert (await served.ask(get(), tls=client_side(new))).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            await served.ask(get(), tls=client_side(authority))


# Client certificates


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_is_known_by_the_thumbprint_of_its_certificate(
    mutual: ServerCertificate, authority: Authority, version: ssl.TLSVersion
) -> None:
    one, other = authority.client("one"), authority.client("other")
    async with serving(tell, tls=mutual) as served:
        for pair in (one, other):
            tls = client_side(authority, pair, maximum_version=version)
            for _ in range(2):
                answer = await served.ask(get(), tls=tls)
                assert answer.body == pair.thumbprint.encode()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("fault", ["none", "expired", "stranger", "server"])
async def test_without_a_good_certificate_nothing_is_answered(
    mutual: ServerCertificate, authority: Authority, tmp_path: Path, version: ssl.TLSVersion, fault: str
) -> None:
    shown = _shown(fault, authority, tmp_path)
    failures, asked = Failures(), list[Downstream]()

    async def note(request: Downstream) -> None:
        asked.append(request)

    async with serving(note, tls=mutual, failed=failures) as served:
        tls = client_side(authority, shown, maximum_version=version)
        alert = await asyncio.to_thread(_alert, served.port, tls)
        await failures.reach(1)
    assert (
        alert
        in {
            "none": {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"},
            "expired": {"SSLV3_ALERT_CERTIFICATE_EXPIRED"},
            "stranger": {"TLSV1_ALERT_UNKNOWN_CA"},
            "server": {"SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "SSLV3_ALERT_BAD_CERTIFICATE"},
        }[fault]
    )
    assert not asked


def _shown(fault: str, authority: Authority, folder: Path) -> Pair | None:
    match fault:
        case "expired":
            return authority.client("expired", lasts=timedelta(minutes=-1))
        case "stranger":
            return Authority(folder, "strangers").client("stranger")
        case "server":
            return authority.server("another")
        case _:
            return None


def _alert(port: int, tls: ssl.SSLContext) -> str:
    """Ask, and give the name of the alert that comes instead of an answer."""
    with pytest.raises(ssl.SSLError) as caught:
        _ask(port, tls)
    return caught.value.reason


def _ask(port: int, tls: ssl.SSLContext) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as made,
        tls.wrap_socket(made, server_hostname="localhost") as secure,
    ):
        secure.sendall(get())
        secure.recv(1)


# The end of a connection


async def test_an_early_refusal_arrives_while_the_body_still_comes(
    certificate: ServerCertificate, authority: Authority
) -> None:
    async with serving(refuse, tls=certificate) as served, served.client(tls=client_side(authority)) as client:
        client.send(post(b"", "x: y").replace(b"content-length: 0", b"content-length: 40000000"))
        for _ in range(40):
            client.send(b"x" * MIB)
        answer = await client.answer()
        assert (answer.status, answer.body, answer.headers["connection"]) == (401, b"no", "close")


async def test_a_malformed_head_is_answered_and_the_connection_ends(
    certificate: ServerCertificate, authority: Authority
) -> None:
    async def say(request: Downstream) -> None:
        assert isinstance(request.refusal, Malformed)
        request.answer(400, [], request.refusal.reason.value.encode())

    limits = EdgeLimits(linger_s=0.3)
    async with serving(say, limits, tls=certificate) as served, served.client(tls=client_side(authority)) as client:
        client.send(b"\x00\r\n\r\n")
        assert (await client.answer()).body == b"headers-malformed"
        assert await client.ended()


class Watch:
    """Takes the place of the relay: notes when the client leaves."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.left = asyncio.Event()

    def client_left(self) -> None:
        self.left.set()

    def client_ready(self) -> None:
        """Have nothing to go on with."""

    async def __call__(self, request: Downstream) -> None:
        await request.read_body(MIB)
        request.exchange = self
        request.start(200, [], None, b"first")
        self.begun.set()
        await self.left.wait()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("manner", ["close notify", "end without a word", "reset", "half-close"])
async def test_a_client_that_leaves_is_noticed_within_100_ms(
    certificate: ServerCertificate, authority: Authority, version: ssl.TLSVersion, manner: str
) -> None:
    tls = client_side(authority, maximum_version=version)
    waits = [await _until_noticed(certificate, tls, manner) for _ in range(3)]  # the machine may stall once
    assert min(waits) < 0.1


async def _until_noticed(certificate: ServerCertificate, tls: ssl.SSLContext, manner: str) -> float:
    """Leave in the middle of an answer; give the seconds until the server's side knows."""
    watch = Watch()
    async with serving(watch, tls=certificate) as served:
        made = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", served.port))
        secure = await asyncio.to_thread(tls.wrap_socket, made, server_hostname="localhost")
        await asyncio.to_thread(secure.sendall, post(b"body"))
        async with asyncio.timeout(5):
            await watch.begun.wait()
        start = time.monotonic()
        match manner:
            case "close notify":
                secure.settimeout(2)
                await asyncio.to_thread(_unwrap, secure)
            case "half-close":
                made = socket.socket(fileno=secure.detach())
                made.shutdown(socket.SHUT_WR)
            case "reset":
                secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                secure.close()
            case _:
                secure.close()
        async with asyncio.timeout(5):
            await watch.left.wait()
        waited = time.monotonic() - start
        secure.close()
        made.close()
    return waited


def _unwrap(secure: ssl.SSLSocket) -> None:
    with contextlib.suppress(OSError):  # the server may be gone before it says so
        secure.unwrap()


@pytest.mark.parametrize("line, last", [("1.1", b""), ("1.1", b"data: sorry\n\n"), ("1.0", b"")])
async def test_a_stream_that_was_cut_never_looks_like_one_that_ended(
    certificate: ServerCertificate, authority: Authority, line: str, last: bytes
) -> None:
    async def fail(request: Downstream) -> None:
        request.start(200, [], None, b"data: a\n\n")
        request.cut_off(last)

    async with serving(fail, tls=certificate) as served, served.client(tls=client_side(authority)) as client:
        client.send(get(version=line))
        await client.head()
        if line == "1.0":
            with pytest.raises(Cut):
                await client.rest()
            return
        if last:
            assert [await client.chunk(), await client.chunk()] == [b"data: a\n\n", last]
        with pytest.raises(Cut):
            await _last_chunk(client)


async def _last_chunk(client: Client) -> None:
    """Read until a body ends as it should."""
    while await client.chunk():
        pass


async def test_an_answer_that_only_the_end_ends_is_ended_in_an_orderly_way(
    certificate: ServerCertificate, authority: Authority
) -> None:
    async def whole(request: Downstream) -> None:
        request.start(200, [], None, b"x" * MIB)
        request.finish()

    async with serving(whole, tls=certificate) as served:
        made = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", served.port))
        strict = client_side(authority)
        secure = await asyncio.to_thread(
            strict.wrap_socket, made, server_hostname="localhost", suppress_ragged_eofs=False
        )
        await asyncio.to_thread(secure.sendall, get(version="1.0"))
        assert len(await asyncio.to_thread(_all, secure)) > MIB
        secure.close()


def _all(secure: ssl.SSLSocket) -> bytes:
    """Read to the end, which must be one that the peer said (RFC 8446 §6.1)."""
    parts = []
    while part := secure.recv(65536):
        parts.append(part)
    return b"".join(parts)


async def test_a_slow_reader_pauses_the_answer_within_a_bound(
    certificate: ServerCertificate, authority: Authority
) -> None:
    paused = asyncio.Event()
    written: list[int] = []

    class Source:
        def client_left(self) -> None:
            """Have nothing to close."""

        def client_ready(self) -> None:
            """Have nothing to go on with."""

    async def pour(request: Downstream) -> None:
        request.exchange = Source()
        request.start(200, [], None, b"x")
        while not request.paused:
            request.write(b"x" * 16_384)
            written.append(16_384)
            await asyncio.sleep(0)
        paused.set()
        request.cut_off()

    async with (
        serving(pour, tls=certificate) as served,
        served.client(receive_buffer=4096, tls=client_side(authority)) as client,
    ):
        client.send(get())
        async with asyncio.timeout(10):
            await paused.wait()
    assert sum(written) < 4 * MIB
