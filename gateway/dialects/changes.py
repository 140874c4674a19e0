"""The workshop's tool: a body with changes made to it.

Enters: the parsed body and changes by dotted names. Leaves: a new body that shares with the old what did not change;
the old one is left as it was. A name that leads through a list means every item of the list. Total: a change of
something that is not there does nothing or puts it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.dialects.call import Replacement


def changed(fields: dict[str, Any], changes: Iterable[Replacement]) -> dict[str, Any]:
    """Give the body with the changes made, in their order."""
    body = dict(fields)
    for change in changes:
        name = change.field
        if "." in name:
            path = name.split(".")
            body = _without(body, path) if change.action == "drop" else _with(body, path, change.value)
        elif change.action == "drop":
            body.pop(name, None)
        else:
            body[name] = change.value
    return body


def value_after(fields: dict[str, Any], changes: Sequence[Replacement], name: str) -> Any:  # noqa: ANN401
    """Give the value that a field, or a member of one, has once the changes are made; ``None`` without one."""
    parent, dot, member = name.partition(".")
    value = fields.get(parent)
    for change in reversed(changes):
        if change.field == name:
            return change.value
        if change.field == parent:
            value = change.value
            break
    if dot:
        return value.get(member) if type(value) is dict else None
    return value


def _with(container: Any, path: Sequence[str], value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Set one member, in an object that takes the place of whatever else stood there."""
    copy = dict(container) if type(container) is dict else {}
    name = path[0]
    copy[name] = value if len(path) == 1 else _with(copy.get(name), path[1:], value)
    return copy


def _without(container: Any, path: Sequence[str]) -> Any:  # noqa: ANN401
    if type(container) is list:
        return [_without(item, path) for item in container]
    name = path[0]
    if type(container) is not dict or name not in container:
        return container
    copy = dict(container)
    if len(path) == 1:
        del copy[name]
    else:
        copy[name] = _without(copy[name], path[1:])
    return copy
