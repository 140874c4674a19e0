"""``limits`` and ``clients`` of a policy file, typed: who may use a plane, how far.

Enters: plain data. Leaves: frozen models whose descriptions are those of the JSON Schema. Whether the parts agree is
said by ``compile``.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from gateway.policy.document_parameters import CapKeys
from gateway.policy.forms import Alias, Day, FieldName, Id, Name, Network, Sha256
from gateway.policy.shapes import Closed, OnlyTrue, Positive, Said, Several


class GroupKeys(Closed):
    """Everyone in one group."""

    group: Annotated[Id, Field(description="Exact name of the group as the groups claim lists it.")]


class LimitKeys(Closed):
    """One set."""

    requests_per_minute: Annotated[
        Positive, Field(description="Authenticated requests in any minute, refused ones included.")
    ]
    concurrent_requests: Annotated[
        Positive, Field(description="Requests that may be open at one time, streams to their last byte.")
    ]
    tokens_per_minute: Annotated[
        Positive | None, Field(description="Prompt and completion tokens together in any minute.")
    ] = None
    tokens_per_day: Annotated[
        Positive | None, Field(description="Prompt and completion tokens together in a UTC day.")
    ] = None
    priority: Annotated[
        Literal["high", "normal", "low"] | None,
        Field(description="Who goes first when requests wait for a busy engine; when absent normal."),
    ] = None


class KeyKeys(Closed):
    """One key."""

    sha256: Annotated[Sha256, Field(description="SHA-256 of the key's text, 64 hexadecimal digits.")]
    not_after: Annotated[Day | None, Field(description="Last day (UTC) on which the key is good.")] = None


def _kind_of_proof(value: Any) -> str:  # noqa: ANN401  (whatever stands in the file)
    """Tell an id, a group and keys apart, so that only the mistakes of one are named."""
    return "<1>" if isinstance(value, dict) else "<2>" if isinstance(value, list) else "<0>"


Proof = Annotated[
    Annotated[Annotated[Id, Field(description="Immutable id, compared exactly.")], Tag("<0>")]
    | Annotated[GroupKeys, Tag("<1>")]
    | Annotated[
        Annotated[
            Several[KeyKeys],
            Field(description="Keys of one client; two at a time let it change keys without an outage."),
        ],
        Tag("<2>"),
    ],
    Discriminator(_kind_of_proof),
    Field(description="The client's proof under this caller."),
]


class NarrowKeys(Said):
    """What this client may less than the endpoint grants."""

    without: Annotated[
        Several[Annotated[FieldName, Field(description="A field that the endpoint accepts.")]] | None,
        Field(description="Fields that are unlisted for this client."),
    ] = None
    caps: Annotated[
        dict[FieldName, CapKeys] | None,
        Field(min_length=1, description="Caps below those of the endpoint, which hold as well."),
    ] = None
    thinking: Annotated[
        Literal["refuse", "disable"] | None,
        Field(
            description="This client may not enable thinking: a wish gets the request refused, or every thinking "
            "control set to off."
        ),
    ] = None


class ClientKeys(Closed):
    """One client."""

    is_: Annotated[
        dict[Name, Proof],
        Field(
            alias="is",
            min_length=1,
            max_length=1,
            description="Caller kind and immutable id, group or keys that make a request this client's.",
        ),
    ]
    each: Annotated[
        Literal["subject"] | None,
        Field(description="Limits are counted for each person of the group instead of once for the client."),
    ] = None
    from_: Annotated[
        Several[Annotated[Network, Field(description="One network in CIDR form.")]] | None,
        Field(alias="from", description="Networks that this client may come from; when absent any."),
    ] = None
    suspended: Annotated[OnlyTrue | None, Field(description="Refuses the client until the line is removed.")] = None
    may: Annotated[
        Several[Annotated[Name, Field(description="Name of an endpoint.")]],
        Field(description="Endpoints that it may use."),
    ]
    models: Annotated[
        Several[Annotated[Alias, Field(description="Alias of a model.")]] | None,
        Field(description="Models that it may use and see; when absent none."),
    ] = None
    narrow: Annotated[
        dict[Name, NarrowKeys] | None,
        Field(min_length=1, description="What it may less than others, by endpoint."),
    ] = None
    limits: Annotated[Name, Field(description="Name of its set of limits.")]
