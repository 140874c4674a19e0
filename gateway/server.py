"""The command ``serve`` with one process: signals, and reload, around what is served.

Enters: settings. Leaves: an exit status: 0 after a graceful stop, 2 when the configuration does not hold. uvicorn
accepts connections and writes the Date field; everything that it would decide about a request is ``adapters.edge``'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
from typing import TYPE_CHECKING

import structlog
import uvloop

from gateway.adapters.listening import Unusable, assigned, inherited
from gateway.adapters.logs import configured
from gateway.adapters.policy_files import PolicyFiles, PolicyFilesMissing
from gateway.adapters.revoked_file import RevokedFileUnusable
from gateway.app import Misfit
from gateway.policy.source import PolicyError
from gateway.process import opened, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from socket import socket

    from gateway.policy.model import Plane
    from gateway.process import Process
    from gateway.settings import Settings

WATCH_S = 2.0
"""Seconds between two looks at the files of policies and of revoked tokens."""

WRONG = (Misfit, PolicyFilesMissing, PolicyError, RevokedFileUnusable, Unusable)
"""What keeps a gateway from starting; each has a sentence for whoever starts it."""

_log = structlog.get_logger("gateway.server")


def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. Give the exit status."""
    try:
        given = assigned(settings.listeners, inherited(os.environ, os.getpid()))
        with configured(settings.log_level), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings, given))
    except WRONG as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


async def _run(settings: Settings, given: Mapping[str, socket]) -> None:
    files = PolicyFiles(settings.policies)
    planes = files.load()
    async with opened(settings, planes, given) as process:
        warn(settings, planes)
        reload = asyncio.Event()
        with heeding(functools.partial(_on_stop, process), reload.set):
            listening(settings)
            await process.run(_watch(settings, process, files, reload))


@contextlib.contextmanager
def heeding(stop: Callable[[], None], reload: Callable[[], None]) -> Iterator[None]:
    """Have SIGTERM and SIGINT stop and SIGHUP reload within this block, and do nothing behind it.

    There the process only ends. A loop's own handlers would leave the signals to the system before that, and the next
    one would be the exit status.
    """
    loop = asyncio.get_running_loop()
    told: dict[int, Callable[[], None]] = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}

    def heed(number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(told[number])

    for number in told:
        signal.signal(number, heed)
    try:
        yield
    finally:
        for number in told:
            signal.signal(number, signal.SIG_IGN)


def listening(settings: Settings) -> None:
    """Say where connections are accepted."""
    for name, address in settings.listeners.items():
        _log.info("listening", listener=name, address=str(address), tls=name in settings.tls_files)


def _on_stop(process: Process) -> None:
    """Stop; told twice, do not wait for what is under way."""
    if process.stopping:
        process.stop_at_once()
    process.stop()


async def _watch(settings: Settings, process: Process, files: PolicyFiles, reload: asyncio.Event) -> None:
    """Reload policies, revocations and certificates when a file changes or SIGHUP comes.

    SIGHUP also opens the audit log anew.
    """
    while True:
        told = await told_within(reload, WATCH_S)
        await process.refresh(told=told)
        if told or await asyncio.to_thread(files.changed):
            try:
                planes = await asyncio.to_thread(files.load)
                process.gateway.reload(planes)
            except (PolicyError, PolicyFilesMissing, Misfit) as error:
                not_reloaded(str(error).splitlines())
            else:
                reloaded(settings, process.gateway.planes)


async def told_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for some time; tell whether it came, and take it back."""
    told = False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            told = await event.wait()
    event.clear()
    return told


def not_reloaded(problems: Sequence[str]) -> None:
    """Say why the old policies are kept."""
    _log.error("policies not reloaded: the old ones stay in force", problems=problems)


def reloaded(settings: Settings, planes: Sequence[Plane]) -> None:
    """Say which policies are in force now."""
    warn(settings, planes)
    _log.info("policies reloaded", planes={plane.name: plane.digest[:12] for plane in planes})
