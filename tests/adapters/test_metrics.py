from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway import __version__
from gateway.adapters.metrics import BUCKETS_S, Metrics
from gateway.adapters.server_certificate import ServerCertificate, TlsFiles
from gateway.audit import AuditRecord, Verdict
from gateway.dialects.call import Usage
from gateway.reasons import Reason
from tests.simulators.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path


def _samples(metrics: Metrics) -> dict[str, float]:
    """Give the samples of the exposition by name and labels, as an independent reader sees them."""
    return {
        " ".join([sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))]): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def _record(**facts: object) -> AuditRecord:
    record = AuditRecord(time=0.0, id="0", plane="partner")
    for name, value in facts.items():
        setattr(record, name, value)
    return record


def test_each_request_is_counted_once_by_what_became_of_it() -> None:
    metrics = Metrics()
    permitted = _record(endpoint="chat", client="acme", verdict=Verdict.PERMIT)
    for record in (permitted, permitted, _record(verdict=Verdict.DENY, reason=Reason.NO_SUCH_ENDPOINT)):
        metrics.observe(record)
    samples = _samples(metrics)
    name = "gateway_decisions_total client={} endpoint={} plane=partner reason={} verdict={}"
    assert samples[name.format("acme", "chat", "-", "permit")] == 2
    assert samples[name.format("-", "-", "no-such-endpoint", "deny")] == 1


def test_requests_to_engines_are_counted_by_status() -> None:
    metrics = Metrics()
    metrics.observe(_record(engine="main", engine_status=200))
    metrics.observe(_record(engine="main"))
    metrics.observe(_record())
    samples = {name: value for name, value in _samples(metrics).items() if name.startswith("gateway_engine_requests_t")}
    assert samples == {
        "gateway_engine_requests_total engine=main status=200": 1,
        "gateway_engine_requests_total engine=main status=-": 1,
    }


def test_tokens_are_counted_by_client_model_and_kind() -> None:
    metrics = Metrics()
    metrics.observe(_record(client="acme", model="local", usage=Usage(10, 20, 5)))
    metrics.observe(_record(client="acme", model="local", usage=Usage(1, None, None)))
    metrics.observe(_record(client="acme", model="local"))
    assert {name: value for name, value in _samples(metrics).items() if name.startswith("gateway_tokens_total")} == {
        "gateway_tokens_total client=acme kind=prompt model=local plane=partner": 11,
        "gateway_tokens_total client=acme kind=completion model=local plane=partner": 20,
        "gateway_tokens_total client=acme kind=reasoning model=local plane=partner": 5,
    }


def test_those_who_wait_for_an_engine_are_told() -> None:
    metrics = Metrics()
    for _ in range(3):
        metrics.began_to_wait("main")
    metrics.waits_no_longer("main")
    assert _samples(metrics)["gateway_requests_waiting engine=main"] == 2


def test_places_that_are_held_are_told_by_client() -> None:
    held = {("partner", "acme"): 2}
    samples = _samples(Metrics(open_requests=lambda: held))
    assert samples["gateway_requests_open client=acme plane=partner"] == 2


def test_the_time_of_each_phase_goes_into_its_histogram() -> None:
    metrics = Metrics()
    metrics.observe(_record(head_ms=0.5, judge_ms=1.0, first_byte_ms=30.0, total_ms=700_000.0))
    metrics.observe(_record(total_ms=1.0))
    metrics.observe(_record())
    samples = _samples(metrics)
    assert samples["gateway_phase_seconds_bucket le=0.0005 phase=head"] == 1
    assert samples["gateway_phase_seconds_bucket le=0.0005 phase=judge"] == 0
    assert samples["gateway_phase_seconds_bucket le=0.001 phase=judge"] == 1
    assert samples["gateway_phase_seconds_bucket le=600.0 phase=total"] == 1
    assert samples["gateway_phase_seconds_bucket le=+Inf phase=total"] == 2
    assert samples["gateway_phase_seconds_count phase=total"] == 2
    assert samples["gateway_phase_seconds_sum phase=total"] == pytest.approx(700.001)
    assert samples["gateway_phase_seconds_count phase=first_byte"] == 1
    assert list(BUCKETS_S) == sorted(BUCKETS_S)


def test_open_streams_go_up_and_down() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.stream_opened("partner", "main")
    metrics.stream_closed("partner", "main")
    assert _samples(metrics)["gateway_streams_open engine=main plane=partner"] == 1
    metrics.stream_closed("partner", "main")
    assert _samples(metrics)["gateway_streams_open engine=main plane=partner"] == 0


def test_what_has_no_record_is_counted_too() -> None:
    metrics = Metrics(lambda: {"partner-idp": 12.5})
    metrics.parser_refused()
    metrics.handshake_failed("public")
    samples = _samples(metrics)
    assert samples["gateway_tls_handshakes_failed_total listener=public"] == 1
    assert samples["gateway_parser_refused_total"] == 1
    assert samples["gateway_key_set_age_seconds caller=partner-idp"] == 12.5
    assert samples[f"gateway_build_info version={__version__}"] == 1


def test_the_end_of_a_listeners_certificate_comes_nearer(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ours").server(lasts=timedelta(hours=2))
    metrics = Metrics()
    name = "gateway_tls_certificate_expires_seconds listener=public"
    assert name not in _samples(metrics)
    metrics.certificates = {"public": ServerCertificate(TlsFiles("GATEWAY_TLS__PUBLIC", pair.cert, pair.key))}
    first = _samples(metrics)[name]
    assert 7100 < first <= 7200
    assert _samples(metrics)[name] < first


def test_one_whose_end_cannot_be_told_has_no_such_metric(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ours").server()
    certificate = ServerCertificate(TlsFiles("GATEWAY_TLS__PUBLIC", pair.cert, pair.key))
    certificate.expires = None
    metrics = Metrics()
    metrics.certificates = {"public": certificate}
    assert "gateway_tls_certificate_expires_seconds listener=public" not in _samples(metrics)


def test_many_are_added_up_as_few_are() -> None:
    """They are added up a few hundred at a time, and when somebody reads."""
    metrics = Metrics()
    for number in range(1000):
        metrics.observe(_record(client="acme", engine="main", engine_status=200, total_ms=number / 10))
        if number == 700:
            metrics.render()
    samples = _samples(metrics)
    assert samples["gateway_engine_requests_total engine=main status=200"] == 1000
    assert samples["gateway_phase_seconds_count phase=total"] == 1000
    assert samples["gateway_phase_seconds_bucket le=0.05 phase=total"] == 501
    assert samples["gateway_phase_seconds_sum phase=total"] == pytest.approx(49.95)


def test_the_process_itself_is_measured() -> None:
    assert _samples(Metrics())["process_open_fds"] > 0


def test_no_text_of_a_caller_becomes_a_label() -> None:
    """METRICS-01, METRICS-03: whatever is asked for, the number of series stays the same."""
    metrics = Metrics()
    for number in range(100):
        metrics.observe(
            _record(
                target=b"/secret-%d" % number,
                subject=f"secret-{number}",
                model=f"secret-{number}",
                client_request_id=f"secret-{number}",
                peer=f"secret-{number}",
                method=f"secret-{number}",
                detail=f"secret-{number}",
                verdict=Verdict.DENY,
                reason=Reason.NO_SUCH_ENDPOINT,
            )
        )
    text = metrics.render().decode()
    assert "secret" not in text
    assert text.count("gateway_decisions_total{") == 1
