"""The field tables: what each field of an API is, and what becomes of it here.

Enters: ``data/*.json``, one table for each dialect with a body, reviewed field by field against the catalogues of the
vLLM versions that it names. Leaves: ``Table`` with one ``Field`` for each dotted name, its check compiled once, at
import. Nothing here knows a policy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from gateway.dialects.checks import check_for

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from gateway.dialects.checks import Check


_SAYING = frozenset({"prompt", "media", "schema"})


class Treatment(StrEnum):
    """What may become of a field.

    ``pass``: may be accepted. ``cap``: may be accepted, and costs so much that a cap is advisable. ``drop``: may be
    accepted, and is never sent. ``force``: only the policy sets it, or the gateway. ``refuse``: never accepted.
    ``thinking``: judged by the ``thinking`` rule alone. ``members``: a closed list, accepted member by member.
    ``fixed``: any caller may send it, and one value is sent whatever anybody says.
    """

    PASS = "pass"  # noqa: S105  (a treatment, not a secret)
    CAP = "cap"
    DROP = "drop"
    FORCE = "force"
    REFUSE = "refuse"
    THINKING = "thinking"
    MEMBERS = "members"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body by its dotted name.

    ``kinds``: the JSON types of its value. ``words``: the closed list of texts, empty for free text. ``why``: the
    reason of its treatment, a sentence. ``versions``: the vLLM versions that know it, none for a field of OpenAI's
    alone. ``description``: all that the table says of it. ``essential``: to leave it out would change what the answer
    means, so it is refused even where unlisted fields are dropped. ``value``: of a fixed field, what is sent.
    ``alias``: its name in a form, where that is another.
    """

    name: str
    kinds: frozenset[str]
    treatment: Treatment
    why: str
    versions: frozenset[str]
    words: frozenset[str] = frozenset()
    minimum: int | None = None
    maximum: int | None = None
    essential: bool = False
    value: Any = None
    alias: str | None = None
    description: Mapping[str, Any] = field(repr=False, compare=False, kw_only=True)
    check: Check = field(repr=False, compare=False, kw_only=True)

    @property
    def holds_media(self) -> bool:
        """Whether content parts in it may be images or sounds."""
        return _mentions(self.description, {"media"})

    @property
    def says(self) -> bool:
        """Whether it says something to the model: text, media, or a schema for the answer."""
        return self.treatment in {Treatment.PASS, Treatment.CAP} and _mentions(self.description, _SAYING)


@dataclass(frozen=True, slots=True)
class Table:
    """The fields of one dialect, parents before members.

    ``standard``: what ``standard`` stands for. ``required``: fields without which there is no request.
    ``answer_tokens``: the synonyms for the longest answer, the newest first. ``answer_default``: how long it is where
    the API says so for a caller who says nothing; ``None`` for as long as the model can.
    """

    fields: Mapping[str, Field]
    standard: frozenset[str]
    required: tuple[str, ...]
    answer_tokens: tuple[str, ...]
    answer_default: int | None = None


def load(name: str) -> Table:
    """Read the table ``data/<name>.json``.

    In it, ``{"shape": "x"}`` stands for what the table describes under ``shapes``, and ``"as_in": "table.field"`` for
    what another table says of the values of that field.
    """
    data = _data(name)
    versions = frozenset(data["vllm"])
    return Table(
        fields={one.name: one for one in _fields(_written_out(data), "", versions)},
        standard=frozenset(data["standard"]),
        required=tuple(data["required"]),
        answer_tokens=tuple(data["answer_tokens"]),
        answer_default=data.get("answer_default"),
    )


def _data(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(files("gateway.dialects").joinpath("data", f"{name}.json").read_bytes())
    return data


def _written_out(data: Mapping[str, Any]) -> dict[str, Any]:
    """Give the described fields with nothing left that stands for something else."""
    fields: dict[str, Any] = _with_shapes(data["fields"], data.get("shapes", {}))
    for name, description in fields.items():
        if "as_in" in description:
            table, _, field_name = description["as_in"].partition(".")
            fields[name] = {**_written_out(_data(table))[field_name], **description}
    return fields


def _with_shapes(value: Any, shapes: Mapping[str, Any]) -> Any:  # noqa: ANN401  (any JSON value)
    if type(value) is dict:
        if "shape" in value:
            return shapes[value["shape"]]
        return {name: _with_shapes(member, shapes) for name, member in value.items()}
    return [_with_shapes(item, shapes) for item in value] if type(value) is list else value


def _fields(described: Mapping[str, Any], parent: str, versions: frozenset[str]) -> Iterator[Field]:
    for key, description in described.items():
        name = parent + key
        known = frozenset(description.get("vllm", versions))
        yield Field(
            name=name,
            kinds=frozenset(one["type"] for one in description.get("anyOf", (description,))),
            treatment=Treatment(description["treatment"]),
            why=description["why"],
            versions=known,
            words=frozenset(description.get("enum", ())),
            minimum=description.get("minimum"),
            maximum=description.get("maximum"),
            description=description,
            essential="essential" in description,
            value=description.get("value"),
            alias=description.get("alias"),
            check=check_for(description, name),
        )
        if description["treatment"] == Treatment.MEMBERS:
            yield from _fields(description["properties"], f"{name}.", known)


def _mentions(described: Any, words: Container[str]) -> bool:  # noqa: ANN401  (a part of a table)
    if isinstance(described, dict):
        return any(name in words or _mentions(one, words) for name, one in described.items())
    return isinstance(described, list) and any(_mentions(one, words) for one in described)
