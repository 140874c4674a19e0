"""What is counted, and the text that Prometheus reads.

Enters: the audit record of each request, and a few events that have none. Leaves: the exposition of the ops listener.
Labels hold names of the policy, reasons and status codes, never a text of a caller, so their number is bounded.
Counts are plain numbers of one event loop and become metric families only when somebody reads them.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from gateway import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client import Metric

    from gateway.adapters.server_certificate import ServerCertificate
    from gateway.audit import AuditRecord

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# From the gateway's own work (below a millisecond) to the longest answer (the deadline TOTAL).
BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0)
_TOGETHER = 256  # requests that are added up at a time, or before somebody reads
_BUCKETS_MS = tuple(seconds * 1000 for seconds in BUCKETS_S)
_LABELS = [*map(str, BUCKETS_S), "+Inf"]
_NONE = "-"


class _Histogram:
    """Observations: how many were at most each bound, how many there were, and their sum."""

    __slots__ = ("at_most", "count", "total_ms")

    def __init__(self) -> None:
        self.at_most = [0] * len(_BUCKETS_MS)
        self.count = 0
        self.total_ms = 0.0

    def add(self, observed: list[float]) -> None:
        """Add some, which costs far less together than one by one; they are sorted in place."""
        self.total_ms += sum(observed)
        self.count += len(observed)
        observed.sort()
        for bucket, bound in enumerate(_BUCKETS_MS):
            self.at_most[bucket] += bisect_right(observed, bound)

    def buckets(self) -> list[tuple[str, float]]:
        """Give them as the client library wants them."""
        return [(label, float(count)) for label, count in zip(_LABELS, (*self.at_most, self.count), strict=True)]


class _Outcome:
    """Requests of which the same became, and the tokens of those that tell theirs."""

    __slots__ = ("completion", "prompt", "reasoning", "requests")

    def __init__(self) -> None:
        self.requests = self.prompt = self.completion = self.reasoning = 0


class Metrics(Collector):
    """The counts of one process.

    ``key_set_ages`` gives seconds since the last good fetch, by caller; ``open_requests`` those that hold a place, by
    plane and client. ``certificates``: what listeners show, to be set by whoever reads the files.
    """

    certificates: Mapping[str, ServerCertificate] = MappingProxyType({})

    def __init__(
        self,
        key_set_ages: Callable[[], Mapping[str, float]] = dict,
        open_requests: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self._key_set_ages = key_set_ages
        self._open_requests = open_requests
        self._outcomes: dict[tuple[Any, ...], _Outcome] = {}
        self._streams: Counter[tuple[str, ...]] = Counter()
        self._waiting: Counter[str] = Counter()
        self._parser_refused = 0
        self._handshakes_failed: Counter[str] = Counter()
        self._phases = {phase: _Histogram() for phase in ("head", "judge", "first_byte", "total")}
        self._noted: list[AuditRecord] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def observe(self, record: AuditRecord) -> None:
        """Count one request. Nobody changes its record from here on."""
        self._noted.append(record)
        if len(self._noted) >= _TOGETHER:
            self._sort_in()

    def _sort_in(self) -> None:
        """Add up what was gathered."""
        noted, self._noted = self._noted, []
        outcomes = self._outcomes
        for record in noted:
            usage = record.usage
            key = (
                record.plane,
                record.endpoint,
                record.client,
                record.verdict,
                record.reason,
                record.engine,
                record.engine_status,
                None if usage is None else record.model or _NONE,
            )
            outcome = outcomes.get(key)
            if outcome is None:
                outcome = outcomes[key] = _Outcome()
            outcome.requests += 1
            if usage is not None:
                outcome.prompt += usage.prompt or 0
                outcome.completion += usage.completion or 0
                outcome.reasoning += usage.reasoning or 0
        phases = self._phases
        phases["head"].add([ms for record in noted if (ms := record.head_ms) is not None])
        phases["judge"].add([ms for record in noted if (ms := record.judge_ms) is not None])
        phases["first_byte"].add([ms for record in noted if (ms := record.first_byte_ms) is not None])
        phases["total"].add([ms for record in noted if (ms := record.total_ms) is not None])

    def stream_opened(self, plane: str, engine: str) -> None:
        """Count an event stream that has begun."""
        self._streams[plane, engine] += 1

    def stream_closed(self, plane: str, engine: str) -> None:
        """Count one that has ended, in whatever way."""
        self._streams[plane, engine] -= 1

    def began_to_wait(self, engine: str) -> None:
        """Count a request that waits for an engine."""
        self._waiting[engine] += 1

    def waits_no_longer(self, engine: str) -> None:
        """Count one that got its turn, gave up, or was sent away."""
        self._waiting[engine] -= 1

    def parser_refused(self) -> None:
        """Count bytes that were no HTTP request."""
        self._parser_refused += 1

    def handshake_failed(self, listener: str) -> None:
        """Count a connection that came to no TLS."""
        self._handshakes_failed[listener] += 1

    def render(self) -> bytes:
        """Give everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Make the metric families; ``render`` calls this through the registry."""
        decisions, phases, requests, tokens = self._of_records()
        streams = GaugeMetricFamily("gateway_streams_open", "Event streams under way.", labels=["plane", "engine"])
        for labels, count in self._streams.items():
            streams.add_metric(labels, count)
        places = GaugeMetricFamily(
            "gateway_requests_open", "Requests that hold a place of their client's.", labels=["plane", "client"]
        )
        for labels, count in self._open_requests().items():
            places.add_metric(labels, count)
        waiting = GaugeMetricFamily("gateway_requests_waiting", "Requests that wait for an engine.", labels=["engine"])
        for engine, count in self._waiting.items():
            waiting.add_metric([engine], count)
        refused = CounterMetricFamily(
            "gateway_parser_refused", "Messages that were no valid HTTP request.", value=self._parser_refused
        )
        handshakes = CounterMetricFamily(
            "gateway_tls_handshakes_failed", "Connections that came to no TLS.", labels=["listener"]
        )
        for listener, count in self._handshakes_failed.items():
            handshakes.add_metric([listener], count)
        expiries = GaugeMetricFamily(
            "gateway_tls_certificate_expires_seconds",
            "Time until the certificate of a listener ends; below zero it has ended.",
            labels=["listener"],
        )
        now = time.time()
        for listener, certificate in self.certificates.items():
            if certificate.expires is not None:
                expiries.add_metric([listener], certificate.expires - now)
        ages = GaugeMetricFamily(
            "gateway_key_set_age_seconds", "Time since the key set of a caller's issuer was fetched.", labels=["caller"]
        )
        for caller, age_s in self._key_set_ages().items():
            ages.add_metric([caller], age_s)
        build = GaugeMetricFamily("gateway_build_info", "The version that runs; always 1.", labels=["version"])
        build.add_metric([__version__], 1)
        of_connections = (refused, handshakes, expiries)
        return iter((decisions, phases, streams, places, waiting, requests, tokens, *of_connections, ages, build))

    def _of_records(self) -> tuple[Metric, Metric, Metric, Metric]:
        """Make the families of what records tell: decisions, phases, requests to engines, tokens."""
        self._sort_in()
        decided: Counter[tuple[str, ...]] = Counter()
        asked: Counter[tuple[str, str]] = Counter()
        spent: Counter[tuple[str, ...]] = Counter()
        for (plane, endpoint, client, verdict, reason, engine, status, model), outcome in self._outcomes.items():
            whose = client or _NONE
            decided[plane, endpoint or _NONE, whose, verdict.value, reason.value if reason else _NONE] += (
                outcome.requests
            )
            if engine is not None:
                asked[engine, str(status or _NONE)] += outcome.requests
            if model is not None:
                spent[plane, whose, model, "prompt"] += outcome.prompt
                spent[plane, whose, model, "completion"] += outcome.completion
                spent[plane, whose, model, "reasoning"] += outcome.reasoning
        decisions = CounterMetricFamily(
            "gateway_decisions",
            "Requests by what became of them.",
            labels=["plane", "endpoint", "client", "verdict", "reason"],
        )
        requests = CounterMetricFamily(
            "gateway_engine_requests", "Requests to engines by status code.", labels=["engine", "status"]
        )
        tokens = CounterMetricFamily(
            "gateway_tokens",
            "Tokens as counted; those of reasoning are among those of completion.",
            labels=["plane", "client", "model", "kind"],
        )
        for family, counts in ((decisions, decided), (requests, asked), (tokens, spent)):
            for labels, count in counts.items():
                family.add_metric(labels, count)
        phases = HistogramMetricFamily("gateway_phase_seconds", "Time spent in phases of requests.", labels=["phase"])
        for phase, histogram in self._phases.items():
            phases.add_metric([phase], histogram.buckets(), histogram.total_ms / 1000)
        return decisions, phases, requests, tokens
