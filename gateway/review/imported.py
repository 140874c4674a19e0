"""What another gateway's configuration becomes here: stanzas for the policy, lines for the environment, what is lost.

Enters: models, engines and limits. Leaves: text to paste, or JSON. The value of a key is never in it: its line is
empty, and the gateway does not start while it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.addresses import EngineAddress
    from gateway.policy.model import Model
    from gateway.policy.source import Problem

# What YAML 1.1 and 1.2 both read as text without quotes.
_PLAIN = re.compile(r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[A-Za-z_][A-Za-z0-9_./-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ImportedEngine:
    """One engine: the addresses of its replicas, and the variable that holds its key today, if it has one."""

    addresses: tuple[EngineAddress, ...]
    key: str | None

    @property
    def plain_beyond_loopback(self) -> bool:
        """Whether prompts and the key would cross a network in the clear."""
        return any(address.plain_beyond_loopback for address in self.addresses)


@dataclass(frozen=True, slots=True)
class Imported:
    """The whole. ``limits`` are by alias; ``lost`` names what was not carried over, with its place."""

    models: Mapping[str, Model]
    engines: Mapping[str, ImportedEngine]
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    lost: tuple[Problem, ...] = ()

    def policy(self) -> str:
        """Give the stanzas for the policy file."""
        lines = ["models:", *(f"  {_scalar(alias)}: {_flow(_model(model))}" for alias, model in self.models.items())]
        if self.limits:
            lines += [
                "",
                "# LiteLLM counts these for a model; here each client that names the set has them for itself.",
            ]
            lines += ["limits:"]
            lines += [f"  {_limit_name(alias)}: {_flow(limits)}" for alias, limits in self.limits.items()]
        return "\n".join([*lines, ""])

    def settings(self) -> str:
        """Give the lines for the environment."""
        return "\n".join([line for name, engine in self.engines.items() for line in _lines(name, engine)] + [""])

    def as_text(self) -> str:
        """Give what a person reads and pastes."""
        parts = ["# Into the policy file; a model is reached once a client lists it.", self.policy()]
        parts += ["# Into .env, or the unit or container of the gateway.", self.settings()]
        return "\n".join(parts)

    def as_json(self) -> str:
        """Give what a machine reads."""
        return json.dumps(
            {
                "models": {alias: _model(model) for alias, model in self.models.items()},
                "limits": self.limits,
                "engines": {
                    name: {"urls": [*map(str, engine.addresses)], "key": engine.key}
                    for name, engine in self.engines.items()
                },
                "settings": self.settings().splitlines(),
                "lost": [str(problem) for problem in self.lost],
            }
        )


def _model(model: Model) -> dict[str, str | int]:
    stanza: dict[str, str | int] = {"engine": model.engine, "served_as": model.served_as}
    return stanza if model.most_tokens is None else {**stanza, "most_tokens": model.most_tokens}


def _lines(name: str, engine: ImportedEngine) -> Iterator[str]:
    prefix = f"GATEWAY_ENGINES__{name.upper().replace('-', '_')}__"
    yield f"{prefix}URLS={','.join(map(str, engine.addresses))}"
    if engine.plain_beyond_loopback:
        yield "# Prompts and the key would cross a network in the clear: use https, or accept that by name."
        yield f"#{prefix}PLAIN_HTTP=true"
    if engine.key is not None:
        yield f"# The value that LiteLLM takes from {engine.key}; or its file, as {prefix}API_KEY_FILE."
        yield f"{prefix}API_KEY="


def _limit_name(alias: str) -> str:
    """Name a set of limits after an alias, as policies spell names."""
    name = re.sub(r"[^a-z0-9]+", "-", alias.lower()).strip("-")
    return name if re.match("[a-z]", name) else f"limits-{name}"


def _flow(values: Mapping[str, str | int]) -> str:
    return f"{{{', '.join(f'{key}: {_scalar(value)}' for key, value in values.items())}}}"


def _scalar(value: str | int) -> str:
    """Write a value so that every YAML reader takes it for what it is."""
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)
