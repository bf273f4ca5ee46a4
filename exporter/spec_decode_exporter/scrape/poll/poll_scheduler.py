"""Scheduler of all polls: one timer wakes the polls of a tick, one sweep ends the requests that time out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.tasks import spawn
from spec_decode_exporter.scrape.http.timeout_sweep import TimeoutSweep


@dataclass(eq=False, slots=True)
class _Tick:
    """Polls that wait for the same moment, and the timer that wakes them."""

    timer: asyncio.Task[None]
    sleepers: dict[asyncio.Future[None], None] = field(default_factory=dict)
    """In the order in which they came; a set would wake them in any order."""


class PollScheduler:
    """Wakes polls at their ticks.

    The targets share a few ticks in an interval (see ``poll_schedule``). So there are few timers, whatever
    the number of targets, and the polls of a tick start one after the other in the same turn of the event
    loop.
    """

    def __init__(self, clock: Clock) -> None:
        """Sleep by ``clock``."""
        self._clock = clock
        self._ticks: dict[float, _Tick] = {}
        self.timeouts = TimeoutSweep()
        """Timeouts of the requests of all targets."""

    async def sleep_until(self, moment: float) -> None:
        """Return once ``monotonic()`` of the clock has reached ``moment``; at once if it is in the past."""
        tick = self._ticks.get(moment)
        if tick is None:
            tick = self._ticks[moment] = _Tick(spawn(self._wake_at(moment)))
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tick.sleepers[sleeper] = None
        try:
            await sleeper
        except asyncio.CancelledError:
            self._leave(tick, moment, sleeper)
            raise

    async def _wake_at(self, moment: float) -> None:
        await self._clock.sleep_until(moment)
        for sleeper in self._ticks.pop(moment).sleepers:
            if not sleeper.cancelled():  # its target was removed in this very turn of the event loop
                sleeper.set_result(None)

    def _leave(self, tick: _Tick, moment: float, sleeper: asyncio.Future[None]) -> None:
        """Forget a target that no longer waits, and a tick without any other."""
        tick.sleepers.pop(sleeper, None)
        if not tick.sleepers and self._ticks.get(moment) is tick:
            del self._ticks[moment]
            tick.timer.cancel()
