"""Whether this process can do its work: asked of the engines and the key sets each time somebody wants to know.

Enters: the planes in force, the catalogue, the key sets. Leaves: a ``Readiness`` that names what is missing. An engine
is ready when it answers for each model that the policy promises; a token caller when its issuer's keys are at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.adapters.ops import CallerReadiness, EngineReadiness, PlaneReadiness, Readiness
from gateway.identity.issuer import AccessTokenIssuer, ApiKeys
from gateway.reasons import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.adapters.key_sets import KeySets
    from gateway.identity.issuer import CallerTrust
    from gateway.policy.model import Plane
    from gateway.ports import Catalogue


async def readiness(
    planes: Iterable[Plane], catalogue: Catalogue, key_sets: KeySets, not_enforced: tuple[str, ...], *, draining: bool
) -> Readiness:
    """Report the state of the process; ready when each plane has its keys and at least one ready engine."""
    ages = key_sets.ages_s()
    reports: dict[str, PlaneReadiness] = {}
    for plane in planes:
        callers = {name: _caller(trust, ages.get(name)) for name, trust in plane.callers.items()}
        engines = {name: await _engine(plane, name, catalogue) for name in _engines(plane)}
        served = not engines or any(engine.ready for engine in engines.values())
        ready = served and all(caller.ready for caller in callers.values())
        reports[plane.name] = PlaneReadiness(
            ready, plane.digest, plane.listener, not draining, plane.not_enforced, callers, engines
        )
    problems = ("draining",) if draining else ()
    return Readiness(not draining and all(report.ready for report in reports.values()), reports, not_enforced, problems)


def _caller(trust: CallerTrust, age_s: float | None) -> CallerReadiness:
    if isinstance(trust, ApiKeys):
        return CallerReadiness(ready=True)
    if isinstance(trust, AccessTokenIssuer):
        return CallerReadiness(age_s is not None, age_s, "" if age_s is not None else "no keys of the issuer yet")
    # Nobody can come this way in this version, so nothing is missing; not_enforced says it.
    return CallerReadiness(ready=True, detail="not served by this version")


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
