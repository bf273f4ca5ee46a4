"""Clock as a parameter: only the composition root creates the real one."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Interface of a clock; tests use one that they advance themselves."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment; never decreases. The time of windows and schedules."""
        ...

    def wall(self) -> float:
        """Unix time in seconds. Only compared with other Unix times, such as the creation of a counter."""
        ...

    def processor(self) -> float:
        """Seconds of processor time of this thread; only differences are meaningful."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Return once ``monotonic()`` has reached ``moment``; at once if it is in the past."""
        ...


_SINCE_START = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a clock that includes suspend; other systems use the monotonic one."""


class SystemClock:
    """The real clock."""

    def monotonic(self) -> float:
        """Return the time since the machine started, suspend included.

        Remote servers continue to count while this machine is suspended. A window must have a gap for that
        time, not hours of counts in one second.
        """
        return time.clock_gettime(_SINCE_START)

    def wall(self) -> float:
        """Return the Unix time."""
        return time.time()

    def processor(self) -> float:
        """Return the processor time of the thread, which does not depend on the load of the machine."""
        return time.thread_time()

    async def sleep_until(self, moment: float) -> None:
        """Sleep on the event loop; yield to it at least once."""
        await asyncio.sleep(max(0.0, moment - self.monotonic()))
