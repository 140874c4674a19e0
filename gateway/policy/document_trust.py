"""``trust`` of a policy file, typed: who may vouch for a request.

Enters: plain data. Leaves: frozen models whose descriptions are those of the JSON Schema. Whether the parts agree is
said by ``compile``.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from gateway.policy.forms import Claim, ClaimPath, Duration, Issuer, LiteralText, Name, Skew, Tag, Team
from gateway.policy.shapes import Closed, Said, Several

Algorithm = Annotated[
    Literal["RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"], Field(description="One asymmetric JWS algorithm.")
]
IssuerKey = Annotated[Issuer, Field(description="Exact issuer of the tokens: https, or http on a loopback host.")]
AudienceKey = Annotated[
    LiteralText, Field(description="Exact audience that a token must be meant for; each plane has its own.")
]
TeamKey = Annotated[
    Team,
    Field(
        description="Team name of Cloudflare Zero Trust, the part before .cloudflareaccess.com (with .fed for the "
        "FedRAMP variant)."
    ),
]
TagKey = Annotated[Tag, Field(description="Audience tag of the Access application, 64 hexadecimal digits.")]
GroupsKey = Annotated[
    ClaimPath | None,
    Field(
        description="Dotted path of the claim that lists the caller's groups; without it no rule may name a group of "
        "this caller."
    ),
]


class AccessTokenKeys(Closed):
    """Signed access tokens of one OAuth issuer (RFC 9068)."""

    issuer: IssuerKey
    audience: AudienceKey
    algorithms: Annotated[
        Several[Algorithm],
        Field(
            description="Signature algorithms that are accepted; each name matches only its own text in the "
            "token's header."
        ),
    ]
    token_type: Annotated[
        Literal["at+jwt", "JWT", "absent"],
        Field(
            description="Exact `typ` of the token's header; JWT only for an issuer that cannot send at+jwt, absent "
            "only for one that sends none."
        ),
    ]
    clock_skew: Annotated[Skew, Field(description="How far the issuer's clock may differ from ours, at most 5m.")]
    client_claim: Annotated[
        Literal["azp", "client_id", "sub", "appid", "cid"],
        Field(description="The claim that holds the client's immutable id."),
    ]
    groups_claim: GroupsKey = None
    scopes_claim: Annotated[
        Claim | None, Field(description="The claim that holds the scopes; `scope` when absent.")
    ] = None
    longest_lifetime: Annotated[Duration, Field(description="The longest `exp` minus `iat` that is accepted.")]
    sender: Annotated[
        Literal["dpop", "mtls"] | None,
        Field(
            description="The proof that each request must bring that it comes from whom the token was made for: dpop "
            "(RFC 9449), or mtls for the certificate of its connection (RFC 8705), which the listener must ask for; a "
            "bearer token is enough when absent."
        ),
    ] = None


class IntrospectionKeys(Closed):
    """Opaque tokens that the issuer is asked about (RFC 7662); at most one such caller on a plane."""

    issuer: IssuerKey
    audience: AudienceKey
    groups_claim: GroupsKey = None


class AccessCallerKeys(Closed):
    """The identity in the assertion of a Cloudflare Access application."""

    team: TeamKey
    audience: TagKey
    groups_claim: GroupsKey = None


class ApiKeyKeys(Closed):
    """Static keys, known to the policy by their SHA-256 only."""

    carriers: Annotated[
        Several[Annotated[Literal["authorization", "x-api-key"], Field(description="One header field.")]] | None,
        Field(description="Header fields in which a key may come; only `authorization` when absent."),
    ] = None


class CallerKeys(Said):
    """One kind of credential."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    access_token: AccessTokenKeys | None = None
    introspection: IntrospectionKeys | None = None
    cloudflare_access: AccessCallerKeys | None = None
    api_key: ApiKeyKeys | None = None


class AccessApplicationKeys(Closed):
    """The Access application in front of this plane."""

    team: TeamKey
    audience: TagKey


class EdgeKeys(Closed):
    """A second lock: proof that the request came through our own tunnel."""

    cloudflare_access: AccessApplicationKeys


class TrustKeys(Closed):
    """Who may vouch for a request."""

    edge: EdgeKeys | None = None
    callers: Annotated[
        dict[Name, CallerKeys],
        Field(min_length=1, description="The ways in which a caller may prove who it is, each with a name."),
    ]
