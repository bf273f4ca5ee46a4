"""Cooperative yield: long work in slices, so that other tasks of the event loop run in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from spec_decode_exporter.core.tasks import yield_to_event_loop

Result = TypeVar("Result")

Pausing: TypeAlias = Generator[None, None, Result]
"""Work that yields where it may pause, and returns its result."""


async def cooperatively(work: Pausing[Result]) -> Result:
    """Do the work, and yield to the event loop at every pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        await yield_to_event_loop()


def finish(work: Pausing[Result]) -> Result:
    """Do the work without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Meter:
    """Sums the processor time of work, without the time of other tasks in its pauses."""

    def __init__(self, processor: Callable[[], float]) -> None:
        """Measure by ``processor``, seconds of this thread."""
        self._processor = processor
        self.seconds = 0.0
        """Of all work so far, failed work included."""

    async def measured(self, work: Pausing[Result]) -> Result:
        """Do the work, and yield to the event loop at every pause."""
        while True:
            started = self._processor()
            try:
                next(work)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self.seconds += self._processor() - started
            await yield_to_event_loop()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure the block, which must not await."""
        started = self._processor()
        try:
            yield
        finally:
            self.seconds += self._processor() - started
