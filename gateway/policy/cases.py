"""The cases of a policy file, run: each is judged as a request would be, and held against what it promises.

Enters: a compiled file. Leaves: ``Failure`` for each case that does not hold. The file says who asks, when and from
where; what it leaves out is chosen so that only the rule under test can refuse.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.identity.principal import CredentialKind, Principal
from gateway.policy.compile_cases import repeats
from gateway.policy.days import day_before
from gateway.policy.document_cases import ShownKeyKeys
from gateway.policy.document_clients import GroupKeys
from gateway.policy.promises import differences
from gateway.policy.trial import Request, answer

if TYPE_CHECKING:
    from gateway.policy.compile import Policy
    from gateway.policy.document_cases import PersonKeys
    from gateway.policy.model import Client, Plane
    from gateway.policy.promises import Difference
    from gateway.policy.source import Problem

ELSEWHERE: Final = "192.0.2.1"  # an address of documentation (RFC 5737), in no network that anybody has
SOME_DAY: Final = "2000-01-01"  # where no key has a last day, the day makes no difference


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that does not hold: where it stands, and each promise with what came instead."""

    problem: Problem
    name: str
    differences: tuple[Difference, ...]


def requests_of(policy: Policy) -> tuple[Request, ...]:
    """Write out the requests of all cases, with bodies as a client would send them."""
    return tuple(
        request_of(policy, case.who, case.ask, b"" if case.body is None else _written(case.body), case.date)
        for case in policy.document.cases.expect
    )


def run(policy: Policy) -> tuple[Failure, ...]:
    """Run all cases of a file; give those that do not hold."""
    failures = []
    for index, (case, request) in enumerate(zip(policy.document.cases.expect, requests_of(policy), strict=True)):
        found = tuple(differences(case, answer(policy.plane, request)))
        if found:
            problem = policy.tree.problem(("cases", "expect", index), "this case does not hold")
            failures.append(Failure(problem, case.name, found))
    return tuple(failures)


def request_of(policy: Policy, who: str, ask: str, body: bytes, date: str | None = None) -> Request:
    """Write out a request by a caller of the cases; what is not said is chosen so that it refuses nothing by itself."""
    person = policy.document.cases.who[who]
    method, _, target = ask.partition(" ")
    client = policy.plane.clients[person.client] if person.client is not None else None
    return Request(
        method=method,
        target=target.encode(errors="surrogatepass"),
        principal=_principal(policy.plane, person, client),
        address=person.address or (_inside(client) if client is not None else ELSEWHERE),
        today=date or default_day(policy.plane),
        body=body,
    )


def default_day(plane: Plane) -> str:
    """Give a day on which every key of a plane is still good."""
    last_days = [key.not_after for client in plane.clients.values() for key in client.keys if key.not_after is not None]
    return day_before(min(last_days)) if last_days else SOME_DAY


def _principal(plane: Plane, person: PersonKeys, client: Client | None) -> Principal | None:
    """Give the credential that a caller of the cases bears, as if it had been verified; ``None`` for none."""
    groups = frozenset(person.groups or ())
    if client is not None:
        caller = client.caller
        shown = client.keys[0].sha256 if client.keys else client.id
        groups |= {client.group} if client.group is not None else frozenset()
    elif person.is_ is not None:
        ((caller, proof),) = person.is_.items()
        shown = proof.sha256 if isinstance(proof, ShownKeyKeys) else proof if isinstance(proof, str) else None
        groups |= {proof.group} if isinstance(proof, GroupKeys) else frozenset()
    else:
        return None
    kind = plane.callers[caller].kind
    # A person of a group has an id of its own, which is nobody's: ids in a policy hold no spaces.
    known_by = shown or "a person of the group"
    subject = None if kind is CredentialKind.API_KEY else known_by
    return Principal(caller, kind, known_by, subject, groups, frozenset(person.scopes or ()))


def _inside(client: Client) -> str:
    """Give an address from which a client may come: one inside its first network, if it is bound to any."""
    if not client.networks:
        return ELSEWHERE
    network = client.networks[0]
    return str(network[min(1, network.num_addresses - 1)])


def _written(body: Any) -> bytes:  # noqa: ANN401  (a JSON value)
    text = json.dumps(_expanded(body), ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="surrogatepass")


def _expanded(value: Any) -> Any:  # noqa: ANN401  (a JSON value)
    """Write repetitions out."""
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not repeats(value):
        return {key: _expanded(item) for key, item in value.items()}
    if "as" in value:
        return value["repeat"] * value["times"]
    return [_expanded(value["repeat"])] * value["times"]
