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
        if "." not in name:
            return self.body.get(name)
        parent, _, member = name.partition(".")
        value = self.body.get(parent)
        return value.get(member) if type(value) is dict else None

    def sent(self, names: Iterable[str]) -> list[str]:
        """Give those of these fields that have a value."""
        body = self.body
        return [name for name in names if body.get(name) is not None]

    def put(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Set a field that has no value, or replace one that has another."""
        body = self.body
        parent, dot, member = name.partition(".")
        present = body.get(parent)
        members: dict[str, Any] = {}
        if dot:
            members = present if type(present) is dict else members
            present = members.get(member)
        if present is None:
            self.changes.append(Change("set", name, value))
        elif present != value or type(present) is not type(value):
            self.changes.append(Change("replace", name, value))
        else:
            return
        body[parent] = {**members, member: value} if dot else value

    def lower(self, name: str, most: float) -> None:
        """Lower a number that was sent to its cap."""
        self.changes.append(Change("lower", name, most))
        parent, dot, member = name.partition(".")
        self.body[parent] = {**self.body[parent], member: most} if dot else most

    def drop(self, name: str) -> None:
        """Take a field or member away."""
        self.changes.append(Change("drop", name))
        if "." not in name:
            self.body.pop(name, None)
            return
        parent, _, member = name.partition(".")
        value = self.body.get(parent)
        if type(value) is dict:
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
