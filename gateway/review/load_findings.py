"""What an engine's own numbers and its GPUs say: whether it sleeps, how full it is, what the driver sees.

Enters: the text of ``/metrics`` (Prometheus, as vLLM 0.32 writes it) and the output of ``nvidia-smi``. Leaves: findings
of the layer ``GPU``. Numbers of one moment are no trend, so only what is at its end is warned of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.review.diagnosis import Finding, Layer, Verdict, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.inquiry import Reply

QUERY: Final = (
    "index,name,utilization.gpu,memory.used,memory.total,temperature.gpu,ecc.errors.uncorrected.volatile.total"
)
"""What ``nvidia-smi --query-gpu`` is asked for, with ``--format=csv,noheader,nounits``."""

_OK: Final = 200
_FULL: Final = 0.95
_HOT: Final = 90
_SERIES = re.compile(r"^vllm:([a-z_]+)(?:\{([^}\n]*)\})? ([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?)$", re.MULTILINE)
_COLUMNS: Final = len(QUERY.split(","))


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine says of itself; numbers of several cores are added, of fill the highest counts."""

    running: int = 0
    waiting: int = 0
    cache_fill: float = 0.0
    asleep: bool = False


def load_of(reply: Reply) -> Load | None:
    """Read the metrics; ``None`` where an engine shows none."""
    if reply.status != _OK:
        return None
    text = reply.body.decode("utf-8", "replace")
    found: dict[str, list[tuple[str, float]]] = {}
    for name, labels, value in _SERIES.findall(text):
        found.setdefault(name, []).append((labels, float(value)))
    if "num_requests_running" not in found:
        return None
    awake = [value for labels, value in found.get("engine_sleep_state", []) if 'sleep_state="awake"' in labels]
    return Load(
        round(sum(value for _, value in found["num_requests_running"])),
        round(sum(value for _, value in found.get("num_requests_waiting", []))),
        max((value for _, value in found.get("kv_cache_usage_perc", [])), default=0.0),
        bool(awake) and not any(awake),
    )


def load(subject: str, seen: Load | None) -> Finding:
    """Say how full an engine is."""
    if seen is None:
        return Finding(
            Layer.GPU,
            Verdict.WARNING,
            subject,
            "shows no metrics, so how full it is cannot be said",
            "start vLLM without --disable-log-stats",
        )
    numbers = f"{seen.running} running, {seen.waiting} waiting, KV cache {seen.cache_fill:.0%} full"
    if seen.waiting and seen.cache_fill >= _FULL:
        do = "shorter answers (most_tokens), fewer at one time (IN_FLIGHT), more memory, or more replicas"
        return Finding(Layer.GPU, Verdict.WARNING, subject, numbers, do)
    if seen.waiting and not seen.running:
        do = "requests wait and none runs: the core stands still or is paused; the engine's log, nvidia-smi"
        return Finding(Layer.GPU, Verdict.WARNING, subject, numbers, do)
    return Finding(Layer.GPU, Verdict.OK, subject, numbers)


def gpus(said: tuple[bool, str] | None) -> Iterator[Finding]:
    """Read the driver's table: ``said`` is whether ``nvidia-smi`` went well, and what it wrote."""
    if said is None:
        saw = "there is no nvidia-smi on this host, so the engines' own numbers are all"
        yield Finding(Layer.GPU, Verdict.NOT_TRIED, "", saw)
        return
    well, text = said
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if not well or not rows or any(len(row) != _COLUMNS for row in rows):
        yield Finding(
            Layer.GPU,
            Verdict.BROKEN,
            "nvidia-smi",
            told(text) or "it failed, and said nothing",
            "the driver or a GPU is gone: dmesg (Xid, NVRM); restart the host if it stays",
        )
        return
    for index, name, used, memory, of_memory, heat, errors in rows:
        subject = f"GPU {told(index, 8)} ({told(name, 40)})"
        numbers = f"{told(used, 8)} % busy, {told(memory, 12)} of {told(of_memory, 12)} MiB, {told(heat, 8)} °C"
        if errors.isdigit() and int(errors):
            saw = f"{numbers}; {errors} ECC errors that could not be mended"
            yield Finding(Layer.GPU, Verdict.BROKEN, subject, saw, "drain this host and reset the GPU: nvidia-smi -r")
        elif heat.isdigit() and int(heat) >= _HOT:
            yield Finding(
                Layer.GPU, Verdict.WARNING, subject, numbers, "too hot: it slows itself down; look at the fans"
            )
        else:
            yield Finding(Layer.GPU, Verdict.OK, subject, numbers)
