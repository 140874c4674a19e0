"""The names of ``GATEWAY_*`` variables: which exist, and what the nearest to a misspelt one is.

Enters: a mapping of environment variables and the ``Shape`` of the settings. Leaves: their values as a tree of texts,
with secrets taken from files where ``…_FILE`` says so. It knows nothing of what a value means. No value stands in an
error, since any of them may be a secret in the wrong place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Tree = dict[str, "str | Tree"]

PREFIX = "GATEWAY_"
# Kubernetes sets these for a Service named "gateway"; they are nobody's settings.
_SERVICE_LINKS = ("GATEWAY_SERVICE_", "GATEWAY_PORT")
_FILE = "_FILE"
_LONGEST_SECRET = 64 * 1024
_NAME = re.compile(r"[A-Z](?:_?[A-Z0-9])*")


class SettingsError(Exception):
    """The environment cannot be used; each of ``problems`` is a sentence that names a variable."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Shape:
    """The variables that exist, in upper case without the prefix.

    ``single``: plain ones. ``fixed``: section to fields, as in ``DEADLINES__IDLE``. ``named``: section to the fields
    below a name, as in ``ENGINES__MAIN__URLS``; without fields the name itself has the value, as in
    ``LISTENERS__PUBLIC``. ``secrets``: last parts that may also come from a file.
    """

    single: frozenset[str]
    fixed: Mapping[str, frozenset[str]]
    named: Mapping[str, frozenset[str]]
    secrets: frozenset[str]

    def place(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """Give the place of a variable in the tree, ``None`` if it does not exist."""
        match path:
            case (name,) if name in self.single:
                return (name.lower(),)
            case (section, field) if field in self.fixed.get(section, ()):
                return (section.lower(), field.lower())
            case (section, name) if self.named.get(section) == frozenset() and _NAME.fullmatch(name):
                return (section.lower(), _policy_name(name))
            case (section, name, field) if field in self.named.get(section, ()) and _NAME.fullmatch(name):
                return (section.lower(), _policy_name(name), field.lower())
            case _:
                return None

    def nearest(self, path: tuple[str, ...]) -> str | None:
        """Give the full name of the variable that looks most like this one, with the reader's own name in it."""
        middle = path[1] if len(path) > 1 and _NAME.fullmatch(path[1]) else "NAME"
        close = get_close_matches("__".join(path), list(self._all(middle)), n=1, cutoff=0.5)
        return f"{PREFIX}{close[0]}" if close else None

    def _all(self, middle: str) -> Iterator[str]:
        for name in self._without_files(middle):
            yield name
            if name.split("__")[-1] in self.secrets:
                yield name + _FILE

    def _without_files(self, middle: str) -> Iterator[str]:
        yield from self.single
        for section, fields in self.fixed.items():
            yield from (f"{section}__{field}" for field in fields)
        for section, fields in self.named.items():
            yield from (f"{section}__{middle}__{field}" for field in fields) if fields else (f"{section}__{middle}",)


def read(environ: Mapping[str, str], shape: Shape) -> Tree:
    """Give the tree of values, keys in lower case and names as policies write them. Raises ``SettingsError``."""
    tree: Tree = {}
    for place, value in _found(environ, shape):
        _put(tree, place, value)
    return tree


def values_of(environ: Mapping[str, str], shape: Shape) -> dict[str, str]:
    """Give the same variables, with values in place of the files of secrets. Raises ``SettingsError``."""
    return {variable(place): value for place, value in _found(environ, shape)}


def _found(environ: Mapping[str, str], shape: Shape) -> list[tuple[tuple[str, ...], str]]:
    found: list[tuple[tuple[str, ...], str]] = []
    problems: list[str] = []
    for name in sorted(environ):
        if not name.upper().startswith(PREFIX) or name.startswith(_SERVICE_LINKS):
            continue
        try:
            found.append(_variable(name, environ, shape))
        except SettingsError as error:
            problems.extend(error.problems)
    if problems:
        raise SettingsError(*problems)
    return found


def variable(path: tuple[str, ...]) -> str:
    """Give the name of the variable behind a place in the tree."""
    return PREFIX + "__".join(path).replace("-", "_").upper()


def _policy_name(name: str) -> str:
    """Give the name that a policy file uses for one of the environment."""
    return name.lower().replace("_", "-")


def _variable(name: str, environ: Mapping[str, str], shape: Shape) -> tuple[tuple[str, ...], str]:
    """Check one variable and give its place and value."""
    path = tuple(name.removeprefix(PREFIX).split("__"))
    place = shape.place(path)
    from_file = place is None and path[-1].endswith(_FILE) and path[-1].removesuffix(_FILE) in shape.secrets
    if from_file:
        place = shape.place((*path[:-1], path[-1].removesuffix(_FILE)))
    if place is None or not name.startswith(PREFIX):
        near = shape.nearest(tuple(name.upper().removeprefix(PREFIX).split("__")))
        raise SettingsError(f"{name} is not a setting." + (f" Did you mean {near}?" if near else ""))
    value = environ[name]
    if not value.strip():
        raise SettingsError(f"{name} is empty, and empty never means a default: give it a value or remove it.")
    if not from_file:
        return place, value
    if name.removesuffix(_FILE) in environ:
        raise SettingsError(f"{name} and {name.removesuffix(_FILE)} are both set: keep one of them.")
    return place, _secret_in(Path(value), name)


def _secret_in(path: Path, name: str) -> str:
    """Read a secret from a file, without the line end that editors add."""
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(_LONGEST_SECRET).strip()
    except OSError as error:
        raise SettingsError(f"{name}: the file cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{name}: the file holds more than one line of ASCII text.") from None
    if not text:
        raise SettingsError(f"{name}: the file is empty.")
    return text


def _put(tree: Tree, place: tuple[str, ...], value: str) -> None:
    *above, last = place
    for part in above:
        tree = cast("Tree", tree.setdefault(part, {}))
    tree[last] = value
