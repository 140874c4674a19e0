"""Whether this process can do its work, as its engines' circuits and its key sets are at the moment.

Enters: the planes in force, the engines, the key sets. Leaves: a ``Readiness`` that names what is missing. An engine is
ready when a replica of it has answered a warm-up and lists each model that the policy promises; a caller whose
credentials are signed, and the lock of the edge, when the keys are at hand. Keys of the policy and opaque tokens need
nothing beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.adapters.authenticator import signers_of
from gateway.adapters.ops import CallerReadiness, EngineReadiness, PlaneReadiness, Readiness, ReplicaReadiness
from gateway.engine.circuit import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.adapters.engine import Engine, EngineReplica
    from gateway.adapters.key_sets import KeySets
    from gateway.policy.model import Plane


def readiness(
    planes: Iterable[Plane],
    engines: Mapping[str, Engine],
    key_sets: KeySets,
    *,
    draining: bool,
) -> Readiness:
    """Report the state of the process; ready when each plane has its keys and at least one ready engine."""
    ages = key_sets.ages_s()
    reports: dict[str, PlaneReadiness] = {}
    for plane in planes:
        callers = {name: CallerReadiness(ready=True) for name in plane.callers}
        callers.update({name: _signed_for(ages.get(name)) for name in signers_of(plane)})
        needed = {name: _engine(plane, engines[name]) for name in _engines(plane)}
        served = not needed or any(engine.ready for engine in needed.values())
        ready = served and all(caller.ready for caller in callers.values())
        reports[plane.name] = PlaneReadiness(
            ready, plane.digest, plane.listener, not draining, plane.not_enforced, callers, needed
        )
    problems = ("draining",) if draining else ()
    return Readiness(not draining and all(report.ready for report in reports.values()), reports, problems)


def _signed_for(age_s: float | None) -> CallerReadiness:
    """Report on a caller whose credentials are signed: without its issuer's keys nobody can come this way."""
    return CallerReadiness(age_s is not None, age_s, "" if age_s is not None else "no keys of the issuer yet")


def _engines(plane: Plane) -> Mapping[str, None]:
    return dict.fromkeys(model.engine for model in plane.models.values())


def _engine(plane: Plane, engine: Engine) -> EngineReadiness:
    """Report on an engine: ready when one of its replicas is, for everything that the policy promises of it."""
    promised = {model.alias: model.served_as for model in plane.models.values() if model.engine == engine.name}
    replicas = {replica.name: _replica(replica, promised) for replica in engine.replicas}
    listed = {name for replica in engine.ready for name in replica.served}
    present = tuple(alias for alias, name in promised.items() if name in listed)
    missing = tuple(alias for alias, name in promised.items() if name not in listed)
    if not engine.ready:
        state = next(iter(replicas.values())).state
    else:
        state = "a model is not served" if missing else "serving"
    return EngineReadiness(not missing and bool(engine.ready), state, present, missing, replicas)


def _replica(replica: EngineReplica, promised: Mapping[str, str]) -> ReplicaReadiness:
    circuit = replica.circuit
    missing = tuple(alias for alias, name in promised.items() if name not in replica.served)
    if circuit.closed:
        state = "a model is not served" if missing else "serving"
    else:
        state = circuit.why if circuit.state is State.OPEN else f"warming up after: {circuit.why}"
    return ReplicaReadiness(circuit.closed and not missing, state, missing, replica.in_flight)
