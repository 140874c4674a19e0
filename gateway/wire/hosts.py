"""Which values of Host a listener serves.

Enters: the names and addresses of a listener at start-up, then the Host field of each request. Leaves: the host in
lower case, or a refusal. It never decides where a request goes: DNS rebinding and requests meant for another origin
end here, nothing more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# RFC 9110 §7.2    Host = uri-host [ ":" port ]
# RFC 3986 §3.2.2  host = IP-literal / IPv4address / reg-name ;  reg-name = *( unreserved / pct-encoded / sub-delims )
# Narrower on purpose: an empty reg-name, percent-encoding and sub-delims occur in no served name. "?", "/", "@" and
# "#" are not in the grammar; with them a Host rewrote the path that a framework saw (CVE-2026-48710).
_HOST = re.compile(rb"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._~-]{1,255}))(?::[0-9]{1,5})?")

_LOOPBACK = ("127.0.0.1", "[::1]", "localhost")
# A name without a port also stands for the default ports, whichever the edge in front of the gateway speaks (RFC 9110
# §4.2).
_DEFAULT_PORTS = (80, 443)


@dataclass(frozen=True, slots=True)
class HostRule:
    """The hosts of one listener. ``served``: exact values in lower case; the two switches accept more.

    ``names``: the texts of those that are served, for whoever need not know why another is not.
    """

    served: frozenset[bytes] = frozenset()
    ip_literals: bool = False
    anything: bool = False
    names: Mapping[bytes, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Have the texts ready."""
        object.__setattr__(self, "names", {name: name.decode("ascii") for name in self.served})

    @classmethod
    def of_tcp(cls, port: int, hosts: Iterable[str], *, loopback: bool, ip_literals: bool = False) -> HostRule:
        """Make the rule of a TCP listener: the configured hosts, and on loopback its own names with the port."""
        served = {f"{name}:{port}" for name in _LOOPBACK} if loopback else set()
        if loopback and port in _DEFAULT_PORTS:
            served.update(_LOOPBACK)
        for host in hosts:
            served.add(host)
            if _port_of(host) is None:
                served.update(f"{host}:{number}" for number in (*_DEFAULT_PORTS, port))
            elif _port_of(host) in _DEFAULT_PORTS:
                served.add(host.rpartition(":")[0])
        return cls(frozenset(name.lower().encode("ascii") for name in served), ip_literals=ip_literals)

    @classmethod
    def of_unix(cls) -> HostRule:
        """Make the rule of a Unix socket, which no browser and no DNS name can reach."""
        return cls(anything=True)

    def check(self, host: bytes | None) -> str:
        """Give the host in lower case. Raises ``Malformed`` with ``HEADERS_MALFORMED`` or ``HOST_NOT_SERVED``."""
        if host is None:
            raise Malformed(Reason.HEADERS_MALFORMED, "the host field is missing")
        lowered = host.lower()
        if lowered not in self.served:
            match = _HOST.fullmatch(host)
            if match is None:
                raise Malformed(Reason.HEADERS_MALFORMED, "the host field is not a host with an optional port")
            if not self.anything and not (self.ip_literals and _is_address(*match.groups())):
                raise Malformed(Reason.HOST_NOT_SERVED)
        return lowered.decode("ascii")


def is_host(text: str) -> bool:
    """Tell whether a configured text is a valid value of Host."""
    return text.isascii() and _HOST.fullmatch(text.encode("ascii")) is not None


def _port_of(host: str) -> int | None:
    """Find the port of a valid host; the colons of an IPv6 literal are inside brackets."""
    _, colon, port = host.rpartition("]")[2].rpartition(":")
    return int(port) if colon else None


def _is_address(literal: bytes | None, name: bytes | None) -> bool:
    try:
        return bool(IPv6Address(literal.decode()) if literal is not None else IPv4Address((name or b"").decode()))
    except AddressValueError:
        return False
