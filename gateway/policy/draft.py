"""A body on the judge's desk: as it will be sent so far, and the changes that made it so.

Enters: the parsed fields. Leaves: ``Change`` values for the workshop. Names are those of fields, or ``parent.member``
of a closed list; ``null`` counts as absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.policy.decision import Change

if TYPE_CHECKING:
    from collections.abc import Iterable


class Draft:
    """The fields as they stand, and what was changed; the caller's own object is never written to."""

    __slots__ = ("body", "changes")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.body = dict(fields)
        self.changes: list[Change] = []

    def get(self, name: str) -> Any:  # noqa: ANN401  (any JSON value)
        """Give the value of a field or member; ``None`` without one."""
        parent, dot, member = name.partition(".")
        value = self.body.get(parent)
        if not dot:
            return value
        return value.get(member) if type(value) is dict else None

    def put(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Set a field that has no value, or replace one that has another."""
        present = self.get(name)
        if present is None:
            self._change("set", name, value)
        elif present != value or type(present) is not type(value):
            self._change("replace", name, value)

    def lower(self, name: str, most: float) -> None:
        """Lower a number to its cap."""
        self._change("lower", name, most)

    def drop(self, name: str) -> None:
        """Take a field or member away."""
        self.changes.append(Change("drop", name))
        parent, dot, member = name.partition(".")
        value = self.body.get(parent)
        if not dot:
            self.body.pop(parent, None)
        elif type(value) is dict:
            self.body[parent] = {key: item for key, item in value.items() if key != member}

    def tidy(self, closed: Iterable[str]) -> None:
        """Drop what is still ``null``, and closed lists in which nothing is left."""
        if None in self.body.values():
            for name in [name for name, value in self.body.items() if value is None]:
                self.drop(name)
        for parent in closed:
            members = self.body.get(parent)
            if members is None or (members and None not in members.values()):
                continue
            empty = [member for member, value in members.items() if value is None]
            for name in [parent] if len(empty) == len(members) else [f"{parent}.{member}" for member in empty]:
                self.drop(name)

    def _change(self, action: str, name: str, value: Any) -> None:  # noqa: ANN401
        self.changes.append(Change(action, name, value))
        parent, dot, member = name.partition(".")
        if dot:
            members = self.body.get(parent)
            self.body[parent] = {**members, member: value} if type(members) is dict else {member: value}
        else:
            self.body[name] = value
