"""What every test may ask for."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

import pytest


class FakeClock:
    """A clock that only moves by hand: sleepers wake, in order, while ``advance`` passes their moments."""

    def __init__(self, monotonic: float = 1_000.0, wall: float = 1_790_000_000.0) -> None:
        self.now = monotonic
        self.offset = wall - monotonic
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.offset

    async def sleep_until(self, moment: float) -> None:
        if moment <= self.now:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (moment, next(self._order), future))
        await future

    async def advance(self, seconds: float, turns: int = 20) -> None:
        """Let ``seconds`` pass. Between two sleepers everything else gets ``turns`` of the event loop."""
        end = self.now + seconds
        await settle(turns)
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, future = heapq.heappop(self._sleepers)
            self.now = max(self.now, moment)
            if not future.done():
                future.set_result(None)
            await settle(turns)
        self.now = end
        await settle(turns)


async def settle(turns: int = 20) -> None:
    """Let whatever can go on without time or network go on."""
    for _ in range(turns):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def until(condition, turns: int = 50_000) -> None:
    """Let the event loop, with its real sockets, turn until something is so."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to be")


@pytest.fixture(name="until")
def until_fixture():
    return until
