"""The policy file, typed: every key there is, closed, with the sentence that explains it.

Enters: plain data from ``source``. Leaves: ``Document``, frozen. What one value must be is said by the document types
and ``forms``; whether the parts agree with each other is said by ``compile``; the JSON Schema is generated from these
types.
"""

from typing import Annotated

from pydantic import ConfigDict, Field

from gateway.policy.document_cases import CasesKeys
from gateway.policy.document_clients import ClientKeys, LimitKeys
from gateway.policy.document_endpoints import EndpointKeys, ModelKeys
from gateway.policy.document_parameters import ParametersKeys
from gateway.policy.document_trust import TrustKeys
from gateway.policy.forms import Alias, Host, HttpsUrl, Name, Origin, Summary, Text
from gateway.policy.shapes import Closed, Maybe, OnlyTrue, Several, VersionOne


class MediaKeys(Closed):
    """Media that the engine fetches by itself."""

    hosts: Annotated[
        Maybe[Annotated[Host, Field(description="One exact host name.")]],
        Field(description="Hosts from which the engine may fetch over https; when empty only data: URLs are accepted."),
    ]


class CorsKeys(Closed):
    """Which web pages may read answers."""

    origins: Annotated[
        Maybe[Annotated[Origin, Field(description="One origin.")]],
        Field(description="Exact origins; when empty no web page may."),
    ]


class MetadataKeys(Closed):
    """The public metadata document of this resource (RFC 9728)."""

    resource: Annotated[
        HttpsUrl,
        Field(description="The https URL by which clients know this resource; turns the document on."),
    ]


Lines = Several[Annotated[Text, Field(description="One line of plain text.")]]


class OperationsKeys(Closed):
    """Facts about the deployment that a reviewer asks for, in free text; no rule reads them."""

    public_hosts: Annotated[Lines, Field(description="Host names that the world can resolve.")]
    internal_hosts: Annotated[Lines, Field(description="Hosts and sockets behind them.")]
    subjects: Annotated[Lines, Field(description="Who logs in where, and who issues the credentials.")]
    security_groups: Annotated[Lines, Field(description="Rules of firewalls and security groups.")]
    access_logs: Annotated[Lines, Field(description="Where the logs of the front are, and how long they are kept.")]
    flow_logs: Annotated[Lines, Field(description="Where network flow logs are, and how long they are kept.")]
    audit_log_kept: Annotated[Lines, Field(description="Where the gateway's audit log is, and how long it is kept.")]


class Document(Closed):
    """One plane: whom it trusts, which endpoints exist, and who may use them how far."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"anyOf": [{"required": ["public"]}, {"properties": {"trust": {"required": ["edge"]}}}]},
            "then": {"required": ["operations"]},
        }
    )

    policy: Annotated[VersionOne, Field(description="Version of this format; a new meaning is a new number.")]
    plane: Annotated[Name, Field(description="Name of the plane, as it appears in audit records and metrics.")]
    listener: Annotated[Name, Field(description="Name of the listener whose address the environment sets.")]
    public: Annotated[
        OnlyTrue | None,
        Field(description="True for a plane that people outside can reach; it then needs `operations`."),
    ] = None
    summary: Annotated[
        Summary,
        Field(description="One or two sentences that tell a reviewer what this plane opens to whom."),
    ]
    trust: TrustKeys
    endpoints: Annotated[
        dict[Name, EndpointKeys],
        Field(min_length=1, description="The (method, path) pairs that exist; nothing else does."),
    ]
    models: Annotated[
        dict[Alias, ModelKeys] | None,
        Field(min_length=1, description="The models of this plane, by the alias that callers use."),
    ] = None
    parameters: Annotated[
        dict[Name, ParametersKeys] | None,
        Field(min_length=1, description="The body fields of each endpoint that has a body."),
    ] = None
    media: MediaKeys | None = None
    cors: CorsKeys | None = None
    metadata: MetadataKeys | None = None
    limits: Annotated[dict[Name, LimitKeys], Field(min_length=1, description="Named sets of limits.")]
    clients: Annotated[
        dict[Name, ClientKeys],
        Field(min_length=1, description="Who may use this plane; the name explains, `is` decides."),
    ]
    operations: OperationsKeys | None = None
    cases: CasesKeys
