from __future__ import annotations

import socket
import stat
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.listening import bind, release
from gateway.addresses import Tcp, Unix

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_tcp_address_is_bound_and_does_not_block(host: str) -> None:
    with bind(Tcp(host, 0)) as bound:
        assert bound.getsockname()[0] == host
        assert not bound.getblocking()


def test_an_address_in_use_is_refused_and_its_socket_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OSError, match="in use"):
        bind(Tcp("127.0.0.1", server.getsockname()[1]))


def test_a_socket_left_behind_by_a_killed_process_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with bind(Unix(str(path))) as bound:
        bound.listen()
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))


def test_a_socket_that_somebody_answers_on_stays(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        with pytest.raises(OSError, match="another process"):
            bind(Unix(str(path)))
    assert path.exists()


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("keep me")
    with pytest.raises(OSError, match="no socket"):
        bind(Unix(str(path)))
    assert path.read_text() == "keep me"


def test_only_owner_and_group_may_connect_and_the_socket_goes_with_the_listener(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    with bind(Unix(str(path))):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    release(Tcp("127.0.0.1", 1))
    release(Unix(str(path)))
    assert not path.exists()
    release(Unix(str(path)))
