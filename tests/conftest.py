"""What holds for every test: asyncio as the event loop, no skipped test, and two sizes of property tests."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

settings.register_profile("short", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", parent=settings.get_profile("short"), max_examples=5000)
settings.load_profile("short")

# A shell that runs the tests in the background has them ignore it, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run coroutines of tests on asyncio, which is what the server runs on."""
    return "asyncio"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which a test was skipped: a test that did not run proves nothing."""
    reporter: TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say why a run without a failure failed all the same."""
    if terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("ERROR a test was skipped; no test here may be", red=True)
