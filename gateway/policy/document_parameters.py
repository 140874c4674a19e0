"""``parameters`` of a policy file, typed: the body fields of each endpoint, their caps, and thinking.

Enters: plain data. Leaves: frozen models whose descriptions are those of the JSON Schema. Which fields a dialect knows
is said by ``compile``.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from gateway.policy.forms import FieldName, Permitted
from gateway.policy.shapes import Closed, Count, Number, Positive, Several, Value


class NumberCap(Closed):
    """A number."""

    at_most: Annotated[Number, Field(description="The largest value that is sent.")]
    otherwise: Annotated[
        Literal["lower", "refuse"],
        Field(description="A larger value is lowered to the cap, or the request is refused."),
    ]


class SizeCap(Closed):
    """A list or text; several sizes may be bounded at once."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 2})

    at_most_items: Annotated[Positive | None, Field(description="The longest list that is sent.")] = None
    at_most_characters: Annotated[
        Positive | None, Field(description="The most characters, counted over all text within the value.")
    ] = None
    at_most_media: Annotated[
        Count | None, Field(description="The most images, sounds and other media parts within the value, be it none.")
    ] = None
    otherwise: Annotated[Literal["refuse"], Field(description="What is larger is refused.")]


def _kind_of_cap(value: Any) -> str:  # noqa: ANN401  (whatever stands in the file)
    """Choose the one kind of cap that a mapping is, so that only its mistakes are named."""
    keys = "".join(value) if isinstance(value, dict) else ""
    return "<1>" if "at_most_" in keys else "<0>"


CapKeys = Annotated[
    Annotated[NumberCap, Tag("<0>")] | Annotated[SizeCap, Tag("<1>")],
    Discriminator(_kind_of_cap),
    Field(description="The most that a caller may ask for, and what happens otherwise."),
]


def _kind_of_permitted(value: Any) -> str:  # noqa: ANN401  (whatever stands in the file)
    """Tell a list from a word."""
    return "<1>" if isinstance(value, list) else "<0>"


MayEnable = Annotated[
    Annotated[
        Annotated[Literal["everyone", "nobody"], Field(description="All callers of this endpoint, or none of them.")],
        Tag("<0>"),
    ]
    | Annotated[
        Annotated[
            Several[Annotated[Permitted, Field(description="client: and its name, or group: and its name.")]],
            Field(description="Only these."),
        ],
        Tag("<1>"),
    ],
    Discriminator(_kind_of_permitted),
    Field(description="Who may switch thinking on."),
]


class ThinkingKeys(Closed):
    """Who decides whether the model thinks; when absent it is off unless the caller asks, and everyone may ask."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"may_enable": {"const": "everyone"}}},
            "then": {"properties": {"otherwise": False}},
            "else": {"required": ["otherwise"]},
        }
    )

    default: Annotated[
        Literal["disabled", "enabled"], Field(description="What is sent when the caller says nothing about thinking.")
    ]
    may_enable: MayEnable
    otherwise: Annotated[
        Literal["refuse", "disable"] | None,
        Field(
            description="A wish that is not permitted gets the request refused, or every thinking control set to off."
        ),
    ] = None


class ParametersKeys(Closed):
    """What a body may hold."""

    accept: Annotated[
        Several[Annotated[FieldName, Field(description="A field, or `standard`.")]],
        Field(description="Accepted fields; `standard` stands for the dialect's reviewed set."),
    ]
    unlisted: Annotated[
        Literal["refuse", "drop"] | None,
        Field(
            description="A field that is not accepted gets the request refused, or is dropped and named in the "
            "answer's headers; refuse when absent."
        ),
    ] = None
    defaults: Annotated[
        dict[FieldName, Value] | None,
        Field(min_length=1, description="Values that are sent when the caller names none."),
    ] = None
    force: Annotated[
        dict[FieldName, Value] | None,
        Field(min_length=1, description="Values that are sent whatever the caller names."),
    ] = None
    caps: Annotated[
        dict[FieldName, CapKeys] | None, Field(min_length=1, description="The most that a caller may ask for.")
    ] = None
    thinking: ThinkingKeys | None = None
    special_tokens: Annotated[
        Literal["refuse"] | None,
        Field(description="Text such as <|im_start|> typed into content is refused; not looked at when absent."),
    ] = None
