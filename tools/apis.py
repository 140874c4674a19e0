"""Write the field tables of every dialect into ``docs/apis.md``: ``python -m tools.apis``.

Enters: the tables in ``gateway/dialects/data``. Leaves: everything behind the marker in the document, which people read
and nobody edits. What stands before it is written by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gateway.dialects.registry import DIALECTS, FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.dialects.fields import Field
    from gateway.dialects.registry import Facts

DOCUMENT = Path(__file__).parents[1] / "docs" / "apis.md"
MARKER = "<!-- What follows is written by `python -m tools.apis` from gateway/dialects/data: edit it there. -->\n"


def tables() -> str:
    """Give the generated part of the document."""
    judged = [(FACTS[name], dialect.upstream) for name, dialect in DIALECTS.items() if FACTS[name].fields]
    lines = ["\n## Overview\n", "| dialect | at the engine | models | answers count tokens |\n|---|---|---|---|"]
    for facts, upstream in judged:
        models = "with `most_tokens`" if facts.generates else "without `most_tokens`"
        counts = "yes" if facts.counts_tokens else "no"
        lines.append(f"| [`{facts.name}`](#{facts.name}) | `{' '.join(upstream or ())}` | {models} | {counts} |")
    for facts, _ in judged:
        lines += _section(facts)
    return "\n".join(lines) + "\n"


def _section(facts: Facts) -> Iterator[str]:
    yield f"\n## {facts.name}\n"
    if facts.required:
        yield f"Needs {_listed(facts.required)}."
    if facts.answer_tokens:
        yield f"The longest answer is {_listed(facts.answer_tokens)}: set to the model's `most_tokens` when absent."
    if facts.standard:
        yield f"`standard` is {_listed(sorted(facts.standard))}."
    else:
        yield "There is no `standard`: fields are listed one by one."
    yield "\n| field | treatment | value | why | vLLM |\n|---|---|---|---|---|"
    for field in facts.fields.values():
        versions = ", ".join(sorted(field.versions)) or "none"
        yield f"| `{field.name}` | {field.treatment} | {_value(field)} | {field.why} | {versions} |"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _value(field: Field) -> str:
    kinds = " or ".join(sorted(field.kinds))
    words = f": {', '.join(sorted(field.words))}" if field.words else ""
    least = "" if field.minimum is None else f", from {field.minimum}"
    most = "" if field.maximum is None else f", up to {field.maximum}"
    alias = "" if field.alias is None else f", written `{field.alias}` in a form"
    return f"{kinds}{words}{least}{most}{alias}"


if __name__ == "__main__":
    head, marker, _ = DOCUMENT.read_text("utf-8").partition(MARKER)
    DOCUMENT.write_text(head + (marker or MARKER) + tables(), encoding="utf-8")
