"""What the doctor found: one line for each thing that was looked at, and the first layer that is broken.

Enters: ``Finding`` after ``Finding``. Leaves: text for a person, JSON for a machine, and the exit status. What a
finding means was decided before; here it is only told.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum

HOLDS, FOUND, MISUSED = 0, 1, 2


class Layer(StrEnum):
    """The layers, in the order in which a request depends on them, but for the tunnel, which is before all."""

    CONFIGURATION = "configuration"
    IDENTITY = "identity"
    ENGINE = "engine"
    ENGINE_API = "engine API"
    MODEL = "model"
    GPU = "GPU"
    GATEWAY = "gateway"
    LEDGER = "ledger"
    TUNNEL = "tunnel"


class Verdict(StrEnum):
    """What is said of one thing. ``not tried``: it stands behind something that is broken, or nothing leads there."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: ``subject`` was looked at, ``saw`` is what was seen, ``do`` what to do about it."""

    layer: Layer
    verdict: Verdict
    subject: str
    saw: str
    do: str = ""

    def lines(self) -> list[str]:
        """Give what a person reads."""
        about = f"{self.subject}: " if self.subject else ""
        first = f"{self.verdict:<9}  {self.layer:<13}  {about}{self.saw}"
        return [first, f"{'':<26}→ {self.do}"] if self.do else [first]


@dataclass(slots=True)
class Diagnosis:
    """All findings so far. ``interrupted``: there would have been more."""

    findings: list[Finding] = field(default_factory=list)
    interrupted: bool = False

    @property
    def first_broken(self) -> Finding | None:
        """The first thing that is broken in the order of the layers."""
        broken = [finding for finding in self.findings if finding.verdict is Verdict.BROKEN]
        order = list(Layer)
        return min(broken, key=lambda finding: order.index(finding.layer), default=None)

    @property
    def status(self) -> int:
        """The exit status of the command: warnings hold; without a usable configuration nothing was looked at."""
        first = self.first_broken
        if first is None:
            return FOUND if self.interrupted else HOLDS
        return MISUSED if first.layer is Layer.CONFIGURATION else FOUND

    @property
    def conclusion(self) -> str:
        """Give the last line."""
        first = self.first_broken
        if first is not None:
            about = f"{first.subject}: " if first.subject else ""
            return f"The first broken layer is: {first.layer} ({about}{first.saw})."
        if self.interrupted:
            return "Interrupted: nothing was broken so far, and not everything was looked at."
        warnings = sum(finding.verdict is Verdict.WARNING for finding in self.findings)
        counted = {0: "no warnings", 1: "1 warning"}.get(warnings, f"{warnings} warnings")
        return f"No layer is broken; {counted}."

    def as_json(self) -> str:
        """Give what a machine reads."""
        first = self.first_broken
        data = {
            "holds": self.status == HOLDS,
            "interrupted": self.interrupted,
            "first_broken": None if first is None else first.layer,
            "findings": [asdict(finding) for finding in self.findings],
        }
        return json.dumps(data, indent=2, ensure_ascii=False)


def told(text: str, longest: int = 160) -> str:
    """Give a foreign text as it may be shown: one line of printable characters, and not too long."""
    plain = "".join(character if character.isprintable() else " " for character in text[: longest * 4])
    words = " ".join(plain.split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"
