"""The engine behind the routes: whether it sleeps, what runs, what it would say.

Enters: the settings of the simulation and the commands of the control routes. Leaves: tokens, as a model would emit
them, and the numbers that ``/metrics`` shows. It knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

_WORDS = ("The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "looks", "back.")
_POLL_S = 0.01


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds. It is asked again and again, since a test may change whatever it likes."""
    while not condition():  # noqa: ASYNC110  (nobody signals what a test changes)
        await anyio.sleep(_POLL_S)


@dataclass(eq=False, slots=True)
class Generation:
    """One running request."""

    aborted: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class EngineState:
    """One engine. ``latency_s`` passes before each token; an answer that is not cut short has ``tokens`` of them.

    ``heeds_switch``: the chat template knows ``enable_thinking``. ``blind_parser``: the reasoning parser takes a whole
    answer for thought, whatever the template was told. ``started``: seconds of the Unix epoch.
    """

    models: tuple[str, ...] = ("local",)
    latency_s: float = 0.0
    tokens: int = 16
    max_model_len: int = 8192
    default_enable_thinking: bool | None = None
    heeds_switch: bool = True
    reasoning_parser: bool = False
    blind_parser: bool = False
    sleep_level: int | None = None
    paused: bool = False
    weight_version: str = "default"
    adapters: list[str] = field(default_factory=list)
    running: set[Generation] = field(default_factory=set)
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    prompt_tokens: int = 0
    generation_tokens: int = 0
    started: float = field(default_factory=time.time)

    @property
    def scheduling(self) -> bool:
        """Whether requests make progress. ``/health`` answers 200 either way, as the real one does."""
        return self.sleep_level is None and not self.paused

    def abort_all(self) -> None:
        """Abort every running request of every client."""
        for generation in self.running:
            generation.aborted.set()

    async def drained(self) -> None:
        """Wait until nothing runs."""
        await until(lambda: not self.running)

    async def generate(self, most: int | None, says: Sequence[str] = ()) -> AsyncIterator[str]:
        """Emit the tokens of one request; ends early when it is aborted, and stands still while the engine does.

        ``says`` are the tokens of an answer that a schema constrains.
        """
        generation = Generation()
        self.running.add(generation)
        try:
            for word in islice(says or cycle(_WORDS), self.answer_length(most, says)):
                with anyio.move_on_after(self.latency_s):
                    await generation.aborted.wait()
                await until(lambda: self.scheduling or generation.aborted.is_set())
                if generation.aborted.is_set():
                    self.finished["abort"] += 1
                    return
                self.generation_tokens += 1
                yield word if says else f" {word}"
            self.finished[self.finish_reason(most, says)] += 1
        finally:
            self.running.discard(generation)

    def answer_length(self, most: int | None, says: Sequence[str] = ()) -> int:
        """Give the number of tokens of an answer of at most ``most``."""
        longest = len(says) or self.tokens
        return longest if most is None else min(most, longest)

    def finish_reason(self, most: int | None, says: Sequence[str] = ()) -> str:
        """Tell why an answer ends that was not aborted."""
        return "stop" if most is None or most > (len(says) or self.tokens) else "length"
