"""``endpoints`` and ``models`` of a policy file, typed: which paths exist, and what an alias means.

Enters: plain data. Leaves: frozen models whose descriptions are those of the JSON Schema. Whether the parts agree is
said by ``compile``.
"""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from gateway.policy.document_parameters import CapKeys
from gateway.policy.forms import Allow, Duration, FieldName, LiteralText, Name, QueryKey, QueryValue, Scope, Size, Text
from gateway.policy.shapes import Closed, Positive, Said, Several

CONTROL: Final[list[JsonValue]] = ["engine-sleep", "engine-wake", "engine-status", "engine-metrics"]


class DeadlineKeys(Said):
    """Time limits that differ from the settings."""

    first_byte: Annotated[
        Duration | None, Field(description="Longest wait for the first byte of a streamed answer's body.")
    ] = None
    idle: Annotated[Duration | None, Field(description="Longest pause between bytes after the first.")] = None
    total: Annotated[Duration | None, Field(description="Longest time for the whole answer.")] = None


class EndpointKeys(Closed):
    """One method and one path."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {"properties": {"dialect": {"enum": CONTROL}}},
                    "then": {"required": ["engine"]},
                    "else": {"properties": {"engine": False}},
                },
                {
                    "if": {"properties": {"dialect": {"const": "openai-model"}}},
                    "then": {"properties": {"allow": {"pattern": r"/\{model\}$"}}},
                    "else": {"properties": {"allow": {"pattern": "[^}]$"}}},
                },
                {
                    "if": {"properties": {"dialect": {"const": "engine-sleep"}}},
                    "then": {
                        "required": ["query"],
                        "properties": {
                            "query": {
                                "required": ["level"],
                                "properties": {"level": {"items": {"enum": ["1", "2"]}}},
                                "propertyNames": {"const": "level"},
                            }
                        },
                    },
                },
                {
                    "if": {"properties": {"dialect": {"enum": [*CONTROL[1:], "openai-models", "openai-model"]}}},
                    "then": {"properties": {"query": False}},
                },
            ]
        }
    )

    allow: Annotated[
        Allow,
        Field(
            description="Method and exact path, such as POST /v1/chat/completions; only the dialect openai-model may "
            "end in /{model}."
        ),
    ]
    dialect: Annotated[
        Literal[
            "openai-chat",
            "openai-completions",
            "openai-responses",
            "anthropic-messages",
            "anthropic-count-tokens",
            "openai-embeddings",
            "openai-models",
            "openai-model",
            "rerank",
            "score",
            "openai-transcriptions",
            "openai-translations",
            "tokenize",
            "detokenize",
            "engine-sleep",
            "engine-wake",
            "engine-status",
            "engine-metrics",
        ],
        Field(description="What a body means, and which answer the caller gets."),
    ]
    needs: Annotated[
        Several[Annotated[Scope, Field(description="One scope (RFC 6749 section 3.3).")]] | None,
        Field(description="Scopes that a token must bear, all of them."),
    ] = None
    query: Annotated[
        dict[
            QueryKey,
            Annotated[
                Several[Annotated[QueryValue, Field(description="One exact value.")]],
                Field(description="Accepted values of this key."),
            ],
        ]
        | None,
        Field(min_length=1, description="Query keys that are accepted, each with its values."),
    ] = None
    body_limit: Annotated[
        Size | None, Field(description="Largest body that is read; needed for every dialect that has a body.")
    ] = None
    deadlines: DeadlineKeys | None = None
    engine: Annotated[Name | None, Field(description="The engine that a control endpoint acts on.")] = None


class ModelKeys(Closed):
    """One alias."""

    engine: Annotated[Name, Field(description="The engine that serves it.")]
    served_as: Annotated[
        LiteralText, Field(description="The name under which the engine serves it; sent in place of the alias.")
    ]
    card: Annotated[Text | None, Field(description="Id of the model card, shown to reviewers and never sent.")] = None
    thinking_switch: Annotated[
        Literal["enable_thinking", "thinking", "both", "reasoning_effort", "none"] | None,
        Field(description="Which template switch turns its thinking on and off; enable_thinking when absent."),
    ] = None
    most_tokens: Annotated[
        Positive | None,
        Field(
            description="The most tokens of one answer, sent when the caller names none; a model without it generates "
            "no text."
        ),
    ] = None
    caps: Annotated[
        dict[FieldName, CapKeys] | None,
        Field(min_length=1, description="Caps below those of the endpoints, for calls of this model."),
    ] = None
    limits: Annotated[
        Name | None,
        Field(description="Name of a set of limits that all clients of this plane share for calls of this model."),
    ] = None
