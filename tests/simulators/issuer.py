"""An OAuth issuer on loopback: metadata, key set, rotation, faults, and tokens of every sort.

In a test: ``with Issuer() as issuer: issuer.token()``. From another process: ``python -m tests.simulators.issuer``
prints the issuer's URL as the first line; ``POST /control`` with JSON changes ``fault`` and ``published``, signs
``token`` (claims to change) and answers with the counts of fetches. It is a real HTTP server, so that what is tested
is a real client.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import sys
import threading
import time
from collections import Counter
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import parse_qs
from uuid import uuid4

from tests.simulators.hostile_tokens import Stage
from tests.simulators.signing import compact, default_keys, signing_input

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from tests.simulators.signing import SigningKey

FAULTS = ("down", "silent", "drip", "garbage", "empty", "huge", "endless", "bomb", "redirect", "error", "other-issuer")


class Issuer:
    """One issuer; ``published`` names the keys in its key set, ``fault`` spoils every answer while it is set.

    ``path`` is the path of the issuer's URL. ``metadata``: which of the two metadata documents exist. ``fetches``
    counts requests by path. ``redirect_to`` is where the fault ``redirect`` points. ``raw_keys``, when set, is served
    as the key set. ``opaque``: what is said of each opaque token, as claims, as raw bytes or as a status; ``asked`` has
    the forms and the authorization of those who asked. ``granting``, when set, answers the token endpoint (status and
    octets); ``granted`` has the forms and the authorization that came there.
    """

    def __init__(
        self,
        path: str = "",
        *,
        name: str = "a",
        audience: str = "vllm-gateway/partner",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.keys: dict[str, SigningKey] = default_keys(name)
        self.published = ["K1", "E1", "KPS", "ED"]
        self.audience = audience
        self.fault: str | None = None
        self.metadata = {"openid-configuration", "oauth-authorization-server"}
        self.extra_metadata: dict[str, object] = {}
        self.fetches: Counter[str] = Counter()
        self.last_fields: dict[str, str] = {}
        self.redirect_to = ""
        self.raw_keys: bytes | None = None
        self.opaque: dict[str, dict[str, Any] | bytes | int] = {}
        self.asked: list[tuple[str, str]] = []
        self.granting: tuple[int, bytes] | None = None
        self.granted: list[tuple[str, str]] = []
        self.path = path
        self._server = _Server(("127.0.0.1", port), self)
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def origin(self) -> str:
        """The scheme, host and port."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """The issuer's identifier, which tokens bear as ``iss``."""
        return f"{self.origin}{self.path}"

    @property
    def jwks_url(self) -> str:
        """Where the key set is."""
        return f"{self.origin}/keys"

    @property
    def introspection_url(self) -> str:
        """Where opaque tokens are asked about."""
        return f"{self.origin}/introspect"

    @property
    def stage(self) -> Stage:
        """What the placeholders of the corpus stand for here and now."""
        return Stage(self.url, self.audience, self.keys, int(time.time()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def claims(self, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  (any JSON value)
        """Give the claims of a good access token (RFC 9068 §2.2), some changed; ``None`` leaves one out."""
        now = int(time.time())
        good = {
            "iss": self.url,
            "sub": "user-1",
            "aud": self.audience,
            "client_id": "cli-1",
            "scope": "chat models",
            "iat": now,
            "exp": now + 300,
            "jti": uuid4().hex,
        }
        return {name: value for name, value in {**good, **changes}.items() if value is not None}

    def token(self, key: str = "K1", header: Mapping[str, Any] | None = None, **changes: Any) -> str:  # noqa: ANN401
        """Sign an access token with a key by its name here; good unless changed."""
        signing = self.keys[key]
        good = {"alg": signing.algorithm, "kid": signing.kid, "typ": "at+jwt"}
        merged = {name: value for name, value in {**good, **(header or {})}.items() if value is not None}
        message = signing_input(merged, self.claims(**changes))
        return compact(message, signing.sign(message))

    def assertion(self, team: str, audience: str, header: Mapping[str, Any] | None = None, **changes: Any) -> str:  # noqa: ANN401
        """Sign an assertion as Cloudflare Access does for a person, some claims changed; ``None`` leaves one out."""
        now = int(time.time())
        good = {
            "iss": f"https://{team}.cloudflareaccess.com",
            "aud": [audience],
            "email": "person@corp.example",
            "type": "app",
            "identity_nonce": uuid4().hex,
            "country": "US",
            "sub": "7335d417-61da-459d-899c-0a01c76a2f94",
            "iat": now,
            "nbf": now,
            "exp": now + 300,
        }
        kept = {name: value for name, value in {**good, **changes}.items() if value is not None}
        message = signing_input({"alg": "RS256", "kid": "k1", "typ": "JWT", **(header or {})}, kept)
        return compact(message, self.keys["K1"].sign(message))

    def document(self) -> bytes:
        """Give the key set as it is served."""
        if self.raw_keys is not None:
            return self.raw_keys
        return json.dumps({"keys": [self.keys[name].public for name in self.published]}).encode()

    def metadata_document(self) -> bytes:
        """Give the metadata as they are served."""
        named = "https://another.example" if self.fault == "other-issuer" else self.url
        document = {
            "issuer": named,
            "jwks_uri": self.jwks_url,
            "token_endpoint": f"{self.origin}/token",
            "introspection_endpoint": self.introspection_url,
        }
        return json.dumps({**document, **self.extra_metadata}).encode()

    def introspect(self, form: str, authorization: str) -> tuple[int, bytes]:
        """Answer a question about an opaque token (RFC 7662 §2.2)."""
        self.asked.append((form, authorization))
        (token,) = parse_qs(form, strict_parsing=True)["token"]
        said = self.opaque.get(token, {"active": False})
        if isinstance(said, int):
            return said, b"{}"
        return 200, said if isinstance(said, bytes) else json.dumps(said).encode()

    def answer_to(self, path: str) -> bytes | None:
        """Give the document at a path."""
        places = {
            f"{self.path}/.well-known/openid-configuration": "openid-configuration",
            f"/.well-known/oauth-authorization-server{self.path}": "oauth-authorization-server",
        }
        if places.get(path) in self.metadata:
            return self.metadata_document()
        return self.document() if path == "/keys" else None

    def control(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an order from another process."""
        self.fault = order.get("fault", self.fault)
        self.published = order.get("published", self.published)
        answer: dict[str, Any] = {"issuer": self.url, "fetches": dict(self.fetches)}
        if "token" in order:
            answer["token"] = self.token(order.get("key", "K1"), order.get("header"), **order["token"])
        return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], issuer: Issuer) -> None:
        self.issuer = issuer
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  (as in socketserver)
        """Say nothing: clients that leave in the middle are what is tested."""


@cache
def _bomb() -> bytes:
    return gzip.compress(b" " * 20_000_000)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    faults: ClassVar[dict[str, bytes]] = {"garbage": b"<html>Down for maintenance</html>", "empty": b'{"keys": []}'}

    def do_GET(self) -> None:
        issuer = self.server.issuer
        issuer.fetches[self.path] += 1
        issuer.last_fields = {name.lower(): value for name, value in self.headers.items()}
        spoil = getattr(self, f"_{issuer.fault}", None)
        if spoil is not None:
            spoil()
        elif issuer.fault in self.faults:
            self._send(200, self.faults[issuer.fault])
        else:
            document = issuer.answer_to(self.path)
            self._send(404 if document is None else 200, document or b"{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.path == "/control":
            self._send(200, json.dumps(self.server.issuer.control(json.loads(body))).encode())
        elif self.path == "/token":
            self.server.issuer.granted.append((body.decode(), self.headers.get("authorization", "")))
            token = {"access_token": self.server.issuer.token(), "token_type": "Bearer", "expires_in": 300}
            self._send(*(self.server.issuer.granting or (200, json.dumps(token).encode())))
        elif self.path == "/introspect":
            self._introspect(body.decode())
        else:
            self._send(404, b"{}")

    def _introspect(self, form: str) -> None:
        issuer = self.server.issuer
        issuer.fetches[self.path] += 1
        status, document = issuer.introspect(form, self.headers.get("authorization", ""))
        spoil = getattr(self, f"_{issuer.fault}", None)
        if spoil is not None:
            spoil()
        else:
            self._send(status, self.faults.get(issuer.fault or "", document))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401  (as in http.server)
        """Say nothing."""

    def _send(self, status: int, body: bytes, **fields: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **fields}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def _down(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _error(self) -> None:
        self._send(500, b"{}")

    def _redirect(self) -> None:
        self._send(302, b"", location=self.server.issuer.redirect_to)

    def _huge(self) -> None:
        self._send(200, b'{"keys": [' + b" " * 5_000_000 + b"]}")

    def _bomb(self) -> None:
        self._send(200, _bomb(), content_encoding="gzip")

    def _silent(self) -> None:
        for _ in self._wait(30):
            pass

    def _drip(self) -> None:
        self._trickle(b" ", pause=0.05)

    def _endless(self) -> None:
        self._trickle(b" " * 65_536, pause=0)

    def _trickle(self, piece: bytes, pause: float) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        for _ in self._wait(30, pause):
            self.wfile.write(piece)

    def _wait(self, seconds: float, pause: float = 0.05) -> Iterator[None]:
        """Tick until the fault is over."""
        fault, end = self.server.issuer.fault, time.monotonic() + seconds
        while self.server.issuer.fault == fault and time.monotonic() < end:
            time.sleep(pause)
            yield


def main() -> None:
    """Serve until stopped; the first line is the issuer's URL."""
    with Issuer(port=int(sys.argv[1]) if len(sys.argv) > 1 else 0) as issuer, contextlib.suppress(KeyboardInterrupt):
        sys.stdout.write(f"{issuer.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
