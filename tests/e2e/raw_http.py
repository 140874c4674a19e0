"""An HTTP/1.1 client that sends any bytes and believes nothing that comes back.

Enters: the bytes of one or more requests. Leaves: ``Answer`` objects, or ``NotHttp`` when an answer breaks RFC 9112. It
adds no header field and follows nothing.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import orjson

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from typing import Any

_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([\t\x20-\x7e]*)")
_FIELD_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?[ \t]*")
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}")
_BODILESS = {204, 304}
_TRICKLE_LIMIT = 4096


class NotHttp(Exception):  # noqa: N818  (what the peer sent is this)
    """The answer is no valid HTTP/1.1."""


class Silence(NotHttp):
    """No whole answer came in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. ``framing`` is how its end was known: ``length``, ``chunked``, ``close`` or ``none``."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    framing: str
    interim: tuple[int, ...] = ()
    chunks: tuple[tuple[float, bytes], ...] = field(default=(), repr=False)

    def values(self, name: str) -> list[str]:
        """Give every value of a field."""
        return [value for found, value in self.headers if found == name]

    def value(self, name: str) -> str | None:
        """Give the value of a field that may stand once."""
        values = self.values(name)
        if len(values) > 1:
            raise NotHttp(f"{name} stands {len(values)} times")
        return values[0] if values else None

    @property
    def json(self) -> Any:  # noqa: ANN401  (a JSON value)
        """The body as JSON."""
        return orjson.loads(self.body)

    @property
    def code(self) -> str | None:
        """The reason in an error body of OpenAI's shape, if it is one."""
        with contextlib.suppress(ValueError, TypeError, KeyError):
            return str(self.json["error"]["code"])
        return None

    @property
    def closes(self) -> bool:
        """Whether the server said that it closes the connection."""
        return "close" in (self.value("connection") or "").lower()


class Connection:
    """One TCP connection to ``address``, over TLS where it is given what to do that with."""

    def __init__(self, address: tuple[str, int], *, timeout: float = 30.0, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.timeout = timeout
        self._buffer = bytearray()
        self._ended = False

    def __enter__(self) -> Self:
        """Use it for one exchange."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.socket.close()

    def send(self, data: bytes, *, trickle: bool = False) -> None:
        """Send all at once, or byte by byte (in blocks beyond 4 KiB). A peer that hung up is no error yet."""
        step = 1 if len(data) <= _TRICKLE_LIMIT else 512
        with contextlib.suppress(ConnectionError):
            if not trickle:
                self.socket.sendall(data)
                return
            for start in range(0, len(data), step):
                self.socket.sendall(data[start : start + step])

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Leave without a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()

    def answer(self, method: str = "GET") -> Answer:
        """Read one final answer. Raises ``NotHttp`` for a bad one and ``Silence`` when none came whole."""
        interim: list[int] = []
        while True:
            status, headers = self._head()
            if status >= 200:
                break
            interim.append(status)
        answer = Answer(status, headers, b"", "none", tuple(interim))
        if method == "HEAD" or status in _BODILESS:
            return answer
        lengths, codings = answer.values("content-length"), answer.values("transfer-encoding")
        if len(lengths) + len(codings) > 1:
            raise NotHttp("more than one framing")
        if codings:
            if codings != ["chunked"]:
                raise NotHttp(f"transfer-encoding {codings[0]!r}")
            chunks = tuple(self.chunks())
            return Answer(status, headers, b"".join(data for _, data in chunks), "chunked", tuple(interim), chunks)
        if lengths:
            if not lengths[0].isascii() or not lengths[0].isdigit():
                raise NotHttp("content-length is no number")
            return Answer(status, headers, self._exactly(int(lengths[0])), "length", tuple(interim))
        while self._more():
            pass
        return Answer(status, headers, self._exactly(len(self._buffer)), "close", tuple(interim))

    def chunks(self) -> Iterator[tuple[float, bytes]]:
        """Read the chunks of a body with the time of each; the last chunk must come, and no trailer may."""
        while True:
            size = self._line()
            if not _CHUNK_SIZE.fullmatch(size):
                raise NotHttp(f"chunk size {size[:40]!r}")
            data = self._exactly(int(size, 16))
            if self._line() != b"":
                raise NotHttp("chunk longer than its size, or a trailer")
            if not data:
                return
            yield time.monotonic(), data

    def ended(self, within: float = 5.0) -> bool:
        """Tell whether the server closes, and sends nothing more, within a time in seconds."""
        deadline = time.monotonic() + within
        while not self._ended and not self._buffer and (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            with contextlib.suppress(TimeoutError):
                self._more()
        self.socket.settimeout(self.timeout)
        return self._ended and not self._buffer

    def head(self) -> Answer:
        """Read the head of an answer alone; ``chunks`` reads on."""
        status, headers = self._head()
        return Answer(status, headers, b"", "none")

    def _head(self) -> tuple[int, list[tuple[str, str]]]:
        start = self._line()
        found = _STATUS_LINE.fullmatch(start)
        if found is None:
            raise NotHttp(f"status line {start[:80]!r}")
        headers: list[tuple[str, str]] = []
        while line := self._line():
            pair = _FIELD_LINE.fullmatch(line)
            if pair is None:
                raise NotHttp(f"field line {line[:80]!r}")
            headers.append((pair[1].decode("ascii").lower(), (pair[2] or b"").decode("ascii")))
        return int(found[1]), headers

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if b"\n" in self._buffer or len(self._buffer) > 65536:
                raise NotHttp("a line without CR LF")
            if not self._more():
                raise Silence(f"the connection ended within {bytes(self._buffer[:80])!r}")
        return self._exactly(end + 2)[:-2]

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not self._more():
                raise Silence(f"the body ended {count - len(self._buffer)} bytes early")
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _more(self) -> bool:
        try:
            data = self.socket.recv(262144)
        except TimeoutError:
            raise Silence(f"nothing came for {self.socket.gettimeout():.1f} s") from None
        except ConnectionError:
            data = b""
        self._ended = self._ended or not data
        self._buffer += data
        return bool(data)


def request(
    target: str, host: str, *, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None
) -> bytes:
    """Write an ordinary request."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def ask(address: tuple[str, int], data: bytes, *, trickle: bool = False, timeout: float = 30.0) -> Answer:
    """Send one request on a fresh connection and read its answer."""
    with Connection(address, timeout=timeout) as connection:
        connection.send(data, trickle=trickle)
        return connection.answer(data.partition(b" ")[0].decode("latin-1"))
