from __future__ import annotations

import pytest

from gateway.inquiry import Reply
from gateway.review.diagnosis import Verdict
from gateway.review.load_findings import Load, gpus, load, load_of
from tests.review.patients import KEYLESS, METRICS


def test_the_engines_own_numbers_are_read() -> None:
    assert load_of(Reply(200, {}, METRICS)) == Load(2, 0, 0.25, asleep=False)


def test_several_cores_are_added_and_the_fullest_cache_counts() -> None:
    other = METRICS.replace(b'engine="0"', b'engine="1"').replace(b"0.25", b"0.5")
    assert load_of(Reply(200, {}, METRICS + other)) == Load(4, 0, 0.5, asleep=False)


def test_one_that_sleeps_says_so() -> None:
    seen = load_of(Reply(200, {}, METRICS.replace(b'"awake"} 1.0', b'"awake"} 0.0')))
    assert seen is not None
    assert seen.asleep


@pytest.mark.parametrize(
    "reply", [KEYLESS, Reply(200, {}, b"<html>"), Reply(200, {}, b"vllm:num_requests_running NaN\n")]
)
def test_an_engine_without_metrics_is_told_as_that(reply: Reply) -> None:
    assert load_of(reply) is None
    assert load("main", None).verdict is Verdict.WARNING


@pytest.mark.parametrize(
    "seen, verdict, do",
    [
        (Load(), Verdict.OK, ""),
        (Load(256, 4, 0.8), Verdict.OK, ""),
        (Load(256, 4, 0.99), Verdict.WARNING, "IN_FLIGHT"),
        (Load(0, 4, 0.0), Verdict.WARNING, "the core stands still"),
    ],
)
def test_what_is_at_its_end_is_warned_of(seen: Load, verdict: Verdict, do: str) -> None:
    found = load("main", seen)
    assert found.verdict is verdict
    assert do in found.do
    assert found.saw == f"{seen.running} running, {seen.waiting} waiting, KV cache {seen.cache_fill:.0%} full"


ROW = "0, NVIDIA H100 80GB HBM3, 97, 75000, 81559, 61, 0"


@pytest.mark.parametrize(
    "said, verdict, subject, saw",
    [
        (None, Verdict.NOT_TRIED, "", "there is no nvidia-smi on this host"),
        ((True, f"{ROW}\n"), Verdict.OK, "GPU 0 (NVIDIA H100 80GB HBM3)", "97 % busy, 75000 of 81559 MiB, 61 °C"),
        ((True, ROW.replace(" 61", " [N/A]")), Verdict.OK, "GPU 0 (NVIDIA H100 80GB HBM3)", "[N/A] °C"),
        ((True, ROW.replace(" 61", " 93")), Verdict.WARNING, "GPU 0 (NVIDIA H100 80GB HBM3)", "93 °C"),
        ((True, ROW[:-1] + "7"), Verdict.BROKEN, "GPU 0 (NVIDIA H100 80GB HBM3)", "7 ECC errors"),
        ((True, ROW[:-1] + "[N/A]"), Verdict.OK, "GPU 0 (NVIDIA H100 80GB HBM3)", "97 % busy"),
        ((False, "NVIDIA-SMI has failed\nbecause"), Verdict.BROKEN, "nvidia-smi", "NVIDIA-SMI has failed because"),
        ((True, "No devices were found"), Verdict.BROKEN, "nvidia-smi", "No devices were found"),
        ((True, ""), Verdict.BROKEN, "nvidia-smi", "it failed, and said nothing"),
    ],
)
def test_the_driver_is_believed_for_each_gpu(
    said: tuple[bool, str] | None, verdict: Verdict, subject: str, saw: str
) -> None:
    (found,) = gpus(said)
    assert (found.verdict, found.subject) == (verdict, subject)
    assert saw in found.saw


def test_each_gpu_has_a_line() -> None:
    assert [one.subject for one in gpus((True, f"{ROW}\n{ROW.replace('0,', '1,', 1)}\n"))] == [
        "GPU 0 (NVIDIA H100 80GB HBM3)",
        "GPU 1 (NVIDIA H100 80GB HBM3)",
    ]
