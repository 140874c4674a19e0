"""What the value of a setting may look like: one reader for each kind, and the annotated types that the settings use.

Enters: the text of a variable, never empty. Leaves: the value, or a ``ValueError`` whose message completes the
sentence that begins with the variable's name and does not repeat the value.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, cast

import orjson
from pydantic import BeforeValidator, SecretStr

from gateway.addresses import (
    EngineAddress,
    LedgerAddress,
    Tcp,
    Unix,
    engine_address,
    ledger_address,
    listener_address,
)
from gateway.wire.hosts import is_host

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_INTEGER = re.compile(r"[0-9]{1,9}")
# What may stand in a header field without quoting, so that no secret can split a request.
_SECRET = re.compile(r"[!-~]+")
_SHORTEST_KEY = 32


def duration(text: str) -> float:
    """Read a duration in seconds, longer than none."""
    seconds = duration_or_zero(text)
    if seconds == 0:
        raise ValueError("must be longer than 0")
    return seconds


def duration_or_zero(text: str) -> float:
    """Read a duration in seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("must be a duration such as 500ms, 15s, 5m or 24h")
    return float(match[1]) * _SECONDS[match[2]]


def integer(text: str) -> int:
    """Read a whole number above 0."""
    if _INTEGER.fullmatch(text) is None or int(text) == 0:
        raise ValueError("must be a whole number from 1 up, in digits")
    return int(text)


def integer_or_zero(text: str) -> int:
    """Read a whole number."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("must be a whole number from 0 up, in digits")
    return int(text)


def boolean(text: str) -> bool:
    """Read ``true`` or ``false``."""
    if text not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text == "true"


def secret(text: str) -> SecretStr:
    """Read a secret."""
    if _SECRET.fullmatch(text) is None:
        raise ValueError("must be printable ASCII without spaces")
    return SecretStr(text)


def long_secret(text: str) -> SecretStr:
    """Read a secret that other values are derived from, so that nobody finds it by guessing."""
    if len(text) < _SHORTEST_KEY:
        raise ValueError(f"must have at least {_SHORTEST_KEY} characters, such as the output of: openssl rand -hex 32")
    return secret(text)


def texts(text: str) -> tuple[str, ...]:
    """Read a JSON list of texts, or texts with commas between them."""
    if text.startswith("["):
        try:
            items = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise ValueError('must be a JSON list such as ["a", "b"], or texts with commas between them') from None
    else:
        items = [item.strip() for item in text.split(",")]
    if not items or not all(isinstance(item, str) and item for item in items):
        raise ValueError("must be a list of texts, none of them empty")
    if len(set(items)) != len(items):
        raise ValueError("must not name anything twice")
    return tuple(items)


def hosts(text: str) -> tuple[str, ...]:
    """Read values of the Host field."""
    items = texts(text)
    if not all(map(is_host, items)):
        raise ValueError("must list values of the Host field, such as llm.example.com or 10.0.0.5:8080")
    return items


def files(text: str) -> tuple[Path, ...]:
    """Read paths of files or folders."""
    return tuple(map(Path, texts(text)))


def engine_urls(text: str) -> tuple[EngineAddress, ...]:
    """Read the origins of an engine's replicas."""
    return tuple(map(engine_address, texts(text)))


def ledger(text: str) -> LedgerAddress | None:
    """Read where the numbers of limits are kept; ``None`` is the memory of this process."""
    return None if text == "memory://" else ledger_address(text)


def https_url(text: str) -> str:
    """Read a URL that is fetched: what comes back is trusted, so nobody between may change it."""
    origin = "/".join(text.split("/", 3)[:3])
    if (
        not text.isascii()
        or any(character <= " " for character in text)
        or "#" in text
        or not origin.startswith("http")
    ):
        raise ValueError("must be an https URL")
    if engine_address(origin).plain_beyond_loopback:
        raise ValueError("must be an https URL; plain http is for loopback hosts alone")
    return text


def log_level(text: str) -> LogLevelName:
    """Read the least severe level that is logged."""
    if text.lower() not in {"debug", "info", "warning", "error"}:
        raise ValueError("must be debug, info, warning or error")
    return cast("LogLevelName", text.lower())


LogLevelName = Literal["debug", "info", "warning", "error"]

Seconds = Annotated[float, BeforeValidator(duration)]
SecondsOrZero = Annotated[float, BeforeValidator(duration_or_zero)]
Count = Annotated[int, BeforeValidator(integer)]
CountOrZero = Annotated[int, BeforeValidator(integer_or_zero)]
Boolean = Annotated[bool, BeforeValidator(boolean)]
Secret = Annotated[SecretStr, BeforeValidator(secret)]
LongSecret = Annotated[SecretStr, BeforeValidator(long_secret)]
Hosts = Annotated[tuple[str, ...], BeforeValidator(hosts)]
File = Path
Files = Annotated[tuple[Path, ...], BeforeValidator(files)]
Ledger = Annotated[LedgerAddress | None, BeforeValidator(ledger)]
HttpsUrl = Annotated[str, BeforeValidator(https_url)]
LogLevel = Annotated[LogLevelName, BeforeValidator(log_level)]
ListenerAddress = Annotated[Tcp | Unix, BeforeValidator(listener_address)]
EngineUrls = Annotated[tuple[EngineAddress, ...], BeforeValidator(engine_urls)]
