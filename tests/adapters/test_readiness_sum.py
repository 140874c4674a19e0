from __future__ import annotations

from typing import Any

import orjson

from gateway.adapters.ops import EngineReadiness, PlaneReadiness, Readiness, ReplicaReadiness, Workers
from gateway.adapters.readiness_sum import together


def report(*, ready: bool, in_flight: int = 0, engine: str = "main", problems: tuple[str, ...] = ()) -> Any:  # noqa: ANN401  (JSON)
    """Give what a worker says, as it comes over the line."""
    replica = ReplicaReadiness(ready, "serving" if ready else "warming up", (), in_flight)
    engines = {engine: EngineReadiness(ready, replicas={"http://engine": replica})}
    plane = PlaneReadiness(ready, "f" * 64, "public", open=True, engines=engines)
    return orjson.loads(orjson.dumps(Readiness(ready, {"demo": plane}, problems)))


def replica(planes: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
    found: dict[str, Any] = planes["demo"]["engines"]["main"]["replicas"]["http://engine"]
    return found


def test_one_worker_that_is_ready_makes_a_gateway_that_is_and_its_view_is_shown() -> None:
    found = together(
        [report(ready=False, in_flight=1), report(ready=True, in_flight=2)], of=3, running=2, draining=False
    )
    assert (found.ready, found.workers, found.problems) == (True, Workers(3, 2, 1), ())
    assert replica(found.planes) == {"ready": True, "state": "serving", "missing": [], "in_flight": 3}


def test_without_one_the_view_of_some_worker_says_why() -> None:
    found = together([report(ready=False, problems=("the ledger does not answer",))], of=2, running=1, draining=False)
    assert (found.ready, found.workers, found.problems) == (False, Workers(2, 1, 0), ("the ledger does not answer",))
    assert replica(found.planes)["state"] == "warming up"


def test_a_gateway_that_drains_is_not_ready_whatever_its_workers_say() -> None:
    reports = [report(ready=True), report(ready=False, problems=("draining",))]
    found = together(reports, of=2, running=2, draining=True)
    assert (found.ready, found.workers, found.problems) == (False, Workers(2, 2, 0), ("draining",))


def test_nobody_who_answers_is_a_problem_of_its_own() -> None:
    found = together([], of=2, running=0, draining=False)
    assert (found.ready, found.planes, found.problems) == (False, {}, ("no worker answers",))


def test_workers_may_know_other_engines_while_policies_change() -> None:
    found = together(
        [report(ready=True, in_flight=2), report(ready=True, engine="other")], of=2, running=2, draining=False
    )
    assert replica(found.planes)["in_flight"] == 2
