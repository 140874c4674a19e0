"""Whether this process can do its work: asked of the engines and the key sets each time somebody wants to know.

Enters: the planes in force, the catalogue, the key sets. Leaves: a ``Readiness`` that names what is missing. An engine
is ready when it answers for each model that the policy promises; a caller whose credentials are signed, and the lock of
the edge, when the keys are at hand. Keys of the policy and opaque tokens need nothing beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.adapters.authenticator import signers_of
from gateway.adapters.ops import CallerReadiness, EngineReadiness, PlaneReadiness, Readiness
from gateway.reasons import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.adapters.key_sets import KeySets
    from gateway.policy.model import Plane
    from gateway.ports import Catalogue


async def readiness(planes: Iterable[Plane], catalogue: Catalogue, key_sets: KeySets, *, draining: bool) -> Readiness:
    """Report the state of the process; ready when each plane has its keys and at least one ready engine."""
    ages = key_sets.ages_s()
    reports: dict[str, PlaneReadiness] = {}
    for plane in planes:
        callers = {name: CallerReadiness(ready=True) for name in plane.callers}
        callers.update({name: _signed_for(ages.get(name)) for name in signers_of(plane)})
        engines = {name: await _engine(plane, name, catalogue) for name in _engines(plane)}
        served = not engines or any(engine.ready for engine in engines.values())
        ready = served and all(caller.ready for caller in callers.values())
        reports[plane.name] = PlaneReadiness(
            ready, plane.digest, plane.listener, not draining, plane.not_enforced, callers, engines
        )
    problems = ("draining",) if draining else ()
    return Readiness(not draining and all(report.ready for report in reports.values()), reports, problems)


def _signed_for(age_s: float | None) -> CallerReadiness:
    """Report on a caller whose credentials are signed: without its issuer's keys nobody can come this way."""
    return CallerReadiness(age_s is not None, age_s, "" if age_s is not None else "no keys of the issuer yet")


def _engines(plane: Plane) -> Mapping[str, None]:
    return dict.fromkeys(model.engine for model in plane.models.values())


async def _engine(plane: Plane, engine: str, catalogue: Catalogue) -> EngineReadiness:
    promised = {model.served_as: model.alias for model in plane.models.values() if model.engine == engine}
    try:
        served = await catalogue.served(engine)
    except Unavailable as unavailable:
        detail = f" ({unavailable.detail})" if unavailable.detail else ""
        return EngineReadiness(ready=False, state=f"{unavailable.reason}{detail}", missing=tuple(promised.values()))
    missing = tuple(alias for name, alias in promised.items() if name not in served)
    present = tuple(alias for name, alias in promised.items() if name in served)
    return EngineReadiness(not missing, "serving" if not missing else "a model is not served", present, missing)
