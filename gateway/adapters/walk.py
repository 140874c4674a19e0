"""A request's walk through the gateway, without a task of the event loop as long as nobody outside is asked.

Enters: the coroutine that leads one request. Leaves: its end. A task that is made, and woken again, costs more than
some of the rooms; most walks wait for nothing but a body or an answer, and whoever has that can simply go on. So a
``Walk`` steps its coroutine by hand, and moves into a task of its own when the coroutine awaits anything but a
``Promise``. Whoever needs a task on the way (``asyncio.timeout``, and clients built on it) awaits ``in_task`` before.
"""

from __future__ import annotations

import asyncio
from types import coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, MutableSet

T = TypeVar("T")

_ENDED = object()

_by_hand = False  # whether what runs now was stepped by a walk


class Promise(Generic[T]):
    """A value that will be there, for one who awaits it: a walk, which goes on at once, or a task.

    ``kept``: it is there. ``go_on`` is called when it is.
    """

    __slots__ = ("_value", "go_on", "kept")

    def __init__(self) -> None:
        self.kept = False
        self._value: T | None = None
        self.go_on: Callable[[], None] | None = None

    def keep(self, value: T) -> None:
        """Set the value; who awaits it has gone on when this returns, or will. Only the first counts."""
        if self.kept:
            return
        self.kept = True
        self._value = value
        if self.go_on is not None:
            self.go_on()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the value."""
        if not self.kept:
            try:
                if _by_hand:
                    yield self
                else:
                    yield from self._future().__await__()
            finally:
                self.go_on = None  # who was cancelled does not go on
        return self._value  # type: ignore[return-value]  # it is kept by now, and a cast is a call

    def _future(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.go_on = lambda: None if future.done() else future.set_result(None)
        return future


class Walk:
    """One walk. It stands in ``walks``, the server's set of what is under way, until it ends and then calls ``ended``.

    Like a task it can be cancelled, in the next turn of the loop; an error that comes out of it is reported.
    """

    __slots__ = ("_coroutine", "_ended", "_loop", "_steps", "_task", "_walks")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        walks: MutableSet[Any],
        ended: Callable[[], None],
    ) -> None:
        self._coroutine: Coroutine[Any, Any, None] | None = coroutine
        self._steps = coroutine.__await__()  # its end is told by `next` without an error, unlike by `send`
        self._loop = loop
        self._walks = walks
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        walks.add(self)

    def step(self, raised: BaseException | None = None) -> None:
        """Go on until something is awaited; ``raised``: with this error, where it waits."""
        global _by_hand  # noqa: PLW0603  (a step within a step is a step; the loop runs one at a time)
        walk = self._coroutine
        if walk is None:
            return
        outer, _by_hand = _by_hand, True
        try:
            awaited = next(self._steps, _ENDED) if raised is None else walk.throw(raised)
        except (StopIteration, asyncio.CancelledError):
            self._over()
        except Exception as error:  # noqa: BLE001  (whoever stepped it has no part in it)
            self._over()
            self._report(error)
        else:
            if awaited is _ENDED:
                self._over()
            elif isinstance(awaited, Promise):
                awaited.go_on = self.step
            else:
                self._task = self._loop.create_task(_rest(walk, awaited))
                self._task.add_done_callback(self._task_over)
                self._coroutine = None  # it is the task's now
        finally:
            _by_hand = outer

    def cancel(self, msg: str | None = None) -> None:
        """Raise ``CancelledError`` where it waits, in the next turn."""
        self._loop.call_soon(self._cancel, msg)

    def _cancel(self, msg: str | None) -> None:
        if self._task is not None:
            self._loop.call_soon(self._task.cancel, msg)  # behind its first step: cancelled before, it takes none
        else:
            self.step(asyncio.CancelledError())

    def _task_over(self, task: asyncio.Task[None]) -> None:
        self._over()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._report(error)

    def _over(self) -> None:
        self._coroutine = self._task = None
        self._walks.discard(self)
        self._ended()

    def _report(self, error: BaseException) -> None:
        self._loop.call_exception_handler(
            {"message": "a request ended with an error of the gateway", "exception": error}
        )


async def in_task() -> None:
    """Go on in a task from here, in the next turn of the loop, unless this is one."""
    if _by_hand:
        await asyncio.sleep(0)


async def _rest(walk: Coroutine[Any, Any, None], awaited: object) -> None:
    """Be the rest of a walk that has awaited this; since 3.12 a task takes no generator, however it is decorated."""
    await _steps(walk, awaited)


@coroutine
def _steps(walk: Coroutine[Any, Any, None], awaited: object) -> Generator[Any, Any, None]:
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
