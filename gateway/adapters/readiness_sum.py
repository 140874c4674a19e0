"""Whether several processes together can do their work.

Enters: what each worker says of itself, as JSON. Leaves: one report in the same form: ready when a worker is, with that
worker's view of planes and engines, the open requests of all of them, and how many of how many are ready.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.adapters.ops import Workers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Together:
    """The report; ``planes`` as in ``Readiness``."""

    ready: bool
    planes: Mapping[str, Any]
    problems: tuple[str, ...]
    workers: Workers


def together(reports: Sequence[Mapping[str, Any]], *, of: int, running: int, draining: bool) -> Together:
    """Make one report of those of the workers that answered, of which so many should run and so many do."""
    ready = [report for report in reports if report["ready"]]
    shown: Mapping[str, Any] = next(iter([*ready, *reports]), {"planes": {}, "problems": []})
    planes: dict[str, Any] = shown["planes"]
    for name, plane in planes.items():
        for engine, report in plane["engines"].items():
            for replica, one in report["replicas"].items():
                one["in_flight"] = sum(_in_flight(other, name, engine, replica) for other in reports)
    problems = [*(("draining",) if draining else ()), *(why for why in shown["problems"] if why != "draining")]
    if not reports:
        problems.append("no worker answers")
    return Together(
        bool(ready) and not draining, planes, tuple(problems), Workers(of, running, 0 if draining else len(ready))
    )


def _in_flight(report: Mapping[str, Any], plane: str, engine: str, replica: str) -> int:
    try:
        return int(report["planes"][plane]["engines"][engine]["replicas"][replica]["in_flight"])
    except KeyError:
        return 0  # it has other policies at the moment
