"""What is counted, and the text that Prometheus reads.

Enters: the audit record of each request, and a few events that have none. Leaves: the exposition of the ops listener.
Labels hold names of the policy, reasons and status codes, never a text of a caller, so their number is bounded.
Counts are plain numbers of one event loop and become metric families only when somebody reads them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from gateway import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client import Metric

    from gateway.audit import AuditRecord

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# From the gateway's own work (below a millisecond) to the longest answer (the deadline TOTAL).
BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0)
_TOGETHER = 256  # requests whose times are sorted into the buckets at a time, or before they are read
_BUCKETS_MS = tuple(seconds * 1000 for seconds in BUCKETS_S)
_LABELS = [*map(str, BUCKETS_S), "+Inf"]
_NONE = "-"


class _Histogram:
    """Observations by number of the bucket; the last one has no upper bound."""

    __slots__ = ("counts", "total_ms")

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total_ms = 0.0


class Metrics(Collector):
    """The counts of one process.

    ``key_set_ages`` gives seconds since the last good fetch, by caller; ``open_requests`` those that hold a place, by
    plane and client.
    """

    def __init__(
        self,
        key_set_ages: Callable[[], Mapping[str, float]] = dict,
        open_requests: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self._key_set_ages = key_set_ages
        self._open_requests = open_requests
        self._decisions: Counter[tuple[str, ...]] = Counter()
        self._engine_requests: Counter[tuple[str, int | None]] = Counter()
        self._streams: Counter[tuple[str, ...]] = Counter()
        self._waiting: Counter[str] = Counter()
        self._tokens: Counter[tuple[str, ...]] = Counter()
        self._parser_refused = 0
        self._handshakes_failed: Counter[str] = Counter()
        self._phases = {phase: _Histogram() for phase in ("head", "judge", "first_byte", "total")}
        self._times: list[tuple[float | None, ...]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def observe(self, record: AuditRecord) -> None:
        """Count one request."""
        reason = record.reason
        # Values instead of members: the hash of a member is a call of Python.
        self._decisions[
            record.plane,
            record.endpoint or _NONE,
            record.client or _NONE,
            record.verdict._value_,
            _NONE if reason is None else reason._value_,
        ] += 1
        if record.engine is not None:
            self._engine_requests[record.engine, record.engine_status] += 1
        usage = record.usage
        if usage is not None:
            tokens = self._tokens
            whose = (record.plane, record.client or _NONE, record.model or _NONE)
            tokens[(*whose, "prompt")] += usage.prompt or 0
            tokens[(*whose, "completion")] += usage.completion or 0
            tokens[(*whose, "reasoning")] += usage.reasoning or 0
        self._times.append((record.head_ms, record.judge_ms, record.first_byte_ms, record.total_ms))
        if len(self._times) >= _TOGETHER:
            self._sort_in()

    def _sort_in(self) -> None:
        """Put the times that were gathered into the histograms of their phases."""
        times, self._times = self._times, []
        for histogram, observed in zip(self._phases.values(), zip(*times, strict=True), strict=False):
            known = [milliseconds for milliseconds in observed if milliseconds is not None]
            histogram.counts.update(map(bisect_left, repeat(_BUCKETS_MS), known))
            histogram.total_ms += sum(known)

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
        decisions = CounterMetricFamily(
            "gateway_decisions",
            "Requests by what became of them.",
            labels=["plane", "endpoint", "client", "verdict", "reason"],
        )
        streams = GaugeMetricFamily("gateway_streams_open", "Event streams under way.", labels=["plane", "engine"])
        requests = CounterMetricFamily(
            "gateway_engine_requests", "Requests to engines by status code.", labels=["engine", "status"]
        )
        ages = GaugeMetricFamily(
            "gateway_key_set_age_seconds", "Time since the key set of a caller's issuer was fetched.", labels=["caller"]
        )
        build = GaugeMetricFamily("gateway_build_info", "The version that runs; always 1.", labels=["version"])
        phases = HistogramMetricFamily("gateway_phase_seconds", "Time spent in phases of requests.", labels=["phase"])
        for labels, count in self._decisions.items():
            decisions.add_metric(labels, count)
        for labels, count in self._streams.items():
            streams.add_metric(labels, count)
        waiting = GaugeMetricFamily("gateway_requests_waiting", "Requests that wait for an engine.", labels=["engine"])
        for engine, count in self._waiting.items():
            waiting.add_metric([engine], count)
        tokens = CounterMetricFamily(
            "gateway_tokens",
            "Tokens as counted; those of reasoning are among those of completion.",
            labels=["plane", "client", "model", "kind"],
        )
        for labels, count in self._tokens.items():
            tokens.add_metric(labels, count)
        places = GaugeMetricFamily(
            "gateway_requests_open", "Requests that hold a place of their client's.", labels=["plane", "client"]
        )
        for labels, count in self._open_requests().items():
            places.add_metric(labels, count)
        for (engine, status), count in self._engine_requests.items():
            requests.add_metric([engine, str(status or _NONE)], count)
        for caller, age_s in self._key_set_ages().items():
            ages.add_metric([caller], age_s)
        build.add_metric([__version__], 1)
        self._sort_in()
        for phase, histogram in self._phases.items():
            sums = map(float, accumulate(histogram.counts[bucket] for bucket in range(len(_LABELS))))
            phases.add_metric([phase], list(zip(_LABELS, sums, strict=True)), histogram.total_ms / 1000)
        refused = CounterMetricFamily(
            "gateway_parser_refused", "Messages that were no valid HTTP request.", value=self._parser_refused
        )
        handshakes = CounterMetricFamily(
            "gateway_tls_handshakes_failed", "Connections that came to no TLS.", labels=["listener"]
        )
        for listener, count in self._handshakes_failed.items():
            handshakes.add_metric([listener], count)
        families = (decisions, phases, streams, places, waiting, requests, tokens, refused, handshakes, ages, build)
        return iter(families)
