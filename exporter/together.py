"""Work that several ask for at once, and that is done once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Together:
    """Does some work for whoever asks, and once for all who ask while it is under way.

    What is under way began before they asked, so they wait for the next: what they get is never older than
    their question. Two times are the most that anybody waits for, however many ask.
    """

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._doing = asyncio.Lock()
        self._begun = 0
        self._done = 0

    async def __call__(self) -> None:
        """Return when it was done, from beginning to end, since this was called; raise what it raises."""
        wanted = self._begun + 1
        async with self._doing:
            if self._done >= wanted:
                return
            self._begun = number = self._begun + 1
            await self._work()
            self._done = number
