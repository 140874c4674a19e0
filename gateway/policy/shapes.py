"""The shapes of values that are no text: numbers, lists without doubles, a switch that is only ever true.

Enters: nothing. Leaves: annotations and types for the document. Nothing is converted: ``1`` is not ``true`` and ``1.0``
is not ``1``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator
from pydantic_core import PydanticCustomError, core_schema

from gateway.policy.forms import REFUSED

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

Item = TypeVar("Item")


class Closed(BaseModel):
    """A mapping with exactly these keys, read without any conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_by_alias=True, validate_by_name=False)


class Said(Closed):
    """A mapping whose keys are all optional, and which yet must say something."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    @model_validator(mode="after")
    def _says_something(self) -> Said:
        if not self.model_fields_set:
            raise PydanticCustomError(REFUSED, "an empty mapping is an error: name a key, or remove this one")
        return self


@dataclass(frozen=True, slots=True)
class Exactly:
    """A value of exactly these Python types, stated in the JSON Schema as ``schema``."""

    types: tuple[type, ...]
    sentence: str
    schema: Any = field(compare=False)
    only: Any = None

    def __get_pydantic_core_schema__(
        self,
        source: Any,  # noqa: ANN401  (whatever is annotated)
        handler: GetCoreSchemaHandler,
    ) -> core_schema.CoreSchema:
        """Check the type itself, where pydantic would call ``1`` and ``True`` equal."""

        def check(value: object) -> object:
            if type(value) not in self.types or (self.only is not None and value != self.only):
                raise PydanticCustomError(REFUSED, "{sentence}", {"sentence": self.sentence})
            return value

        return core_schema.no_info_plain_validator_function(check)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """State the type in the JSON Schema."""
        return dict(self.schema)


@dataclass(frozen=True, slots=True)
class Distinct:
    """A list without doubles, and with an item unless ``empty`` says that none has a meaning."""

    empty: bool = False

    def __get_pydantic_core_schema__(
        self,
        source: Any,  # noqa: ANN401  (whatever is annotated)
        handler: GetCoreSchemaHandler,
    ) -> core_schema.CoreSchema:
        """Check after the items."""

        def check(items: tuple[Any, ...]) -> tuple[Any, ...]:
            if not items and not self.empty:
                raise PydanticCustomError(REFUSED, "an empty list is an error: name an item, or remove the key")
            for index, item in enumerate(items):
                if item in items[:index]:
                    raise PydanticCustomError(REFUSED, "this stands in the list twice", {"at": index})
            return items

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """State both in the JSON Schema."""
        return handler(schema) | {"uniqueItems": True} | ({} if self.empty else {"minItems": 1})


_LISTED: Final = Strict(strict=False)  # a list of the file becomes a tuple; its items stay strict

Several = Annotated[tuple[Item, ...], _LISTED, Distinct()]
Maybe = Annotated[tuple[Item, ...], _LISTED, Distinct(empty=True)]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Number = Annotated[int | float, Exactly((int, float), "write a number, without quotes", {"type": "number"})]
Value = Annotated[
    Any,
    Exactly(
        (str, int, float, bool, list, dict),
        "write the value that is sent",
        {"description": "The value.", "type": ["string", "number", "boolean", "array", "object"]},
    ),
]
Object = Annotated[dict[str, Any], Exactly((dict,), "write a mapping of fields", {"type": "object"})]
OnlyTrue = Annotated[
    Literal[True],
    Exactly((bool,), "write true, or remove the line: there is no false to write", {"const": True}, only=True),
]
VersionOne = Annotated[
    Literal[1], Exactly((int,), "this release reads version 1 of the format: write `policy: 1`", {"const": 1}, only=1)
]
