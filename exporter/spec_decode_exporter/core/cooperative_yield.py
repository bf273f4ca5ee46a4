"""Work that pauses now and then, so that whoever does it can let others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

Pausing: TypeAlias = Generator[None, None, Result]
"""Work that yields where it may pause, and returns its result."""


def finish(work: Pausing[Result]) -> Result:
    """Do the work in one go."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Meter:
    """Adds up the processor time of work, without what others do in its pauses."""

    def __init__(self, processor: Callable[[], float]) -> None:
        """Measure by ``processor``, seconds of this thread."""
        self._processor = processor
        self.seconds = 0.0
        """Of all work so far, also of work that failed."""

    def measured(self, work: Pausing[Result]) -> Pausing[Result]:
        """Do the work and pause where it pauses."""
        while True:
            with self.running():
                try:
                    next(work)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
            yield

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what is done within; nothing of it may be awaited."""
        started = self._processor()
        try:
            yield
        finally:
            self.seconds += self._processor() - started


async def cooperatively(work: Pausing[Result]) -> Result:
    """Do the work; whatever else is ready on the event loop has its turn at every pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        await asyncio.sleep(0)
