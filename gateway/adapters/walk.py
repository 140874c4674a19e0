"""A request's walk through the gateway, without a task of the event loop as long as nobody outside is asked.

Enters: the coroutine that leads one request. Leaves: its end. Making a task and waking it again cost more than some of
the rooms; most walks wait for nothing but the answer of their engine, and whoever has that can simply go on. So a
``Walk`` steps its coroutine by hand, and moves into a task of its own when the coroutine awaits anything but a
``Promise``. Before it uses what belongs to a task (``asyncio.timeout`` and clients built on it), code on the way awaits
``in_task``.
"""

from __future__ import annotations

import asyncio
from types import coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, MutableSet

T = TypeVar("T")


class Promise(Generic[T]):
    """A value that will be there, for one who awaits it: a walk, which then goes on at once, or a task."""

    __slots__ = ("_go_on", "_value", "kept")

    def __init__(self) -> None:
        self.kept = False
        self._value: T | None = None
        self._go_on: Callable[[], None] | None = None

    def keep(self, value: T) -> None:
        """Set the value, and let who awaits it go on; what follows the call finds him gone on. Only the first counts."""
        if self.kept:
            return
        self.kept = True
        self._value = value
        if self._go_on is not None:
            self._go_on()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the value."""
        if not self.kept:
            try:
                if asyncio.current_task() is None:
                    yield self
                else:
                    yield from self._future().__await__()
            finally:
                self._go_on = None  # who was cancelled does not go on
        return cast("T", self._value)

    def _future(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._go_on = lambda: None if future.done() else future.set_result(None)
        return future

    def call(self, go_on: Callable[[], None]) -> None:
        """Have this called when the value is there."""
        self._go_on = go_on


class Walk:
    """One walk; it stands in ``walks`` (the server's set of what is under way) until it ends, and then calls ``ended``.

    Like a task it can be cancelled, in the next turn of the loop. An error that comes out of it is reported.
    """

    __slots__ = ("_coroutine", "_ended", "_loop", "_task", "_walks")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        walks: MutableSet[Any],
        ended: Callable[[], None],
    ) -> None:
        self._coroutine: Coroutine[Any, Any, None] | None = coroutine
        self._loop = loop
        self._walks = walks
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        walks.add(self)

    def step(self) -> None:
        """Go on until something is awaited."""
        if self._coroutine is None or self._task is not None:
            return
        try:
            awaited = self._coroutine.send(None)
        except BaseException as error:  # noqa: BLE001  (sorted there)
            self._end(error)
        else:
            self._await(awaited)

    def cancel(self, msg: str | None = None) -> None:
        """Raise ``CancelledError`` where it waits, in the next turn."""
        self._loop.call_soon(self._cancel, msg)

    def _cancel(self, msg: str | None) -> None:
        if self._task is not None:
            self._task.cancel(msg)
        elif self._coroutine is not None:
            try:
                awaited = self._coroutine.throw(asyncio.CancelledError())
            except BaseException as error:  # noqa: BLE001  (sorted there)
                self._end(error)
            else:
                self._await(awaited)

    def _await(self, awaited: object) -> None:
        """Go on when a promise is kept; for anything else, in a task."""
        if isinstance(awaited, Promise):
            awaited.call(self.step)
        elif self._coroutine is not None:
            self._task = self._loop.create_task(_rest(self._coroutine, awaited))
            self._task.add_done_callback(self._end_of_task)

    def _end_of_task(self, task: asyncio.Task[None]) -> None:
        self._end(asyncio.CancelledError() if task.cancelled() else task.exception())

    def _end(self, error: BaseException | None) -> None:
        self._coroutine = self._task = None
        self._walks.discard(self)
        self._ended()
        if error is None or isinstance(error, StopIteration | asyncio.CancelledError):
            return
        if not isinstance(error, Exception):
            raise error
        self._loop.call_exception_handler({"message": "a request ended with an error", "exception": error})


async def in_task() -> None:
    """Go on in a task from here, in the next turn of the loop, unless this is one."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)


@coroutine
def _rest(walk: Coroutine[Any, Any, None], awaited: object) -> Generator[Any, Any, None]:
    """Be the rest of a walk that has awaited this."""
    while True:
        try:
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001  (the walk decides)
                awaited = walk.throw(error)
            else:
                awaited = walk.send(sent)
        except StopIteration:
            return
