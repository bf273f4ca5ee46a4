"""Pages and polls on one event loop: pages give way, and go on all the same where polls would take it all.

A page is made in slices of about a millisecond (``await asyncio.sleep(0)`` after each), and whatever is ready
has its turn in between. Where the processor has no time left, polls are always ready, by the hundred: with a
slice for each of their rounds a page would take minutes. So the slices grow with the rounds.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, TypeVar

_SHORTEST: Final = 0.001
_LONGEST: Final = 0.05
"""Seconds of a slice: no poll waits longer for the pages, however many are made."""
_SHARE: Final = 0.5
"""A slice by the round before it: pages that need it have a third of the processor's time.

What is polled and never read is of no use to anybody, and a poll left out is made up for by the next, for
counters count on.
"""
LARGE_SHARE: Final = 0.25
"""The same for large pages and bodies beside the metrics: polls keep about half of the processor."""

Result = TypeVar("Result")


class FairScheduler:
    """Shares the event loop's time between pages and everything else."""

    def __init__(self, clock: Callable[[], float] = time.thread_time, share: float = _SHARE) -> None:
        """Give the pages ``share`` of the time that the other work of a round takes.

        ``clock`` gives seconds: by default the processor time of the event loop's thread.
        """
        self._clock = clock
        self._share = share
        self._rounds = 0
        self._left = 0.0
        """When a page last gave way."""
        self._end = 0.0
        """When the slice ends that all pages have together in this round."""

    async def take(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return what the work gives. Where it would give way, it does so if the slice is over."""
        return await _driven(work, self)

    def leave(self) -> int | None:
        """Return the round that a page leaves, to be told to ``come``; None if it is not to give way yet."""
        now = self._clock()
        if now < self._end:
            return None
        self._left = now
        return self._rounds

    def come(self, left: int) -> None:
        """Begin a slice, if this is the first page whose turn it is again."""
        if left == self._rounds:
            self._rounds += 1
            now = self._clock()
            self._end = now + min(max((now - self._left) * self._share, _SHORTEST), _LONGEST)


@types.coroutine
def _driven(work: Coroutine[Any, Any, Result], turns: FairScheduler) -> Generator[Any, Any, Result]:
    """Be the task of ``work`` for it, and pass on what it waits for; waiting for nothing is giving way."""
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        try:
            awaited = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        step = partial(work.send, None)
        left = turns.leave() if awaited is None else None
        if awaited is None and left is None:
            continue
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001  it is for the work to deal with
            step = partial(work.throw, error)
        if left is not None:
            turns.come(left)
