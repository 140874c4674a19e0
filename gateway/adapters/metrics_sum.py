"""The metrics of several processes as those of one.

Enters: the expositions of workers, as each last told them. Leaves: one exposition: counts and histograms added up,
those of workers that have ended included, since a count that falls would look like a restart; gauges added up over
those that live; ages, limits and versions as the largest of them.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LARGEST = frozenset({"gateway_key_set_age_seconds", "gateway_build_info", "process_max_fds"})
SMALLEST = frozenset({"gateway_tls_certificate_expires_seconds", "process_start_time_seconds"})

_Labels = tuple[tuple[str, str], ...]


class _Family:
    """One metric: its samples by name and labels."""

    def __init__(self, metric: Metric) -> None:
        self.name, self.documentation, self.type = metric.name, metric.documentation, metric.type
        self.samples: dict[tuple[str, _Labels], float] = {}

    @property
    def lasts(self) -> bool:
        """Whether what it counted stays true when its process has ended."""
        return self.type in {"counter", "histogram"}

    def add(self, samples: Iterable[tuple[tuple[str, _Labels], float]]) -> None:
        """Put samples of another process to these."""
        join: Callable[[float, float], float] = operator.add
        if self.name in LARGEST:
            join = max
        elif self.name in SMALLEST:
            join = min
        for key, value in samples:
            self.samples[key] = join(self.samples[key], value) if key in self.samples else value

    def metric(self) -> Metric:
        """Give it as the client library writes it."""
        metric = Metric(self.name, self.documentation, self.type)
        for (name, labels), value in self.samples.items():
            metric.add_sample(name, dict(labels), value)
        return metric


class MetricsSum:
    """What all workers have counted."""

    def __init__(self) -> None:
        self._told: dict[int, str] = {}
        self._ended: dict[str, _Family] = {}

    def note(self, worker: int, exposition: str) -> None:
        """Keep what a worker has told last."""
        self._told[worker] = exposition

    def end(self, worker: int) -> None:
        """Keep the counts of a worker that has ended, and forget its gauges."""
        _add(self._ended, self._told.pop(worker, ""), lasting=True)

    def render(self, *more: Metric) -> bytes:
        """Give everything in Prometheus' text format, and ``more``."""
        together: dict[str, _Family] = {}
        for name, family in self._ended.items():
            together[name] = _Family(family.metric())
            together[name].add(family.samples.items())
        for exposition in self._told.values():
            _add(together, exposition)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Given([*(family.metric() for family in together.values()), *more]))
        return generate_latest(registry)


class _Given(Collector):
    """Metrics as they are."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def _add(together: dict[str, _Family], exposition: str, *, lasting: bool = False) -> None:
    for metric in text_string_to_metric_families(exposition):
        family = together.setdefault(metric.name, _Family(metric))
        if family.lasts or not lasting:
            family.add(((sample.name, tuple(sorted(sample.labels.items()))), sample.value) for sample in metric.samples)
