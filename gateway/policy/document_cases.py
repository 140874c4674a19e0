"""``cases`` of a policy file, typed: requests with the answers that the policy must give.

Enters: plain data. Leaves: frozen models whose descriptions are those of the JSON Schema. The cases are run by
``cases``, not here.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from gateway.policy.document_clients import GroupKeys
from gateway.policy.document_endpoints import DeadlineKeys
from gateway.policy.forms import Address, Alias, Ask, Day, FieldName, Id, Name, Person, Scope, Sha256, Text
from gateway.policy.shapes import Closed, Object, Positive, Said, Several

REASONS = Literal[
    "target-malformed",
    "target-not-canonical",
    "target-too-long",
    "no-such-endpoint",
    "method-not-allowed",
    "query-not-accepted",
    "credential-missing",
    "credential-invalid",
    "client-unknown",
    "client-suspended",
    "address-not-accepted",
    "endpoint-not-granted",
    "scope-missing",
    "body-too-large",
    "body-malformed",
    "parameter-not-accepted",
    "parameter-invalid",
    "model-missing",
    "model-not-permitted",
    "parameter-over-cap",
    "thinking-not-permitted",
]


class ShownKeyKeys(Closed):
    """A key."""

    sha256: Annotated[Sha256, Field(description="SHA-256 of the key's text, 64 hexadecimal digits.")]


def _kind_of_proof(value: Any) -> str:  # noqa: ANN401  (whatever stands in the file)
    """Tell an id, a group and a key apart, so that only the mistakes of one are named."""
    if isinstance(value, dict):
        return "<1>" if "group" in value else "<2>"
    return "<0>"


ShownProof = Annotated[
    Annotated[Annotated[Id, Field(description="An id.")], Tag("<0>")]
    | Annotated[GroupKeys, Tag("<1>")]
    | Annotated[ShownKeyKeys, Tag("<2>")],
    Discriminator(_kind_of_proof),
    Field(description="What the caller proves."),
]


class PersonKeys(Closed):
    """One caller."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["client"]}, {"required": ["is"]}, {"maxProperties": 0}]}
    )

    client: Annotated[
        Name | None,
        Field(description="A caller that fits this client: its id, its first key, or one person of its group."),
    ] = None
    is_: Annotated[
        dict[Name, ShownProof] | None,
        Field(
            alias="is",
            min_length=1,
            max_length=1,
            description="A caller given by what it proves, known to the policy or not.",
        ),
    ] = None
    groups: Annotated[
        Several[Annotated[Id, Field(description="One group.")]] | None,
        Field(description="Groups that the credential names besides."),
    ] = None
    scopes: Annotated[
        Several[Annotated[Scope, Field(description="One scope.")]] | None,
        Field(description="Scopes that the credential bears."),
    ] = None
    address: Annotated[Address | None, Field(description="Address that the request comes from.")] = None


class CountedKeys(Said):
    """Exactly the limits that hold."""

    requests_per_minute: Annotated[
        Positive | None, Field(description="Authenticated requests in any minute, refused ones included.")
    ] = None
    concurrent_requests: Annotated[
        Positive | None, Field(description="Requests that may be open at one time, streams to their last byte.")
    ] = None
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


class PermitKeys(Closed):
    """The request goes through, and what must be true then."""

    sent: Annotated[
        Object | None,
        Field(description="Fields that are sent to the engine, with their values; mappings may be given in part."),
    ] = None
    not_sent: Annotated[
        Several[Annotated[FieldName, Field(description="One field, dotted where nested.")]] | None,
        Field(description="Fields that are not sent to the engine."),
    ] = None
    models: Annotated[
        Several[Annotated[Alias, Field(description="One alias.")]] | None,
        Field(description="Exactly the models that the answer lists."),
    ] = None
    limits: CountedKeys | None = None
    model_limits: CountedKeys | None = None
    each: Annotated[
        Literal["client", "subject"] | None,
        Field(description="Whether limits are counted for the client or for each person."),
    ] = None
    deadlines: Annotated[DeadlineKeys | None, Field(description="Time limits that hold in place of the settings.")] = (
        None
    )


class CaseKeys(Closed):
    """One case."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["permit"]}, {"required": ["deny"]}]})

    name: Annotated[Text, Field(description="What the case shows, as a sentence.")]
    who: Annotated[Text, Field(description="A caller of `who`.")]
    ask: Annotated[Ask, Field(description="Method and target, as sent.")]
    date: Annotated[
        Day | None, Field(description="Day (UTC) of the request; when absent a day before every not_after.")
    ] = None
    body: Annotated[
        Object | None,
        Field(description="The body; {repeat: x, times: n} is a list of n times x, with `as: text` one text."),
    ] = None
    permit: PermitKeys | None = None
    deny: Annotated[REASONS | None, Field(description="The request is refused for this reason.")] = None


class CasesKeys(Closed):
    """Requests with the answers that this policy must give."""

    who: Annotated[
        dict[Person, PersonKeys],
        Field(min_length=1, description="Callers of the cases; an empty one bears no credential."),
    ]
    expect: Annotated[
        list[CaseKeys],
        Field(min_length=1, description="The cases, in the order in which a reviewer reads them."),
    ]
