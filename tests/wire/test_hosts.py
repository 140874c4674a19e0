from __future__ import annotations

import pytest

from gateway.reasons import Malformed, Reason
from gateway.wire.hosts import HostRule, is_host

LOOPBACK = HostRule.of_tcp(8080, [], loopback=True)


def _reason(rule: HostRule, host: bytes | None) -> Reason:
    with pytest.raises(Malformed) as refused:
        rule.check(host)
    return refused.value.reason


@pytest.mark.parametrize("host", [b"127.0.0.1:8080", b"[::1]:8080", b"localhost:8080", b"LocalHost:8080"])
def test_a_loopback_listener_serves_its_own_names_with_its_port(host: bytes) -> None:
    assert LOOPBACK.check(host) == host.decode().lower()


@pytest.mark.parametrize(
    "host", [b"localhost", b"127.0.0.1", b"127.0.0.1:8081", b"127.0.0.2:8080", b"evil.example", b"evil.example:8080"]
)
def test_it_serves_no_other_names(host: bytes) -> None:
    assert _reason(LOOPBACK, host) is Reason.HOST_NOT_SERVED


@pytest.mark.parametrize(
    "host",
    [
        None,
        b"",
        b":8080",
        b"127.0.0.1:8080?",
        b"127.0.0.1:8080/v1/models?",
        b"user@127.0.0.1:8080",
        b"127.0.0.1:8080#",
        b"127.0.0.1:8080, evil.example",
        b"127.0.0.1:x",
        b"127.0.0.1:",
        b"127.0.0.1:123456",
        b"[::1",
        b"a b",
        b"h\xc3\xa9.example",
        b"evil.example%2f",
    ],
)
def test_what_is_no_host_is_malformed_on_every_listener(host: bytes | None) -> None:
    for rule in (LOOPBACK, HostRule.of_unix(), HostRule.of_tcp(9090, [], loopback=False, ip_literals=True)):
        assert _reason(rule, host) is Reason.HEADERS_MALFORMED


@pytest.mark.parametrize("port", [80, 443])
def test_a_listener_on_a_default_port_serves_names_without_it(port: int) -> None:
    rule = HostRule.of_tcp(port, [], loopback=True)
    assert rule.check(b"localhost") == "localhost"
    assert rule.check(b"localhost:%d" % port)


def test_a_configured_name_without_a_port_stands_for_the_default_ports_and_the_listener_s() -> None:
    rule = HostRule.of_tcp(8080, ["LLM.example.com"], loopback=False)
    for host in (b"llm.example.com", b"llm.example.com:443", b"llm.example.com:80", b"LLM.EXAMPLE.COM:8080"):
        rule.check(host)
    assert _reason(rule, b"llm.example.com:8443") is Reason.HOST_NOT_SERVED
    assert _reason(rule, b"localhost:8080") is Reason.HOST_NOT_SERVED


def test_a_configured_port_counts() -> None:
    rule = HostRule.of_tcp(8080, ["llm.example.com:8443", "other.example:443", "[2001:db8::1]"], loopback=True)
    rule.check(b"llm.example.com:8443")
    rule.check(b"other.example")
    rule.check(b"[2001:DB8::1]:8080")
    rule.check(b"localhost:8080")
    assert _reason(rule, b"llm.example.com") is Reason.HOST_NOT_SERVED


@pytest.mark.parametrize("host", [b"10.2.3.4:9090", b"10.2.3.4", b"[2001:db8::1]:9090", b"127.0.0.1:1"])
def test_the_ops_listener_serves_any_address(host: bytes) -> None:
    assert HostRule.of_tcp(9090, [], loopback=False, ip_literals=True).check(host) == host.decode()


@pytest.mark.parametrize("host", [b"evil.example:9090", b"10.2.3", b"[10.2.3.4]", b"256.1.1.1"])
def test_the_ops_listener_serves_no_name(host: bytes) -> None:
    assert _reason(HostRule.of_tcp(9090, [], loopback=False, ip_literals=True), host) is Reason.HOST_NOT_SERVED


def test_a_unix_socket_serves_any_host() -> None:
    assert HostRule.of_unix().check(b"Anything.example:1") == "anything.example:1"


def test_a_rule_without_anything_serves_nobody() -> None:
    assert _reason(HostRule(), b"localhost") is Reason.HOST_NOT_SERVED


def test_a_configured_text_can_be_checked_beforehand() -> None:
    assert is_host("llm.example.com")
    assert is_host("[::1]:80")
    assert not is_host("https://llm.example.com")
    assert not is_host("h\u00e9.example")
