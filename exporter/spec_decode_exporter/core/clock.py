"""Time as a parameter: the composition root holds the one real clock, everything else is given it."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the exporter needs of time; tests bring one that they move by hand."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. Windows and schedules are measured with it."""
        ...

    def wall(self) -> float:
        """Unix time in seconds. Only compared with other Unix times, such as a counter's creation."""
        ...

    def processor(self) -> float:
        """Seconds of processor time that this thread has used; only differences mean something."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Return once ``monotonic()`` has reached ``moment``; at once if it has already."""
        ...


_SINCE_START = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a clock that goes on during suspend; elsewhere the usual one has to do."""


class SystemClock:
    """The real clock."""

    def monotonic(self) -> float:
        """Return the time since the machine started, that in which it was suspended included.

        Servers elsewhere count on while this machine sleeps: a window must show that as a gap, not as a
        second in which hours were counted.
        """
        return time.clock_gettime(_SINCE_START)

    def wall(self) -> float:
        """Return the Unix time."""
        return time.time()

    def processor(self) -> float:
        """Return the thread's processor time: a busy machine makes it no longer, as it does wall time."""
        return time.thread_time()

    async def sleep_until(self, moment: float) -> None:
        """Sleep on the event loop; always yields to it at least once."""
        await asyncio.sleep(max(0.0, moment - self.monotonic()))
