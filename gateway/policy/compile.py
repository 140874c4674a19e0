"""From the text of a policy file to a plane, or to everything that is wrong with it.

Enters: the text of one file, or of a set. Leaves: ``Plane``, or ``PolicyError`` with file, line and sentence. This is
the only way to a ``Plane`` from a file; nothing here knows a request. The parts are compiled by the modules named after
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from gateway.dialects.registry import FACTS
from gateway.identity.issuer import ApiKeys
from gateway.identity.resource_metadata import ResourceMetadata
from gateway.policy import compile_cases, compile_clients, compile_endpoints, compile_parameters, compile_trust
from gateway.policy.complaints import Complaints
from gateway.policy.grammar import type_document, unfit
from gateway.policy.model import Plane
from gateway.policy.source import PolicyError, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gateway.policy.document import Document
    from gateway.policy.model import Model, ParameterRules
    from gateway.policy.source import Path, Problem, Tree


@dataclass(frozen=True, slots=True)
class Policy:
    """One file, compiled, beside what it was compiled from: the plane for requests, the document for its cases."""

    plane: Plane
    document: Document
    tree: Tree


def compile_plane(text: str, source: str) -> Plane:
    """Compile the text of a policy file; ``source`` is its name in problems. Raises ``PolicyError``."""
    return compile_policy(text, source).plane


def compile_policy(text: str, source: str) -> Policy:
    """Compile the text of a policy file and keep its cases. Raises ``PolicyError``."""
    tree = read(text, source)
    problems = unfit(tree)
    try:
        policy = resolve(tree, sha256(text.encode(errors="surrogatepass")).hexdigest())
    except PolicyError as error:
        raise PolicyError([*problems, *error.problems]) from None
    if problems:
        raise PolicyError(problems)
    return policy


def compile_planes(files: Mapping[str, str]) -> list[Plane]:
    """Compile the texts of a set of files, by their names. Raises ``PolicyError`` with the problems of all."""
    policies: list[Policy] = []
    problems: list[Problem] = []
    for source, text in files.items():
        try:
            policies.append(compile_policy(text, source))
        except PolicyError as error:
            problems += error.problems
    problems += together(policies)
    if problems:
        raise PolicyError(problems)
    return [policy.plane for policy in policies]


def resolve(tree: Tree, digest: str) -> Policy:
    """Compile the data of a file whose texts are fit to be shown. Raises ``PolicyError``."""
    return resolve_document(type_document(tree), tree, digest)


def resolve_document(document: Document, tree: Tree, digest: str) -> Policy:
    """Compile what is typed already; ``tree`` gives the places of complaints. Raises ``PolicyError``."""
    complaints = Complaints(tree)
    _names(document, complaints)
    _surroundings(document, complaints)
    callers = compile_trust.callers(document.trust, complaints)
    rules = compile_parameters.parameters(document, complaints)
    limits = compile_clients.limits(document, complaints)
    models = compile_endpoints.models(document, rules, limits, complaints)
    endpoints = compile_endpoints.endpoints(document, rules, complaints)
    _not_hidden(document, endpoints, complaints)
    _no_raw_prompts(document, rules, models, complaints)
    clients = compile_clients.clients(document, callers, models, limits, rules, complaints)
    compile_clients.thinkers(document, clients, callers, complaints)
    compile_cases.cases(document, callers, endpoints, complaints)
    complaints.settle()
    plane = Plane(
        name=document.plane,
        listener=document.listener,
        summary=" ".join(document.summary.split()),
        public=document.public is not None,
        callers=callers,
        endpoints=endpoints,
        models=models,
        limits=limits,
        clients=clients,
        edge=compile_trust.edge(document.trust),
        media_hosts=frozenset(document.media.hosts if document.media is not None else ()),
        cors_origins=frozenset(document.cors.origins if document.cors is not None else ()),
        resource=document.metadata.resource if document.metadata is not None else None,
        not_enforced=tuple(_not_enforced(document)),
        digest=digest,
        source=tree.file,
    )
    return Policy(plane, document, tree)


def together(policies: Sequence[Policy]) -> list[Problem]:
    """Find what makes files impossible together: one name, listener, audience or caller with two meanings."""
    problems: list[Problem] = []
    seen: dict[tuple[str, ...], Policy] = {}
    issuers: dict[str, tuple[str, Policy]] = {}
    for policy in policies:
        for mark, path, what in _own(policy.plane):
            other = seen.setdefault(mark, policy)
            if other is not policy:
                problems.append(policy.tree.problem(path, f"{what} {other.tree.file} already"))
        for caller, issuer, path in _issuers(policy.plane):
            stated, other = issuers.setdefault(caller, (issuer, policy))
            if stated != issuer:
                sentence = f"{other.tree.file} states another issuer for `{caller}`: one name, one issuer, or two names"
                problems.append(policy.tree.problem(path, sentence))
    return problems


def _own(plane: Plane) -> Iterator[tuple[tuple[str, ...], Path, str]]:
    """Yield what a plane shares with no other: its name, its listener, its audiences."""
    yield ("plane", plane.name), ("plane",), "this is the name of the plane of"
    yield ("listener", plane.listener), ("listener",), "one listener is one plane, and this one belongs to"
    for name, caller in plane.callers.items():
        if not isinstance(caller, ApiKeys):
            path = ("trust", "callers", name, caller.kind.value, "audience")
            yield ("audience", caller.audience), path, "no two planes accept one audience, and this one belongs to"


def _issuers(plane: Plane) -> Iterator[tuple[str, str, Path]]:
    """Yield the issuer of each caller whose keys or answers the settings say where to get."""
    for name, caller in plane.callers.items():
        if not isinstance(caller, ApiKeys):
            yield name, caller.issuer, ("trust", "callers", name)
    if plane.edge is not None:
        yield compile_trust.EDGE, plane.edge.issuer, ("trust", "edge")


def _names(document: Document, complaints: Complaints) -> None:
    """Complain about names that the environment could not spell: there ``-`` is ``_``, and ``__`` ends a name."""
    spelled: list[tuple[str, Path]] = [(document.listener, ("listener",))]
    spelled += [(name, ("trust", "callers", name)) for name in document.trust.callers]
    spelled += [(keys.engine, ("models", name, "engine")) for name, keys in (document.models or {}).items()]
    spelled += [
        (keys.engine, ("endpoints", name, "engine")) for name, keys in document.endpoints.items() if keys.engine
    ]
    if document.listener == "ops":
        complaints.add(("listener",), "the listener ops is the gateway's own; a plane has another")
    for name, path in spelled:
        if "--" in name or name.endswith("-"):
            complaints.add(
                path, "settings are named after this, with _ for - and __ between names: no -- and no - at the end"
            )


def _surroundings(document: Document, complaints: Complaints) -> None:
    """Complain about what stands around the rules."""
    if document.operations is None and (document.public is not None or document.trust.edge is not None):
        complaints.add(
            ("public",) if document.public is not None else ("trust", "edge"),
            "people outside can reach this plane, so `operations` must state the facts about its deployment",
        )
    for index, host in enumerate(document.media.hosts if document.media is not None else ()):
        if host.rpartition(".")[2].isdigit():
            complaints.add(
                ("media", "hosts", index), "an address is no host name: name the host that the engine may fetch from"
            )


def _not_hidden(document: Document, endpoints: Mapping[bytes, object], complaints: Complaints) -> None:
    """Complain about an endpoint that the plane's own metadata document would hide."""
    if document.metadata is not None:
        place = ResourceMetadata.of(document.metadata.resource, (), (), document.plane).path
        if place in endpoints:
            complaints.add(("metadata", "resource"), f"an endpoint has the path of this document: {place.decode()}")


def _no_raw_prompts(
    document: Document, rules: Mapping[str, ParameterRules], models: Mapping[str, Model], complaints: Complaints
) -> None:
    """Complain about raw prompts where nobody may think: whoever writes all of a prompt can begin the thought in it."""
    forbidding = next((name for name, rule in rules.items() if rule.thinking.forbidden), None)
    thinks = next((one.alias for one in models.values() if one.most_tokens and one.thinking_switch != "none"), None)
    for name, keys in document.endpoints.items():
        if FACTS[keys.dialect].raw and forbidding is not None and thinks is not None:
            complaints.add(
                ("endpoints", name, "dialect"),
                f"`parameters.{forbidding}.thinking` lets nobody think, and a raw prompt can begin the thought of "
                f"`{thinks}`: close this endpoint, or write `thinking_switch: none` for a model that cannot think",
            )


def _not_enforced(document: Document) -> Iterator[str]:
    """Yield what the file states and this version does not do yet, as dotted keys."""
    for name, endpoint in document.endpoints.items():
        if not FACTS[endpoint.dialect].served:
            yield f"endpoints.{name}"
