"""Early pages: a page that takes long is rendered before its scrape, which then need not wait.

A page of a thousand engines takes seconds beside their polls. It is begun so early that it is complete
shortly before the expected scrape, and kept for it. The work is that of the scrape, only earlier. An expected
scrape that does not come costs one page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol
from weakref import ref

from spec_decode_exporter.core.background_tasks import cancel, spawn
from spec_decode_exporter.web.scrape_forecast import MAX_CLIENTS, TOLERANCE, ScrapeForecast

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from weakref import ReferenceType

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.web.server.fair_scheduler import FairScheduler

MIN_SECONDS: Final = 0.25
"""Duration of a page from which on it is rendered early."""
MAX_SHARE: Final = 1 / 3
"""Share of an interval that a page may take: with more it could share the snapshot of the scrape before."""
MAX_EARLY: Final = 5.0
"""Seconds before its scrape at which a page is begun at most: the scrape waits for a longer one."""
_MARGIN: Final = 1 / 2
"""Share of a page's duration by which it is complete before its scrape."""
_REMAINS: Final = 0.8
"""Share of the known duration that remains if the next page is faster."""


class Page(Protocol):
    """The page in the format and encoding of a scrape."""

    def render(self) -> Coroutine[None, None, object]:
        """Render the page of the newest snapshot, or share its rendering; return the rendering."""
        ...

    def keep(self, seconds: float) -> None:
        """Serve the newest rendering for ``seconds``."""
        ...


class EarlyPages:
    """Plans the page of the next scrape of each regular client."""

    def __init__(self, clock: Clock, scheduler: FairScheduler) -> None:
        """Render pages under ``scheduler``, like those that a scrape waits for."""
        self._clock = clock
        self._scheduler = scheduler
        self._forecast = ScrapeForecast()
        self._duration = 0.0
        """Seconds that a page takes."""
        self._measured: ReferenceType[object] | None = None
        """The rendering that the duration was last measured with."""
        self._plans: dict[str, asyncio.Task[None]] = {}
        """By client."""
        self._forgotten = 0

    async def close(self) -> None:
        """Cancel the plans."""
        await cancel(self._plans.values())

    def forget(self) -> None:
        """Keep none of the pages that are being rendered: their snapshot is old."""
        self._forgotten += 1

    def scraped(self, client: str, begin: float, page: Page, rendering: object) -> None:
        """Note a scrape that began at ``begin`` (monotonic) and gets a rendering now; plan the next one."""
        self._note(begin, rendering)
        if client in self._plans:
            self._plans.pop(client).cancel()
        following = self._forecast.next_scrape(client, begin)
        if following is None or len(self._plans) >= MAX_CLIENTS:
            return
        duration, interval = self._duration, following - begin
        if MIN_SECONDS <= duration <= MAX_SHARE * interval:
            early = min((1 + _MARGIN) * duration, interval - 2 * duration, MAX_EARLY)
            plan = self._plans[client] = spawn(self._render_before(following, early, page))
            plan.add_done_callback(lambda ended: self._discard(client, ended))

    async def _render_before(self, scrape: float, early: float, page: Page) -> None:
        await self._clock.sleep_until(scrape - early)
        begin, forgotten = self._clock.monotonic(), self._forgotten
        self._note(begin, await self._scheduler.run(page.render()))
        if forgotten == self._forgotten:
            page.keep(scrape + TOLERANCE - self._clock.monotonic())

    def _note(self, begin: float, rendering: object) -> None:
        """Note how long a rendering took that began at ``begin`` and is complete, unless it was shared."""
        if self._measured is None or self._measured() is not rendering:
            self._measured = ref(rendering)
            self._duration = max(self._clock.monotonic() - begin, _REMAINS * self._duration)

    def _discard(self, client: str, plan: asyncio.Task[None]) -> None:
        if self._plans.get(client) is plan:
            del self._plans[client]
