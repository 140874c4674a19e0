"""Write the field tables of every dialect into their sections of ``docs/apis.md``: ``python -m tools.apis``.

Enters: the tables in ``gateway/dialects/data``, and a document with one section for each dialect, whose heading ends in
its name. Leaves: the document with each section's table as the dialect has it now; the words around it are by hand.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.dialects.registry import FACTS

if TYPE_CHECKING:
    from gateway.dialects.registry import Facts

DOCUMENT = Path(__file__).parents[1] / "docs" / "apis.md"
HEAD = "| field | treatment | why |\n|---|---|---|\n"
_TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def table(facts: Facts) -> str:
    """Give a dialect's fields as a table."""
    return HEAD + "".join(f"| `{one.name}` | {one.treatment} | {one.why} |\n" for one in facts.fields.values())


def section(document: str, name: str) -> str:
    """Give the section of a dialect, without its heading; nothing where there is none."""
    return document.partition(f": `{name}`\n")[2].partition("\n## ")[0]


def renewed(document: str) -> str:
    """Give the document with every table as it is now."""
    for name, facts in FACTS.items():
        old = section(document, name)
        found = _TABLE.search(old) if facts.fields else None
        if found is not None:
            document = document.replace(old, old[: found.start()] + table(facts) + old[found.end() :])
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(renewed(DOCUMENT.read_text("utf-8")), encoding="utf-8")
