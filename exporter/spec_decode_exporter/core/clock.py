"""Clock as a parameter: only the composition root creates one."""

from __future__ import annotations

import asyncio
import time

_SINCE_START = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a clock that includes suspend; other systems use the monotonic one."""


class Clock:
    """The real clock, and the interface of others: that of a recording, and one that tests advance."""

    def monotonic(self) -> float:
        """Return the seconds since the machine started, suspend included: the time of windows and schedules.

        Remote servers continue to count while this machine is suspended. A window must have a gap for that
        time, not hours of counts in one second.
        """
        return time.clock_gettime(_SINCE_START)

    def wall(self) -> float:
        """Return the Unix time in seconds, only compared with others, such as the creation of a counter."""
        return time.time()

    def processor(self) -> float:
        """Return the seconds of processor time of this thread; only differences are meaningful.

        They do not depend on the load of the machine.
        """
        return time.thread_time()

    async def sleep_until(self, moment: float) -> None:
        """Return once ``monotonic()`` has reached ``moment``; yield to the event loop at least once."""
        await asyncio.sleep(max(0.0, moment - self.monotonic()))
