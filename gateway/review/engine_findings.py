"""What tells whether an engine's process is there, works, and can be reached by the gateway alone.

Enters: replies of one replica. Leaves: findings of the layer ``engine``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.inquiry import Failure
from gateway.review.diagnosis import Finding, Layer, Verdict
from gateway.review.json_reading import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.inquiry import Reply

_OK, _SERVER_ERROR = 200, 500
_DO: Final[Mapping[Failure, str]] = {
    Failure.REFUSED: "nobody listens there: is vLLM running (journalctl -u vllm), on this address? {variable}__URLS",
    Failure.NO_SOCKET: "vLLM has made no socket there: is it running with --uds and this path? {variable}__URLS",
    Failure.NOT_PERMITTED: "the socket is there, and this process may not use it: its group, its mode, its folder's",
    Failure.NO_NAME: "mend the host name in {variable}__URLS, or this host's resolver",
    Failure.NOT_REACHED: "is there a route to it? {variable}__URLS, firewalls",
    Failure.NO_CONNECTION: "packets are dropped on the way, or the host is down: {variable}__URLS, firewalls",
    Failure.TLS: "the scheme in {variable}__URLS, and the authority in {variable}__CA_FILE",
    Failure.SILENT: "its API process stands still: the end of its log, nvidia-smi; restart it",
    Failure.BROKE_OFF: "it may be going down, or starting: its log; dmesg for the OOM killer",
    Failure.NOT_HTTP: "something else listens there: {variable}__URLS",
}


def remedy(failure: Failure, variable: str) -> str:
    """Say what to do about an engine that cannot be asked; ``variable`` is its section of the settings."""
    return _DO[failure].format(variable=variable)


def process(subject: str, variable: str, health: Reply) -> Finding:
    """Tell whether the engine's process is there, and says that it works."""
    if health.failure is not None:
        return _found(Verdict.BROKEN, subject, health.why, remedy(health.failure, variable))
    if health.status >= _SERVER_ERROR:
        saw = f"/health says {health.status}: the engine core died, and its API still answers"
        do = "the engine's log above the error, nvidia-smi; it must be restarted"
        return _found(Verdict.BROKEN, subject, saw, do)
    if health.status != _OK:
        saw = f"answers, and /health says {health.status}, as vLLM never does"
        return _found(Verdict.WARNING, subject, saw, f"is it vLLM, or something in front of it? {variable}__URLS")
    return _found(Verdict.OK, subject, "answers, and /health says 200")


def beside_the_gateway(subject: str, elsewhere: Mapping[str, Reply]) -> Iterator[Finding]:
    """Find addresses on which others may reach an engine that is meant for this host alone."""
    for address, reply in elsewhere.items():
        if reply.status == _OK and "version" in read(reply.body):
            saw = f"the same port answers on {address}: whoever reaches this host can go past the gateway"
            yield _found(Verdict.WARNING, subject, saw, "start vLLM with --host 127.0.0.1, or better --uds PATH")


def over_a_network(subject: str, version: Reply) -> Iterator[Finding]:
    """Warn of an engine that a network leads to, since most of its paths ask for no key."""
    if version.status == _OK:
        saw = "is reached over a network, and answers /version without a key, as it does /invocations and /metrics"
        do = "let only the gateway's host reach this port: firewall, security group, or network policy"
        yield _found(Verdict.WARNING, subject, saw, do)


def _found(verdict: Verdict, subject: str, saw: str, do: str = "") -> Finding:
    return Finding(Layer.ENGINE, verdict, subject, saw, do)
