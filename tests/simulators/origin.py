"""A server on loopback that answers each path with what a test has laid down for it, or with one answer for all.

In a test: ``with Origin({"*": Page(530, b"error code: 1033", {"cf-ray": "x"})}) as origin: origin.url``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class Page:
    """One answer."""

    status: int
    body: bytes = b""
    fields: Mapping[str, str] = field(default_factory=dict)


class Origin:
    """The server; ``pages`` are by path, ``*`` is for all others. ``asked`` has request lines and header fields."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = pages
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], origin: Origin) -> None:
        self.origin = origin
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        origin = self.server.origin
        self.rfile.read(int(self.headers.get("content-length", "0")))
        origin.asked.append((self.requestline, {name.lower(): value for name, value in self.headers.items()}))
        page = origin.pages.get(self.path) or origin.pages["*"]
        self.send_response_only(page.status)
        for name, value in {**page.fields, "content-length": str(len(page.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401  (as in http.server)
        """Say nothing."""
