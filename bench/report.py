"""Tables and goals from the figures of run.py; ``python bench/report.py FILE…`` writes them again."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Rows = dict[str, list[dict[str, Any]]]
NONE = "-"


def spread(values: list[float], digits: int) -> str:
    """Write the median and, of several values, the smallest and the largest."""
    if not values:
        return NONE
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def ratios(rows: Rows, of: str, to: str, key: str) -> list[float]:
    """Divide one candidate's figure by another's, round by round."""
    pairs = zip(rows.get(of, []), rows.get(to, []), strict=False)
    return [a[key] / b[key] for a, b in pairs if a.get(key) and b.get(key)]


def table(test: str, rows: Rows, arguments: str = "") -> str:
    """Write one test's figures as a Markdown table."""
    streamed = any(r["chunks"] for results in rows.values() for r in results)
    unit, rate = ("chunk", "cps") if streamed else ("req", "rps")
    head = ["candidate", f"{unit}s/s", "cpu", f"µs/{unit}", "CPU vs nginx"]
    memory = any(r["kb_per_stream"] for results in rows.values() for r in results)
    if streamed:
        head += ["recv/chunk", "first chunk p50/p99 ms", "one-way p50/p99 µs", "gap p99 ms"]
    else:
        head += ["latency p50/p99 µs"]
    head += [*(["KB/stream"] if memory else []), "RSS MiB", "errs", "other"]
    rounds = max((len(results) for results in rows.values()), default=0)
    lines = [f"\n#### {test}: `{arguments}`, rounds: {rounds}", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, results in rows.items():
        if not results:
            continue
        middle = lambda key, scale=1.0, results=results: statistics.median(r[key] / scale for r in results)  # noqa: E731
        cells = [
            name,
            spread([r[rate] for r in results], 0),
            f"{middle('cpu'):.2f}",
            spread([r["us_per"] for r in results if r["us_per"]], 1),
            spread(ratios(rows, "nginx", name, "us_per"), 2),
        ]
        if streamed:
            received = [r["recvs"] / r["chunks"] for r in results if r["chunks"]]
            cells += [
                spread(received, 2).split(" ")[0],
                f"{middle('ttf_p50', 1e3):.2f} / {middle('ttf_p99', 1e3):.1f}",
                f"{middle('ow_p50'):.0f} / {middle('ow_p99'):.0f}",
                f"{middle('gap_p99', 1e3):.1f}",
            ]
        else:
            cells += [f"{middle('lat_p50'):.0f} / {middle('lat_p99'):.0f}"]
        if memory:
            cells.append(f"{middle('kb_per_stream'):.1f}")
        cells += [f"{middle('rss'):.0f}", f"{sum(r['errs'] for r in results)}"]
        cells.append(f"{middle('other'):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _added(rows: Rows) -> list[float]:
    pairs = zip(rows.get("gateway", []), rows.get("direct", []), strict=False)
    return [(a["ow_p50"] - b["ow_p50"]) / 1e3 for a, b in pairs]


def _memory(rows: Rows) -> list[float]:
    return [r["kb_per_stream"] for r in rows.get("gateway", [])]


GOALS: list[tuple[str, str, Callable[[Rows], list[float]], str, float]] = [
    ("chunks/s, 64 streams at full speed, of nginx", "st64", lambda r: ratios(r, "gateway", "nginx", "cps"), "≥", 0.9),
    (
        "CPU efficiency per chunk, 200 streams at 20 ms, of that of nginx",
        "p200",
        lambda r: ratios(r, "nginx", "gateway", "us_per"),
        "≥",
        0.6,
    ),
    ("the same, all streams in step", "s200", lambda r: ratios(r, "nginx", "gateway", "us_per"), "≥", 0.6),
    (
        "requests/s, not streamed, of vllm-router",
        "ns64",
        lambda r: ratios(r, "gateway", "vllm_router", "rps"),
        "≥",
        1.0,
    ),
    ("median one-way time added to a chunk, ms", "m200", _added, "<", 0.3),
    ("memory per open stream, KB", "rss1000", _memory, "<", 20),
]


def goals(results: dict[str, Rows]) -> str:
    """Write what was to be reached, what was, and whether the median round reached it."""
    lines = [
        "\n#### Goals (medians over rounds; ratios are taken within a round)",
        "",
        "| goal | test | measured | to reach | |",
        "|---|---|---|---|---|",
    ]
    for name, test, figures, sense, bound in GOALS:
        values = figures(results.get(test, {}))
        if not values:
            verdict = "not measured"
        else:
            median = statistics.median(values)
            verdict = "reached" if (median >= bound if sense == "≥" else median < bound) else "**missed**"
        lines.append(f"| {name} | {test} | {spread(values, 2)} | {sense} {bound} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    for file in sys.argv[1:]:
        figures = json.loads(Path(file).read_text())
        for test, rows in figures.items():
            print(table(test, rows))
        print(goals(figures))
