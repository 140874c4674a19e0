"""A server for all tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.valkey.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server, which a test that stops it must start again."""
    server = Server(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.go_on()
    server.stop()
