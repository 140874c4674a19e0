"""The forms that values may have in a policy file: names, durations, sizes, paths, ids, days.

Enters: nothing. Leaves: annotated types for the document, each with its pattern (for the JSON Schema) and the sentence
that a reviewer reads when a value misses it. Every form is matched as a whole, so that no line end hides behind a
``$``. The few shapes of values that are no text (numbers, lists, true) stand in ``shapes``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic_core import PydanticCustomError, core_schema

from gateway.policy.text import NO_PATTERNS, has_pattern_characters, looks_like_pattern

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

REFUSED: Final = "refused"  # the type of our own errors, whose message is a sentence already


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a text.

    A ``literal`` one is compared character by character, so a pattern in it is a mistake. Without a ``pattern`` it is
    free text of at least ``shortest`` characters.
    """

    pattern: str | None
    sentence: str
    literal: bool = False
    shortest: int = 1

    def __get_pydantic_core_schema__(
        self,
        source: Any,  # noqa: ANN401  (whatever is annotated)
        handler: GetCoreSchemaHandler,
    ) -> core_schema.CoreSchema:
        """Check the form after the type."""
        fits = re.compile(self.pattern or rf"[\s\S]{{{self.shortest},}}").fullmatch

        def check(text: str) -> str:
            if fits(text) is None or text.isspace():
                raise PydanticCustomError(REFUSED, "{sentence}", {"sentence": self._refusal(text)})
            if self.literal and looks_like_pattern(text):
                raise PydanticCustomError(REFUSED, "{sentence}", {"sentence": NO_PATTERNS})
            return text

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """State the form in the JSON Schema."""
        stated = {"pattern": self.pattern} if self.pattern else {"minLength": self.shortest}
        return handler(schema) | stated

    def _refusal(self, text: str) -> str:
        """Say what form is wanted, and first that there are no patterns where one was tried."""
        return f"{NO_PATTERNS}; {self.sentence}" if self.pattern and has_pattern_characters(text) else self.sentence


_SEGMENT: Final = "[A-Za-z0-9._~-]+"
_HTTPS: Final = r"https://[^\s?#@/]+(/[^\s?#]*)?"
_HTTP_LOOPBACK: Final = r"http://(127\.0\.0\.1|\[::1\]|localhost)(:[0-9]+)?(/[^\s?#]*)?"
_MEMBER: Final = "[A-Za-z_][A-Za-z0-9_:/-]*"

Name = Annotated[
    str, Form("^[a-z][a-z0-9-]*$", "a name is lower-case letters, digits and hyphens, and begins with a letter")
]
Text = Annotated[str, Form(None, "this text must not be empty")]
Summary = Annotated[str, Form(None, "say in one or two sentences what this plane opens to whom", shortest=10)]
LiteralText = Annotated[str, Form(None, "this text must not be empty", literal=True)]
Id = Annotated[str, Form(r"^[\x21-\x7e]+$", "an id is visible ASCII characters without spaces", literal=True)]
Scope = Annotated[
    str,
    Form(
        r"^[\x21\x23-\x5b\x5d-\x7e]+$",
        "a scope is visible ASCII characters without spaces, quotes and backslashes",
        literal=True,
    ),
]
Issuer = Annotated[
    str,
    Form(
        f"^({_HTTPS}|{_HTTP_LOOPBACK})$",
        "an issuer is an https URL without query and fragment; http is for a loopback host only",
        literal=True,
    ),
]
HttpsUrl = Annotated[str, Form(f"^{_HTTPS}$", "write an https URL without query and fragment", literal=True)]
Team = Annotated[
    str,
    Form(
        r"^[a-z0-9-]+(\.fed)?$", "a team is the part before .cloudflareaccess.com: lower-case letters, digits, hyphens"
    ),
]
Tag = Annotated[str, Form("^[0-9a-f]{64}$", "an audience tag of Cloudflare Access is 64 lower-case hexadecimal digits")]
Sha256 = Annotated[
    str,
    Form("^[0-9a-f]{64}$", "a SHA-256 is 64 lower-case hexadecimal digits; the key itself never stands in a policy"),
]
ClaimPath = Annotated[
    str, Form(rf"^{_MEMBER}(\.{_MEMBER})*$", "a claim is named by a dotted path such as groups or custom.groups")
]
Claim = Annotated[str, Form("^[A-Za-z_][A-Za-z0-9_]*$", "a claim is named by letters, digits and underscores")]
Skew = Annotated[str, Form("^([0-9]+s|[0-5]m)$", "a clock skew is a duration of at most 5m, such as 30s")]
Duration = Annotated[str, Form("^[1-9][0-9]*(s|m|h)$", "a duration is a whole number with s, m or h, such as 30s")]
Size = Annotated[str, Form("^[1-9][0-9]*(KiB|MiB)$", "a size is a whole number with KiB or MiB, such as 2MiB")]
Allow = Annotated[
    str,
    Form(
        rf"^(GET|HEAD|POST) (?!(.*/)\.{{1,2}}(/|$))(/{_SEGMENT})+(/\{{model\}})?$",
        "write GET, HEAD or POST, one space and the exact path, such as POST /v1/chat/completions: no query, no slash "
        "at the end or doubled, no dot segment; only the dialect openai-model may end in /{model}",
    ),
]
Alias = Annotated[
    str,
    Form(
        rf"^(?!(.*/)?\.{{1,2}}(/|$)){_SEGMENT}(/{_SEGMENT})*$",
        "an alias is letters, digits, dots, hyphens, underscores and tildes, with single slashes between",
    ),
]
QueryKey = Annotated[str, Form("^[A-Za-z0-9_.-]+$", "a query key is letters, digits, dots, hyphens and underscores")]
QueryValue = Annotated[
    str, Form("^[A-Za-z0-9._~-]*$", "a query value is letters, digits, dots, hyphens, underscores and tildes")
]
FieldName = Annotated[
    str, Form(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$", "a field is written in lower case, dotted where nested")
]
Host = Annotated[
    str, Form(r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", "a host is one exact name in lower case, without scheme and port")
]
Origin = Annotated[
    str,
    Form(
        r"^https://[a-z0-9.-]+(:[0-9]+)?$",
        "an origin is https:// and one exact host, with its port if it has one, and nothing after it",
    ),
]
Network = Annotated[
    str,
    Form(
        r"^([0-9]{1,3}(\.[0-9]{1,3}){3}/([0-9]|[12][0-9]|3[0-2])"
        r"|[0-9a-f:]*:[0-9a-f:]*/([0-9]{1,2}|1[01][0-9]|12[0-8]))$",
        "a network is an address and the length of its prefix, such as 10.20.0.0/16 or fd00::/8",
    ),
]
Day = Annotated[str, Form("^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$", "a day is written as 2027-01-31")]
Permitted = Annotated[
    str,
    Form(
        r"^(client:[a-z][a-z0-9-]*|group:[\x21-\x7e]+)$",
        "write client: or group: and one name, such as group:reasoning",
        literal=True,
    ),
]
Person = Annotated[
    str,
    Form("^[a-z0-9][A-Za-z0-9 ,'-]*$", "a caller of the cases is named by letters, digits, spaces, commas, hyphens"),
]
Ask = Annotated[
    str, Form(r"^[A-Z]+ \S.*$", "write the method, one space and the target as sent, such as GET /v1/models")
]
Address = Annotated[str, Form("^[0-9a-f.:]+$", "an address is IPv4 or IPv6 in lower case, without a port")]
