"""The doctor's way through the engines: process, API, models, load; each layer of all replicas before the next one.

Enters: ``Surroundings``. Leaves: findings, told one by one. A replica whose process or API is broken is not asked
further; a model that hangs keeps the replica's other models from being tried, since they would hang as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.inquiry import Failure, Reply
from gateway.policy.thinking_trial import thinking_trials
from gateway.policy.warm_up import warm_ups
from gateway.review import engine_api_findings as api
from gateway.review import engine_findings, load_findings, model_findings
from gateway.review.diagnosis import Finding, Layer, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.dialects.openai_models import ServedModel
    from gateway.policy.model import Model
    from gateway.policy.thinking_trial import ThinkingTrial
    from gateway.policy.warm_up import WarmUp
    from gateway.review.load_findings import Load
    from gateway.review.surroundings import EngineAt, ReplicaAt, Surroundings

    Tell = Callable[[Finding], None]

_OK = 200


@dataclass(slots=True)
class _Patient:
    """One replica. ``broken``: the layer behind which nothing is asked; ``ill``: something of it is broken."""

    engine: str
    at: EngineAt
    replica: ReplicaAt
    tell: Tell
    version: Reply = field(default_factory=Reply)
    served: Mapping[str, ServedModel] = field(default_factory=dict)
    load: Load | None = None
    broken: Layer | None = None
    ill: bool = False

    @property
    def subject(self) -> str:
        return f"{self.engine} at {self.replica.name}"

    def say(self, *findings: Finding) -> None:
        for finding in findings:
            self.ill |= finding.verdict is Verdict.BROKEN
            self.tell(finding)

    def not_tried(self, layer: Layer, why: str = "", about: str = "") -> None:
        self.tell(
            Finding(layer, Verdict.NOT_TRIED, f"{about}{self.subject}", why or f"behind the broken {self.broken}")
        )


async def engine_round(site: Surroundings, tell: Tell) -> frozenset[str]:
    """Look at all engines. Gives the names of those of which something is broken."""
    used = dict.fromkeys(model.engine for plane in site.planes for model in plane.models.values())
    engines = [(name, site.engines[name]) for name in used]
    patients = [_Patient(name, at, replica, tell) for name, at in engines for replica in at.replicas]
    for patient in patients:
        await _process(site, patient)
    for patient in patients:
        await _list(site, patient)
    for patient in patients:
        served = [name for other in patients if other.engine == patient.engine for name in other.served]
        await _api(site, patient, frozenset(served))
    asked, trials = warm_ups(site.planes), thinking_trials(site.planes)
    for patient in patients:
        await _models(site, patient, [one for one in asked if one.engine == patient.engine], trials)
    for patient in patients:
        if patient.broken is None:
            patient.say(load_findings.load(patient.subject, patient.load))
        else:
            patient.not_tried(Layer.GPU)
    for finding in load_findings.gpus(await site.gpus()):
        tell(finding)
    return frozenset(patient.engine for patient in patients if patient.ill)


async def _process(site: Surroundings, patient: _Patient) -> None:
    replica, within_s = patient.replica, site.look_s
    health = await replica.ask("GET", "/health", within_s=within_s)
    patient.say(engine_findings.process(patient.subject, patient.at.variable, health))
    if patient.ill:
        patient.broken = Layer.ENGINE
        return
    patient.version = await replica.ask_keyless("GET", "/version", within_s=within_s)
    if not replica.loopback:
        patient.say(*engine_findings.over_a_network(patient.subject, patient.version))
    others = {where: await ask("GET", "/version", within_s=within_s) for where, ask in replica.elsewhere.items()}
    patient.say(*engine_findings.beside_the_gateway(patient.subject, others))


async def _list(site: Surroundings, patient: _Patient) -> None:
    """Learn what a replica serves."""
    if patient.broken is not None:
        patient.not_tried(Layer.ENGINE_API)
        return
    listed = await patient.replica.ask("GET", "/v1/models", within_s=site.look_s)
    at = patient.at
    problem, patient.served = api.models(patient.subject, at.variable, listed, has_key=at.has_key)
    if problem is not None:
        patient.say(problem)
        patient.broken = Layer.ENGINE_API


async def _api(site: Surroundings, patient: _Patient, everywhere: frozenset[str]) -> None:
    """Look at what a replica says of itself; ``everywhere``: what all replicas of its engine serve."""
    if patient.broken is not None:
        return
    ask, within_s, subject = patient.replica.ask_keyless, site.look_s, patient.subject
    wanted = _wanted(site, patient.engine)
    patient.say(api.version(subject, patient.version, patient.served))
    patient.say(*api.names(subject, wanted, patient.served, everywhere))
    patient.say(*api.aliases(subject, wanted, patient.served))
    keyless = await ask("GET", "/v1/models", within_s=within_s)
    sleeping = await ask("GET", "/is_sleeping", within_s=within_s)
    adapters = await ask("GET", "/adapters", within_s=within_s)
    doors = api.open_doors(subject, patient.at.variable, keyless=keyless, sleeping=sleeping, adapters=adapters)
    patient.say(*doors)
    hosts = api.media_hosts(site.planes, patient.engine)
    if hosts:
        info = None
        if sleeping.status == _OK:  # the first time it collects facts about its host, which takes a while
            info = await ask("GET", "/server_info?config_format=json", within_s=site.within_s)
        patient.say(api.media(subject, hosts, info))
    patient.load = load_findings.load_of(await ask("GET", "/metrics", within_s=within_s))


async def _models(
    site: Surroundings, patient: _Patient, asked: Sequence[WarmUp], trials: Sequence[ThinkingTrial]
) -> None:
    """Ask each model of a replica as callers will."""
    if patient.broken is not None:
        patient.not_tried(Layer.MODEL)
        return
    if patient.load is not None and patient.load.asleep:
        patient.say(model_findings.asleep(patient.subject))
        return
    hangs = False
    for warm_up in asked:
        about = f"{warm_up.served_as} on "
        if warm_up.served_as not in patient.served:
            patient.not_tried(Layer.MODEL, "this replica does not serve it", about)
        elif hangs:
            patient.not_tried(Layer.MODEL, "another model of this replica hangs", about)
        else:
            ask, within_s = patient.replica.ask, site.within_s
            reply = await ask(warm_up.method, warm_up.path, within_s=within_s, body=warm_up.alone)
            patient.say(model_findings.answered(f"{about}{patient.subject}", reply))
            hangs = reply.failure is Failure.SILENT
            if reply.status == _OK:
                for trial in trials:
                    if _same(trial, warm_up):
                        await _thinking(site, patient, f"{about}{patient.subject}", trial)


async def _thinking(site: Surroundings, patient: _Patient, subject: str, trial: ThinkingTrial) -> None:
    """Find out by one API whether a model thinks that should not."""
    ask, within_s = patient.replica.ask, site.within_s
    off = await ask(trial.method, trial.path, within_s=within_s, body=trial.off)
    on = None
    if trial.on is not None and off.status == _OK:
        on = await ask(trial.method, trial.path, within_s=within_s, body=trial.on)
    patient.say(model_findings.thinking(subject, trial, off, on))


def _same(trial: ThinkingTrial, warm_up: WarmUp) -> bool:
    return (trial.engine, trial.served_as) == (warm_up.engine, warm_up.served_as)


def _wanted(site: Surroundings, engine: str) -> list[Model]:
    """Give the models of all planes that an engine must serve, each name once."""
    models = (model for plane in site.planes for model in plane.models.values() if model.engine == engine)
    return list({(model.alias, model.served_as): model for model in models}.values())
