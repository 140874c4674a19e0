"""One running site for all tests of the whole, and the table of what the corpus found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("tests.e2e.scenarios", "tests.e2e.scenarios_limits", "tests.e2e.playing")

from tests.e2e.chaos import STORY  # noqa: E402  (a module is rewritten before it is imported, or not at all)
from tests.e2e.fault_matrix import MATRIX  # noqa: E402  (as above)
from tests.e2e.site import Site, running  # noqa: E402  (as above)
from tests.e2e.tally import TALLY  # noqa: E402  (as above)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.terminal import TerminalReporter


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run gateway, engines and issuer."""
    with running(tmp_path_factory.mktemp("site")) as one:
        yield one


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the tables of what was run: the corpus, the faults of engines, the chaos."""
    for line in (*TALLY.lines(), *MATRIX.lines(), *STORY):
        terminalreporter.write_line(line)
