"""Share the event loop between handlers and polls: handlers yield, but finish even if polls are always ready.

A handler works in slices of about a millisecond, with ``await asyncio.sleep(0)`` after each. All other ready
tasks run in between: one round of the event loop. On an overloaded processor hundreds of polls are ready in
every round, and a page with one slice a round would take minutes. So slices grow with the length of rounds.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, TypeVar

_MIN_SLICE: Final = 0.001
_MAX_SLICE: Final = 0.05
"""Seconds. No poll waits longer for handlers, for any number of them."""
_SHARE: Final = 0.5
"""Length of a slice relative to the round before it: busy handlers get a third of the processor's time.

Metrics that are polled but never read are useless. A poll left out is compensated by the next, because
counters are cumulative.
"""
LARGE_SHARE: Final = 0.25
"""The same for large pages and bodies beside the metrics: polls keep about half of the processor."""

Result = TypeVar("Result")


class FairScheduler:
    """Divides the event loop's time between the coroutines that it runs and all other tasks."""

    def __init__(self, clock: Callable[[], float] = time.thread_time, share: float = _SHARE) -> None:
        """Run slices of ``share`` of the time that the other tasks of a round take.

        ``clock`` returns seconds: by default the processor time of the event loop's thread.
        """
        self._clock = clock
        self._share = share
        self._rounds = 0
        self._yielded_at = 0.0
        """Time at which a coroutine last yielded to the event loop."""
        self._slice_end = 0.0
        """End of the slice that all coroutines share in this round."""

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of ``work``. Its yields take effect only after the end of a slice."""
        return await _drive(work, self)

    def end_slice(self) -> int | None:
        """Return the number of the round for ``begin_slice``; None if the slice has not ended."""
        now = self._clock()
        if now < self._slice_end:
            return None
        self._yielded_at = now
        return self._rounds

    def begin_slice(self, round_: int) -> None:
        """Begin the next slice, if this coroutine is the first of a new round."""
        if round_ == self._rounds:
            self._rounds += 1
            now = self._clock()
            length = (now - self._yielded_at) * self._share
            self._slice_end = now + min(max(length, _MIN_SLICE), _MAX_SLICE)


@types.coroutine
def _drive(work: Coroutine[Any, Any, Result], scheduler: FairScheduler) -> Generator[Any, Any, Result]:
    """Step ``work`` as its task would, and pass on the futures that it awaits.

    A step that returns None is ``asyncio.sleep(0)``.
    """
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        try:
            awaited = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        step = partial(work.send, None)
        round_ = scheduler.end_slice() if awaited is None else None
        if awaited is None and round_ is None:
            continue
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001  the coroutine handles it
            step = partial(work.throw, error)
        if round_ is not None:
            scheduler.begin_slice(round_)
