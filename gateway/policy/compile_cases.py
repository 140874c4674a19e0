"""``cases`` compiled: that they speak of this file, and of all of it.

Enters: the typed document and the plane. Leaves: nothing but complaints: names that do not resolve, callers that no
credential could be, bodies that are no bodies, endpoints and clients that no case shows. The cases are run by
``cases``.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from gateway.identity.issuer import ApiKeys
from gateway.policy.compile_clients import NO_GROUPS, bears_scopes, trust_groups
from gateway.policy.days import is_day
from gateway.policy.document_cases import ShownKeyKeys
from gateway.policy.document_clients import GroupKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.identity.issuer import CallerTrust
    from gateway.policy.complaints import Complaints
    from gateway.policy.document import Document
    from gateway.policy.document_cases import CaseKeys, PersonKeys
    from gateway.policy.model import Endpoint
    from gateway.policy.source import Path

LARGEST_TEXT: Final = 32 * 1024 * 1024  # characters that one {repeat: …} may make
_REPEAT: Final = ({"repeat", "times"}, {"repeat", "times", "as"})


def cases(
    document: Document,
    callers: Mapping[str, CallerTrust],
    endpoints: Mapping[bytes, Mapping[str, Endpoint]],
    complaints: Complaints,
) -> None:
    """Complain about cases that could not be run, and about what no case shows."""
    for name, person in document.cases.who.items():
        _person(("cases", "who", name), person, document, callers, complaints)
    for index, case in enumerate(document.cases.expect):
        _case(("cases", "expect", index), case, document, complaints)
    _coverage(document, endpoints, complaints)


def _person(
    path: Path,
    keys: PersonKeys,
    document: Document,
    callers: Mapping[str, CallerTrust],
    complaints: Complaints,
) -> None:
    said = keys.model_fields_set
    if said and len(said & {"client", "is_"}) != 1:
        complaints.add(path, "say who this is: either `client` or `is`; an empty {} is a caller without a credential")
        return
    if keys.address is not None and not _is_address(keys.address):
        complaints.add((*path, "address"), "this is no address of IPv4 or IPv6")
    if keys.client is not None and complaints.knows((*path, "client"), keys.client, document.clients, "client"):
        (caller,) = document.clients[keys.client].is_
    elif keys.is_ is not None:
        ((caller, _),) = keys.is_.items()
        complaints.knows((*path, "is", caller), caller, document.trust.callers, "caller")
    else:
        return
    if caller in callers:
        _credential(path, keys, callers[caller], complaints)


def _credential(path: Path, keys: PersonKeys, trust: CallerTrust, complaints: Complaints) -> None:
    """Complain about a credential that does not exist: its kind has no such ids, groups or scopes."""
    proof = (keys.is_ or {}).get(trust.caller)
    here = (*path, "is", trust.caller)
    if proof is not None and isinstance(proof, ShownKeyKeys) != isinstance(trust, ApiKeys):
        kind = "{sha256: …} of a key" if isinstance(trust, ApiKeys) else "an id, or {group: …}"
        complaints.add(here, f"a caller of `{trust.caller}` shows {kind}")
    if isinstance(proof, GroupKeys) and not isinstance(trust, ApiKeys) and trust_groups(trust) is None:
        complaints.add((*here, "group"), NO_GROUPS)
    if keys.groups is not None and trust_groups(trust) is None:
        complaints.add((*path, "groups"), NO_GROUPS)
    if keys.scopes is not None and not bears_scopes(trust):
        complaints.add((*path, "scopes"), f"credentials of `{trust.caller}` bear no scopes")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _case(path: Path, keys: CaseKeys, document: Document, complaints: Complaints) -> None:
    complaints.knows((*path, "who"), keys.who, document.cases.who, "caller in `cases.who`")
    if (keys.permit is None) == (keys.deny is None):
        complaints.add(path, "say either `permit` or `deny`: what this case shows")
    if keys.date is not None and not is_day(keys.date):
        complaints.add((*path, "date"), "the calendar has no such day")
    for index, alias in enumerate((keys.permit.models if keys.permit is not None else None) or ()):
        complaints.knows((*path, "permit", "models", index), alias, document.models or (), "model")
    for place, sentence in _repeats(keys.body, (*path, "body")):
        complaints.add(place, sentence)


def repeats(value: dict[str, Any]) -> bool:
    """Tell whether a mapping in a body stands for a list or a text that is written out when the case is run."""
    return value.keys() in _REPEAT


def _repeats(value: Any, path: Path) -> Iterator[tuple[Path, str]]:  # noqa: ANN401  (a JSON value)
    """Yield what is wrong with the repetitions within a body."""
    if isinstance(value, dict):
        if repeats(value):
            yield from _repetition(value, path)
        for key, inner in value.items():
            yield from _repeats(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _repeats(inner, (*path, index))


def _repetition(value: dict[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    times, text = value["times"], value["repeat"]
    if type(times) is not int or times < 0:
        yield (*path, "times"), "write how many times, as a whole number"
    elif times * _length(text) > LARGEST_TEXT:
        yield (
            (*path, "times"),
            f"this makes more than {LARGEST_TEXT} characters; a case needs no more than its endpoint's limit",
        )
    if "as" in value and value["as"] != "text":
        yield (*path, "as"), "write `as: text`, or leave it out for a list"
    if "as" in value and not isinstance(text, str):
        yield (*path, "repeat"), "only text can be repeated as text; quote it if it looks like a number"


def _length(value: Any) -> int:  # noqa: ANN401  (a JSON value)
    """Give about as many characters as a value takes up when it is written out."""
    if isinstance(value, dict):
        if repeats(value) and type(value["times"]) is int:
            return value["times"] * _length(value["repeat"])
        return 2 + sum(len(key) + 4 + _length(inner) for key, inner in value.items())
    if isinstance(value, list):
        return 2 + sum(1 + _length(inner) for inner in value)
    return len(str(value))


def _coverage(document: Document, endpoints: Mapping[bytes, Mapping[str, Endpoint]], complaints: Complaints) -> None:
    """Complain about an endpoint without a permitting and a refusing case, and a client without a permitting one."""
    permitted: set[str] = set()
    refused: set[str] = set()
    clients: set[str] = set()
    for case in document.cases.expect:
        method, _, target = case.ask.partition(" ")
        endpoint = endpoints.get(target.partition("?")[0].encode(errors="replace"), {}).get(method)
        if case.permit is None:
            refused |= {endpoint.name} if endpoint is not None else set()
        else:
            permitted |= {endpoint.name} if endpoint is not None else set()
            clients |= _clients_of(document.cases.who.get(case.who), document)
    for name in document.endpoints:
        if name not in permitted:
            complaints.add(("endpoints", name), "no case shows who may use this endpoint: write one with `permit`")
        if name not in refused:
            complaints.add(("endpoints", name), "no case shows who may not use this endpoint: write one with `deny`")
    for name, keys in document.clients.items():
        if name not in clients and keys.suspended is None:
            complaints.add(("clients", name), "no case shows what this client may do: write one with `permit`")


def _clients_of(person: PersonKeys | None, document: Document) -> set[str]:
    """Give the clients that a caller of the cases fits."""
    if person is None:
        return set()
    if person.client is not None:
        return {person.client}
    return {
        name
        for name, keys in document.clients.items()
        for caller, proof in (person.is_ or {}).items()
        if caller in keys.is_ and _fits(keys.is_[caller], proof, person.groups or ())
    }


def _fits(proof: object, shown: object, groups: tuple[str, ...]) -> bool:
    if isinstance(proof, tuple):
        return isinstance(shown, ShownKeyKeys) and any(key.sha256 == shown.sha256 for key in proof)
    return proof == shown or (isinstance(proof, GroupKeys) and proof.group in groups)
