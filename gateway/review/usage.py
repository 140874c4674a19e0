"""How much was used, by day, client and model: ``vllm-gateway usage``.

Enters: lines of audit logs. Leaves: ``UsageReport``. It adds up what the records say and judges nothing; a line that is
no record is counted and left out, since a log that was cut off must not hide what stands before the cut.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

_DAY = slice(0, 10)
_NONE = "-"
_HEADS = ("day", "plane", "client", "model", "requests", "refused", "prompt", "completion", "reasoning", "uncounted")


class Use(NamedTuple):
    """Whose requests these are: of one UTC day, one client of a plane, and one model; ``-`` for none."""

    day: str
    plane: str
    client: str
    model: str


@dataclass(slots=True)
class Sums:
    """Requests, those of them that did not go through, and tokens.

    ``uncounted``: requests that an engine answered without saying how many tokens it took.
    """

    requests: int = 0
    refused: int = 0
    prompt: int = 0
    completion: int = 0
    reasoning: int = 0
    uncounted: int = 0

    def add(self, record: dict[str, Any]) -> None:
        """Add one record."""
        self.requests += 1
        if record.get("verdict") != "permit":
            self.refused += 1
        usage = record.get("usage")
        if isinstance(usage, dict):
            self.prompt += usage.get("prompt") or 0
            self.completion += usage.get("completion") or 0
            self.reasoning += usage.get("reasoning") or 0
        elif record.get("engine_status") is not None:
            self.uncounted += 1


@dataclass(slots=True)
class UsageReport:
    """The sums of the UTC days from one to another, both included, and the number of lines that are no records."""

    since: str = ""
    until: str = "9999"
    sums: dict[Use, Sums] = field(default_factory=dict)
    unreadable: int = 0

    def read(self, lines: Iterable[bytes]) -> None:
        """Add the records of a log."""
        for line in lines:
            try:
                record = orjson.loads(line)
                day = record["time"][_DAY]
                use = Use(
                    day, record["plane"], record.get("client") or _NONE, record.get("model") or _NONE
                )  # a credential that failed has no client
            except (orjson.JSONDecodeError, KeyError, TypeError):
                self.unreadable += bool(line.strip())
                continue
            if self.since <= day <= self.until:
                self.sums.setdefault(use, Sums()).add(record)

    def as_text(self) -> str:
        """Give a table for people: names to the left, numbers to the right."""
        rows = [
            _HEADS,
            *((*use, *(f"{n:,}" for n in asdict(sums).values())) for use, sums in sorted(self.sums.items())),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
        names = len(Use._fields)
        lines = [
            "  ".join(
                cell.ljust(width) if column < names else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        if self.unreadable:
            lines.append(f"{self.unreadable} lines are no audit records and are not counted.")
        return "\n".join(lines)

    def as_json(self) -> str:
        """Give what a machine reads."""
        rows = [{**use._asdict(), **asdict(sums)} for use, sums in sorted(self.sums.items())]
        return json.dumps({"usage": rows, "unreadable": self.unreadable})
