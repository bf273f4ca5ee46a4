"""Early pages: a page that takes long is rendered before its scrape, which then need not wait.

A page of a thousand engines takes seconds beside their polls. It is begun so early that it is complete
shortly before the expected scrape, which then shares it: see ``SingleFlight`` for how long a snapshot is
shared. The work is that of the scrape, only earlier. An expected scrape that does not come costs one page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.background_tasks import cancel, spawn
from spec_decode_exporter.web.scrape_forecast import MAX_CLIENTS, ScrapeForecast

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.web.server.fair_scheduler import FairScheduler

    Render = Callable[[], Coroutine[None, None, object]]

MIN_SECONDS: Final = 0.25
"""Duration of a page from which on it is rendered early."""
MAX_SHARE: Final = 0.3
"""Share of a client's interval that a page takes at most. With more, it would still share the last one."""
_MARGIN_SHARE: Final = 1 / 4
_MAX_MARGIN: Final = 0.5
"""Seconds, and share of a page's duration, by which a page is complete before its scrape."""

_KEPT: Final = 0.95
"""Share of the known duration that remains after a page that took less: it may have been shared."""


class EarlyPages:
    """Plans the page of the next scrape of each regular client."""

    def __init__(self, clock: Clock, scheduler: FairScheduler) -> None:
        """Render pages under ``scheduler``, like those that a scrape waits for."""
        self._clock = clock
        self._scheduler = scheduler
        self._forecast = ScrapeForecast()
        self._duration = 0.0
        """Seconds that a page takes, if no other reader shares it."""
        self._plans: dict[str, asyncio.Task[None]] = {}
        """By client."""

    async def close(self) -> None:
        """Cancel the plans."""
        await cancel(self._plans.values())

    def scraped(self, client: str, begin: float, render: Render) -> None:
        """Note a scrape that began at ``begin`` (monotonic) and has its page now; plan the next one.

        ``render`` renders the same page again, or shares one.
        """
        self._note(begin)
        if client in self._plans:
            self._plans.pop(client).cancel()
        following = self._forecast.next_scrape(client, begin)
        if following is None or len(self._plans) >= MAX_CLIENTS:
            return
        if MIN_SECONDS <= self._duration <= MAX_SHARE * (following - begin):
            early = self._duration + min(_MARGIN_SHARE * self._duration, _MAX_MARGIN)
            plan = self._plans[client] = spawn(self._render_at(following - early, render))
            plan.add_done_callback(lambda ended: self._forget(client, ended))

    async def _render_at(self, moment: float, render: Render) -> None:
        await self._clock.sleep_until(moment)
        begin = self._clock.monotonic()
        await self._scheduler.run(render())
        self._note(begin)

    def _note(self, begin: float) -> None:
        """Note the duration of a page that began at ``begin`` and is complete."""
        self._duration = max(self._clock.monotonic() - begin, _KEPT * self._duration)

    def _forget(self, client: str, plan: asyncio.Task[None]) -> None:
        if self._plans.get(client) is plan:
            del self._plans[client]
