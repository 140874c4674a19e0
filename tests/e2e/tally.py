"""What the corpus found, by group: how many cases were right, reached the engine in spite of it, or provoked a 5xx."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Count:
    """The counts of one group."""

    cases: int = 0
    right: int = 0
    reached: int = 0
    server_errors: int = 0

    def row(self, name: str) -> str:
        """Give one line of the table."""
        return f"{name:16}{self.cases:>8}{self.right:>8}{self.reached:>10}{self.server_errors:>8}"


@dataclass(slots=True)
class Tally:
    """The counts of all groups."""

    groups: dict[str, Count] = field(default_factory=dict)

    def of(self, group: str) -> Count:
        """Give the counts of a group."""
        return self.groups.setdefault(group, Count())

    def lines(self) -> list[str]:
        """Give the table; none, when nothing was counted."""
        if not self.groups:
            return []
        head = f"{'corpus':16}{'cases':>8}{'right':>8}{'reached':>10}{'5xx':>8}"
        total = Count()
        for count in self.groups.values():
            total.cases += count.cases
            total.right += count.right
            total.reached += count.reached
            total.server_errors += count.server_errors
        rows = [count.row(name) for name, count in sorted(self.groups.items())]
        return [head, *rows, total.row("all")]


TALLY = Tally()
