"""Simulated past of a demo: its windows are full at the first look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from spec_decode_exporter.core.clock import SystemClock

PAST_SECONDS: Final = 330
"""Seconds that a demo has behind it: the longest default window, and some."""
_FOUND_WITHIN: Final = 5.0
"""Real seconds in which the target of a demo is found, or the demo starts without a past."""
_LOOK_AGAIN: Final = 0.02


class Pollable(Protocol):
    """Poller of a target."""

    async def poll(self) -> None:
        """Poll once, now."""
        ...


class PastClock(SystemClock):
    """A clock that is behind the real one until ``step`` has caught up; until then, all sleepers wait."""

    def __init__(self, seconds: int) -> None:
        """Begin ``seconds`` ago."""
        self._behind = float(seconds)
        self._present = asyncio.Event()

    def monotonic(self) -> float:
        """Return the real time, less what is not lived through yet."""
        return super().monotonic() - self._behind

    def wall(self) -> float:
        """Return the Unix time, less the same."""
        return super().wall() - self._behind

    async def sleep_until(self, moment: float) -> None:
        """Sleep; in the past, until it is over."""
        await self._present.wait()
        await super().sleep_until(moment)

    def step(self) -> bool:
        """Go on by a second; return whether it is still the past."""
        self._behind = max(0.0, self._behind - 1)
        if not self._behind:
            self._present.set()
        return not self._present.is_set()

    def end(self) -> None:
        """Go to the present at once."""
        self._behind = 0.0
        self._present.set()


async def live_through(
    clock: PastClock, catch_up: Callable[[], None], pollers: Callable[[], Iterable[Pollable]]
) -> None:
    """Poll all targets once for each second of the past.

    Args:
        clock: Clock of the targets and of their simulation.
        catch_up: Advances the simulation, before the polls: they would count it as time of the server.
        pollers: Returns a poller for each target found so far.
    """
    try:
        async with asyncio.timeout(_FOUND_WITHIN):
            while not (found := list(pollers())):  # noqa: ASYNC110 - discovery has no event for it
                await asyncio.sleep(_LOOK_AGAIN)
        while clock.step():
            catch_up()
            for poller in found:
                await poller.poll()
    except TimeoutError:
        pass
    finally:
        clock.end()
