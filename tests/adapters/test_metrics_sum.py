from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from gateway.adapters.metrics import Metrics
from gateway.adapters.metrics_sum import MetricsSum
from gateway.audit import AuditRecord


def told(requests: int, *, streams: int = 0, age_s: float = 1.0, milliseconds: float = 20.0) -> str:
    """Give what a worker tells that has served so many requests."""
    metrics = Metrics(lambda: {"corp": age_s})
    for _ in range(requests):
        metrics.observe(AuditRecord(0.0, "0" * 32, plane="demo", total_ms=milliseconds))
    for _ in range(streams):
        metrics.stream_opened("demo", "main")
    return metrics.render().decode()


def values(together: MetricsSum) -> dict[str, float]:
    """Read the sum as Prometheus does; samples by name, those of a histogram with their bucket."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(together.render().decode()):
        for sample in family.samples:
            name = sample.name + ("≤" + sample.labels["le"] if "le" in sample.labels else "")
            found[name] = found.get(name, 0.0) + sample.value
    return found


def test_counts_histograms_and_gauges_are_added_up_and_ages_are_the_largest() -> None:
    together = MetricsSum()
    together.note(1, told(3, streams=1, age_s=5.0))
    together.note(2, told(4, streams=2, age_s=7.0, milliseconds=2000.0))
    found = values(together)
    assert found["gateway_decisions_total"] == 7
    assert (found["gateway_phase_seconds_bucket≤0.025"], found["gateway_phase_seconds_bucket≤+Inf"]) == (3, 7)
    assert (found["gateway_phase_seconds_count"], round(found["gateway_phase_seconds_sum"], 3)) == (7, 8.06)
    assert found["gateway_streams_open"] == 3
    assert (found["gateway_key_set_age_seconds"], found["gateway_build_info"]) == (7, 1)


def test_what_a_worker_told_last_counts_and_not_what_it_told_before() -> None:
    together = MetricsSum()
    together.note(1, told(3))
    together.note(1, told(5))
    assert values(together)["gateway_decisions_total"] == 5


def test_the_counts_of_a_worker_that_has_ended_stay_and_its_gauges_go() -> None:
    together = MetricsSum()
    for requests in (3, 4):
        together.note(1, told(requests, streams=2))
        together.end(1)
        assert "gateway_streams_open" not in values(together)
    together.end(2)
    assert values(together)["gateway_decisions_total"] == 7
    together.note(1, told(1, streams=1))
    found = values(together)
    assert (found["gateway_decisions_total"], found["gateway_phase_seconds_count"]) == (8, 8)
    assert (found["gateway_streams_open"], values(together)["gateway_decisions_total"]) == (1, 8)


def test_a_process_is_as_old_as_its_oldest_part_and_uses_what_all_parts_use() -> None:
    together = MetricsSum()
    line = "# TYPE {0} {1}\n{0} {2}\n"
    for worker, (since, octets) in enumerate([(100, 30), (90, 12)]):
        parts = [
            ("process_start_time_seconds", "gauge", since),
            ("process_resident_memory_bytes", "gauge", octets),
            ("gateway_tls_certificate_expires_seconds", "gauge", since),
        ]
        together.note(worker, "".join(line.format(*part) for part in parts))
    found = values(together)
    assert (found["process_start_time_seconds"], found["process_resident_memory_bytes"]) == (90, 42)
    assert found["gateway_tls_certificate_expires_seconds"] == 90


def test_what_the_supervisor_knows_besides_stands_with_it() -> None:
    together = MetricsSum()
    assert b"gateway_workers 2.0" in together.render(GaugeMetricFamily("gateway_workers", "Workers.", value=2))
