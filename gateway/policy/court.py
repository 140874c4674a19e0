"""Court and workshop as one: whether a call may go, and the body that goes; what was ruled before is not judged again.

Enters: a ``Grant``, a ``Call`` and the client's salt. Leaves: a ``Ruling`` with the body that the engine gets, or a
``Deny``. Callers say something else to the model each time, and the same parameters beside it. So what is said is
looked at every time, and what stands beside it is judged once and found again by the bytes that write it. That is sound
because nothing else decides about it: no clock, no count, and of what is said only which fields there are, and how many
prompts.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.dialects import split_tokens
from gateway.dialects.call import Call
from gateway.dialects.checks import Inspection
from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.cache_salt import isolated
from gateway.policy.caps import apply_caps
from gateway.policy.decision import Deny, Permit, told
from gateway.policy.draft import Draft
from gateway.policy.judge import judge, prompts
from gateway.policy.usage_wish import usage_wish
from gateway.reasons import Malformed
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from gateway.policy.decision import Change, Grant
    from gateway.policy.model import Plane
    from gateway.policy.rules import Rules

LONGEST: Final = 512
"""Bytes of what stands beside, if it is to be remembered: enough for parameters, too little to store anything here."""


@dataclass(slots=True)
class Ruling:
    """A permit, and what follows from it.

    ``words`` and ``lines``: its changes, as the audit record and the head of the answer name them. ``hides_usage``: the
    gateway alone asked for the engine's count. (As a permit, it is not frozen, for speed.)
    """

    permit: Permit
    words: tuple[str, ...]
    lines: tuple[bytes, ...]
    hides_usage: bool


@dataclass(slots=True)
class _Precedent:
    """A ruling, the body up to what is said, and by what that is looked at."""

    ruling: Ruling
    opening: bytes = field(repr=False)
    rules: Rules
    inspection: Inspection

    def holds(self, said: dict[str, Any]) -> bool:
        """Tell whether nothing is wrong with what is said, and nothing in it is to be dropped."""
        rules, model, inspection = self.rules, self.ruling.permit.model, self.inspection
        try:
            for name, value in said.items():
                rules.checks[name](value, inspection)
            if inspection.special_tokens and split_tokens.place(said):
                return False
            if rules.said_caps:
                apply_caps(Draft(said), rules.said_caps)
            if model is not None and model.caps:
                apply_caps(Draft(said), model.caps)
        except Malformed:
            inspection.dropped.clear()
            return False  # which of several faults comes first is for the judge to say
        if inspection.dropped:
            inspection.dropped.clear()
            return False
        return True


class Court:
    """The court of one plane, as its policy stands now. It remembers the latest rulings, ``most`` of them."""

    def __init__(self, plane: Plane, most: int = 512) -> None:
        self._plane = plane
        self._most = most
        self._precedents: OrderedDict[tuple[object, ...], _Precedent] = OrderedDict()

    def rule(self, grant: Grant, call: Call, salt: str) -> tuple[Ruling, bytes] | Deny:
        """Rule on a call; with a ruling comes the body that the engine gets."""
        client, endpoint = grant.client, grant.endpoint
        rules = self._plane.rules_of(client, endpoint)
        beside, said = call.fields.copy(), {}
        for name in rules.said:
            if name in beside:
                said[name] = beside.pop(name)
        written = strict_json.dumps(beside) if said and all(said.values()) else None  # null or empty: as good as absent
        place = (client.name, endpoint.name, grant.principal.groups, salt, *said, prompts(said), written)
        precedent = self._precedents.get(place)
        if precedent is not None and precedent.holds(said):
            return precedent.ruling, precedent.opening + strict_json.dumps(said)[1:]
        permit = judge(self._plane, grant, call)
        if isinstance(permit, Deny):
            return permit
        permit = isolated(permit, FACTS[endpoint.dialect], salt)
        dialect = DIALECTS[endpoint.dialect]
        wish = usage_wish(dialect, call, permit)
        changes = (*permit.changes, *wish)
        ruling = Ruling(permit, *told(permit.changes), bool(wish))
        if written is None or len(written) > LONGEST or _change_any(changes, said):
            return ruling, dialect.write(call, changes)
        # What is said closes the body, the first time as any other.
        opening = dialect.write(Call(beside), changes)[:-1] + b","
        inspection = Inspection(rules.drop_unlisted, rules.refuse_special_tokens, rules.media_hosts)
        self._precedents[place] = _Precedent(ruling, opening, rules, inspection)
        if len(self._precedents) > self._most:
            self._precedents.popitem(last=False)
        return ruling, opening + strict_json.dumps(said)[1:]


def _change_any(changes: Iterable[Change], fields: Container[str]) -> bool:
    for change in changes:
        field_name, _, _ = change.field.partition(".")
        if field_name in fields:
            return True
    return False
