from __future__ import annotations

import pytest

from gateway.addresses import (
    EngineAddress,
    LedgerAddress,
    Tcp,
    Unix,
    bracketed,
    engine_address,
    is_loopback,
    ledger_address,
    listener_address,
)


@pytest.mark.parametrize(
    "text,address",
    [
        ("127.0.0.1:8080", Tcp("127.0.0.1", 8080)),
        ("localhost:8080", Tcp("localhost", 8080)),
        ("[::1]:8080", Tcp("::1", 8080)),
        ("[0:0:0:0:0:0:0:1]:8080", Tcp("::1", 8080)),
        ("0.0.0.0:65535", Tcp("0.0.0.0", 65535)),  # noqa: S104  (it is read, not bound)
        ("unix:/run/gateway.sock", Unix("/run/gateway.sock")),
    ],
)
def test_a_listener_is_an_address_with_a_port_or_a_socket(text: str, address: Tcp | Unix) -> None:
    assert listener_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8080",
        ":8080",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:http",
        "::1:8080",
        "[::1]",
        "[::g]:8080",
        "[1.2.3.4.5]:80",
        "gateway.example:8080",
        "256.1.1.1:80",
        "http://127.0.0.1:8080",
        "127.0.0.1:8080\n",
        "unix:",
        "unix:relative.sock",
        "unix:/a\0b",
        "unix:/" + "a" * 107,
    ],
)
def test_anything_else_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        listener_address(text)


@pytest.mark.parametrize(
    "text,address",
    [
        ("http://127.0.0.1:8000", EngineAddress(Tcp("127.0.0.1", 8000), tls=False, host_field="127.0.0.1:8000")),
        ("http://localhost/", EngineAddress(Tcp("localhost", 80), tls=False, host_field="localhost")),
        ("https://engine.internal", EngineAddress(Tcp("engine.internal", 443), tls=True, host_field="engine.internal")),
        ("https://[::1]:8443", EngineAddress(Tcp("::1", 8443), tls=True, host_field="[::1]:8443")),
        ("unix:/run/vllm.sock", EngineAddress(Unix("/run/vllm.sock"), tls=False, host_field="localhost")),
    ],
)
def test_an_engine_is_an_origin_or_a_socket(text: str, address: EngineAddress) -> None:
    assert engine_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8000",
        "ftp://127.0.0.1",
        "http://",
        "http://:8000",
        "http://key@127.0.0.1:8000",
        "http://127.0.0.1:8000/v1",
        "http://127.0.0.1:8000?x",
        "http://127.0.0.1:8000#x",
        "http://127.0.0.1:0",
        "http://127.0.0.1:8000\r\n",
        "http://-engine",
        "http://[::g]",
        "HTTP://127.0.0.1",
    ],
)
def test_a_url_with_anything_more_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        engine_address(text)


@pytest.mark.parametrize(
    "text,address",
    [
        ("valkey://127.0.0.1", LedgerAddress(Tcp("127.0.0.1", 6379), tls=False)),
        ("redis://cache:6380/", LedgerAddress(Tcp("cache", 6380), tls=False)),
        ("valkeys://gateway@cache.internal/3", LedgerAddress(Tcp("cache.internal", 6379), True, 3, "gateway")),
        ("rediss://[::1]:1/0", LedgerAddress(Tcp("::1", 1), tls=True)),
        ("unix:/run/valkey.sock", LedgerAddress(Unix("/run/valkey.sock"), tls=False)),
    ],
)
def test_a_ledger_is_a_server_of_valkey_or_redis(text: str, address: LedgerAddress) -> None:
    assert ledger_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "memory://", "valkey:", "valkey://", "http://cache", "valkey://cache?db=1", "valkey://cache/x", "valkey://-:1",
     "valkey://cache/0/1", "valkey://a@b@c", "valkey://:secret@cache", "valkey://name:secret@cache",
     "unix:valkey.sock"],
)  # fmt: skip
def test_what_is_no_ledger_is_refused_without_repeating_a_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must ") as refused:
        ledger_address(text)
    assert "secret" not in str(refused.value)


def test_plain_http_beyond_loopback_is_known_as_such() -> None:
    assert engine_address("http://10.0.0.1:8000").plain_beyond_loopback
    assert engine_address("http://engine:8000").plain_beyond_loopback
    assert not engine_address("https://10.0.0.1:8000").plain_beyond_loopback
    assert not engine_address("http://127.9.9.9:8000").plain_beyond_loopback
    assert not engine_address("unix:/run/vllm.sock").plain_beyond_loopback


def test_only_this_machine_is_loopback() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"]))
    assert not any(map(is_loopback, ["0.0.0.0", "10.0.0.1", "::", "localhost.example", "2130706433", ""]))  # noqa: S104
    assert Tcp("127.0.0.1", 1).loopback
    assert Unix("/a").loopback


def test_addresses_are_written_as_people_write_them() -> None:
    assert [str(listener_address(text)) for text in ("[::1]:80", "127.0.0.1:80", "unix:/a")] == [
        "[::1]:80",
        "127.0.0.1:80",
        "unix:/a",
    ]
    assert [str(engine_address(text)) for text in ("https://e", "http://[::1]:1", "unix:/a")] == [
        "https://e:443",
        "http://[::1]:1",
        "unix:/a",
    ]
    assert [str(ledger_address(text)) for text in ("rediss://e", "redis://x@[::1]:1/2", "unix:/a")] == [
        "valkeys://e:6379/0",
        "valkey://[::1]:1/2",
        "unix:/a/0",
    ]
    assert bracketed("::1") == "[::1]"
