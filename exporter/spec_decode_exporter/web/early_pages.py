"""Early pages: a page that takes long is rendered before its scrape, which then need not wait.

A page of a thousand engines takes seconds beside their polls. It is begun so early that it is complete
shortly before the expected scrape, and kept for it. The work is that of the scrape, only earlier. An expected
scrape that does not come costs one page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from spec_decode_exporter.core.background_tasks import cancel, spawn
from spec_decode_exporter.web.scrape_forecast import MAX_CLIENTS, TOLERANCE, ScrapeForecast

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.web.server.fair_scheduler import FairScheduler

MIN_SECONDS: Final = 0.25
"""Duration of a page from which on it is rendered early."""
MAX_SHARE: Final = 1 / 3
"""Share of an interval that a page may take: with more it could share the snapshot of the scrape before."""
_MARGIN_SHARE: Final = 1 / 4
_MAX_MARGIN: Final = 1.0
"""Seconds, and share of a page's duration, by which a page is complete before its scrape."""
_REMAINING: Final = 0.95
"""Share of the known duration that remains after a page that took less: it may have been shared."""


class Page(Protocol):
    """The page in the format and encoding of a scrape."""

    def render(self) -> Coroutine[None, None, object]:
        """Render the page of the newest snapshot, or share it with other requests."""
        ...

    def keep(self, seconds: float) -> None:
        """Serve the last rendering for ``seconds``."""
        ...


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

    def scraped(self, client: str, begin: float, page: Page) -> None:
        """Note a scrape that began at ``begin`` (monotonic) and has its page now; plan the next one."""
        self._note(begin)
        if client in self._plans:
            self._plans.pop(client).cancel()
        following = self._forecast.next_scrape(client, begin)
        if following is None or len(self._plans) >= MAX_CLIENTS:
            return
        duration, interval = self._duration, following - begin
        if MIN_SECONDS <= duration <= MAX_SHARE * interval:
            margin = min(_MARGIN_SHARE * duration, _MAX_MARGIN)
            early = min(duration + margin, interval - 2 * duration)
            plan = self._plans[client] = spawn(self._render_before(following, early, page))
            plan.add_done_callback(lambda ended: self._forget(client, ended))

    async def _render_before(self, scrape: float, early: float, page: Page) -> None:
        await self._clock.sleep_until(scrape - early)
        begin = self._clock.monotonic()
        await self._scheduler.run(page.render())
        self._note(begin)
        page.keep(scrape + TOLERANCE - self._clock.monotonic())

    def _note(self, begin: float) -> None:
        """Note the duration of a page that began at ``begin`` and is complete."""
        self._duration = max(self._clock.monotonic() - begin, _REMAINING * self._duration)

    def _forget(self, client: str, plan: asyncio.Task[None]) -> None:
        if self._plans.get(client) is plan:
            del self._plans[client]
