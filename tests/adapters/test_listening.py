from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.listening import Unusable, assigned, bind, inherited, release
from gateway.addresses import Tcp, Unix

if TYPE_CHECKING:
    from collections.abc import Iterator
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


# Sockets of whoever started the process


@pytest.fixture
def handed() -> Iterator[list[socket.socket]]:
    """Give sockets with numbers in a row, of TCP and Unix, as systemd hands them over."""
    made = [bind(Tcp("127.0.0.1", 0)), bind(Tcp("::1", 0))]
    first = 200
    numbers = [os.dup2(one.fileno(), first + place) for place, one in enumerate(made)]
    yield made
    for one in made:
        one.close()
    for number in numbers:
        with contextlib.suppress(OSError):  # whoever took it over has closed it
            os.close(number)


def test_sockets_are_taken_over_when_they_are_for_this_process(handed: list[socket.socket]) -> None:
    environ = {"LISTEN_PID": "7", "LISTEN_FDS": "2"}
    assert inherited(environ, 8, 200) == []
    assert inherited({}, 8, 200) == []
    found = inherited(environ, 7, 200)
    assert [one.getsockname() for one in found] == [one.getsockname() for one in handed]
    assert not any(one.getblocking() or one.get_inheritable() for one in found)
    for one in found:
        one.close()


@pytest.mark.parametrize(
    "count, sentence",
    [
        ("two", "LISTEN_FDS is no number: it is set by whoever hands sockets over, such as systemd."),
        ("1", "LISTEN_FDS speaks of descriptor 300, which is no socket."),
    ],
)
def test_what_is_no_socket_is_refused(tmp_path: Path, count: str, sentence: str) -> None:
    file = os.open(tmp_path, os.O_RDONLY)
    os.dup2(file, 300)
    os.close(file)
    try:
        with pytest.raises(Unusable) as refused:
            inherited({"LISTEN_PID": "7", "LISTEN_FDS": count}, 7, 300)
    finally:
        os.close(300)
    assert str(refused.value) == sentence


def test_a_socket_for_datagrams_is_refused() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as made:
        os.dup2(made.fileno(), 300)
    with pytest.raises(Unusable, match="takes no connections"):
        inherited({"LISTEN_PID": "7", "LISTEN_FDS": "1"}, 7, 300)


def test_a_socket_is_for_the_listener_of_its_address(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    with bind(Tcp("127.0.0.1", 0)) as four, bind(Tcp("::1", 0)) as six, bind(Unix(str(path))) as unix:
        ports = [one.getsockname()[1] for one in (four, six)]
        listeners: dict[str, Tcp | Unix] = {
            "a": Tcp("localhost", ports[0]),
            "b": Tcp("::1", ports[1]),
            "c": Unix(str(path)),
            "d": Tcp("::1", 1),
        }
        assert assigned(listeners, [unix, six, four]) == {"a": four, "b": six, "c": unix}
        with pytest.raises(Unusable, match=f"a socket of {path}, which is the address of no listener"):
            assigned({"a": Tcp("127.0.0.1", ports[0])}, [unix])
        with pytest.raises(Unusable, match=f"a socket of 127.0.0.1:{ports[0]}, "):
            assigned({"a": Tcp("127.0.0.1", ports[0])}, [four, four])
