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
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
    """One replica. ``broken``: the layer at which it is not worth asking further."""

    engine: str
    at: EngineAt
    replica: ReplicaAt
    version: Reply = field(default_factory=Reply)
    served: Mapping[str, ServedModel] = field(default_factory=dict)
    load: Load | None = None
    broken: Layer | None = None

    @property
    def subject(self) -> str:
        return f"{self.engine} at {self.replica.name}"

    def behind(self, layer: Layer) -> Finding:
        return Finding(layer, Verdict.NOT_TRIED, self.subject, f"behind the broken {self.broken}")


async def engine_round(site: Surroundings, tell: Tell) -> None:
    """Look at all engines."""
    used = dict.fromkeys(model.engine for plane in site.planes for model in plane.models.values())
    patients = [_Patient(name, site.engines[name], replica) for name in used for replica in site.engines[name].replicas]
    for patient in patients:
        await _process(site, patient, tell)
    for patient in patients:
        await _list(site, patient, tell)
    for patient in patients:
        await _api(site, patient, [other.served for other in patients if other.engine == patient.engine], tell)
    asked, trials = warm_ups(site.planes), thinking_trials(site.planes)
    for patient in patients:
        await _models(site, patient, asked, trials, tell)
    for patient in patients:
        if patient.broken in {Layer.ENGINE, Layer.ENGINE_API}:
            tell(patient.behind(Layer.GPU))
        else:
            tell(load_findings.load(patient.subject, patient.load))
    for finding in load_findings.gpus(await site.gpus()):
        tell(finding)


async def _process(site: Surroundings, patient: _Patient, tell: Tell) -> None:
    health = await patient.replica.ask("GET", "/health", within_s=site.look_s)
    finding = engine_findings.process(patient.subject, patient.at.variable, health)
    tell(finding)
    if finding.verdict is Verdict.BROKEN:
        patient.broken = Layer.ENGINE
        return
    patient.version = await patient.replica.ask_keyless("GET", "/version", within_s=site.look_s)
    if not patient.replica.loopback:
        for finding in engine_findings.over_a_network(patient.subject, patient.version):
            tell(finding)
    elsewhere = {
        address: await ask("GET", "/version", within_s=site.look_s)
        for address, ask in patient.replica.elsewhere.items()
    }
    for finding in engine_findings.beside_the_gateway(patient.subject, elsewhere):
        tell(finding)


async def _list(site: Surroundings, patient: _Patient, tell: Tell) -> None:
    """Learn what a replica serves."""
    if patient.broken is not None:
        tell(patient.behind(Layer.ENGINE_API))
        return
    listed = await patient.replica.ask("GET", "/v1/models", within_s=site.look_s)
    has_key = patient.at.has_key
    problem, patient.served = api.models(patient.subject, patient.at.variable, listed, has_key=has_key)
    if problem is not None:
        tell(problem)
        patient.broken = Layer.ENGINE_API


async def _api(site: Surroundings, patient: _Patient, listed: Iterable[Mapping[str, ServedModel]], tell: Tell) -> None:
    """Look at what a replica says of itself; ``listed``: what all replicas of its engine serve."""
    if patient.broken is not None:
        return
    replica, within_s = patient.replica, site.look_s
    tell(api.version(patient.subject, patient.version, patient.served))
    everywhere = frozenset(name for served in listed for name in served)
    for finding in api.names(patient.subject, _wanted(site, patient.engine), patient.served, everywhere):
        tell(finding)
    sleeping = await replica.ask_keyless("GET", "/is_sleeping", within_s=within_s)
    adapters = await replica.ask_keyless("GET", "/adapters", within_s=within_s)
    keyless = await replica.ask_keyless("GET", "/v1/models", within_s=within_s)
    for finding in api.open_doors(
        patient.subject, patient.at.variable, keyless=keyless, sleeping=sleeping, adapters=adapters
    ):
        tell(finding)
    hosts = api.media_hosts(site.planes, patient.engine)
    if hosts:
        info = None
        if sleeping.status == _OK:  # the first time it collects facts about the host, which takes a while
            info = await replica.ask_keyless("GET", "/server_info?config_format=json", within_s=site.within_s)
        tell(api.media(patient.subject, hosts, info))
    patient.load = load_findings.load_of(await replica.ask_keyless("GET", "/metrics", within_s=within_s))


async def _models(
    site: Surroundings, patient: _Patient, asked: Sequence[WarmUp], trials: Sequence[ThinkingTrial], tell: Tell
) -> None:
    """Ask each model of a replica as callers will."""
    if patient.broken is not None:
        tell(patient.behind(Layer.MODEL))
        return
    if patient.load is not None and patient.load.asleep:
        tell(model_findings.asleep(patient.subject))
        return
    hangs = False
    for warm_up in [one for one in asked if one.engine == patient.engine]:
        subject = f"{warm_up.served_as} on {patient.subject}"
        if warm_up.served_as not in patient.served:
            saw = "not served by this replica"
            tell(Finding(Layer.MODEL, Verdict.NOT_TRIED, subject, saw))
        elif hangs:
            tell(Finding(Layer.MODEL, Verdict.NOT_TRIED, subject, "another model of this replica hangs"))
        else:
            ask, within_s = patient.replica.ask, site.within_s
            reply = await ask(warm_up.method, warm_up.path, within_s=within_s, body=warm_up.alone)
            tell(model_findings.answered(subject, reply))
            hangs = reply.failure is Failure.SILENT
            if reply.status == _OK:
                await _thinking(site, patient, subject, [one for one in trials if _same(one, warm_up)], tell)


async def _thinking(
    site: Surroundings, patient: _Patient, subject: str, trials: Iterable[ThinkingTrial], tell: Tell
) -> None:
    """Find out by each API whether a model thinks that should not."""
    for trial in trials:
        ask, within_s = patient.replica.ask, site.within_s
        off = await ask(trial.method, trial.path, within_s=within_s, body=trial.off)
        on = None
        if trial.on is not None and off.status == _OK:
            on = await ask(trial.method, trial.path, within_s=within_s, body=trial.on)
        tell(model_findings.thinking(subject, trial, off, on))


def _same(trial: ThinkingTrial, warm_up: WarmUp) -> bool:
    return (trial.engine, trial.served_as) == (warm_up.engine, warm_up.served_as)


def _wanted(site: Surroundings, engine: str) -> list[Model]:
    """Give the models of all planes that an engine must serve, each name once."""
    models = (model for plane in site.planes for model in plane.models.values() if model.engine == engine)
    return list({(model.alias, model.served_as): model for model in models}.values())
