"""The document of the APIs shows the tables as they are."""

from __future__ import annotations

from tests.house.tree import text
from tools.apis import MARKER, tables


def test_the_tables_of_the_document_are_those_of_the_dialects() -> None:
    """A failure means: run 'python -m tools.apis' and commit the document."""
    _, marker, generated = text("docs/apis.md").partition(MARKER)
    assert marker
    assert generated == tables()
