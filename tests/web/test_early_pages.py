from __future__ import annotations

import asyncio
from math import inf

import pytest

from spec_decode_exporter.core.single_flight import SingleFlight
from spec_decode_exporter.web.early_pages import EarlyPages
from spec_decode_exporter.web.scrape_forecast import MAX_CLIENTS, MAX_INTERVAL
from spec_decode_exporter.web.server.fair_scheduler import FairScheduler
from tests.conftest import settle

INTERVAL = 15.0


class Rendering:
    pass


class Exporter:
    """Exporter whose page takes ``seconds``."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds = clock, seconds
        self.rendered = []
        """Moments at which pages were complete."""
        self.waited = []
        """Seconds of each scrape."""
        self.render = SingleFlight(self._render, clock.monotonic)
        self.early = EarlyPages(clock, FairScheduler())
        self._newest = None
        self._kept_until = -inf
        self._tasks = []

    async def _render(self):
        await self.clock.sleep_until(self.clock.now + self.seconds)
        self.rendered.append(self.clock.now)
        self._newest = Rendering()
        return self._newest

    def keep(self, seconds):
        self._kept_until = self.clock.now + seconds

    async def scrape(self, client="prometheus"):
        begin = self.clock.now
        rendering = self._newest if begin < self._kept_until else await self.render()
        self.early.scraped(client, begin, self, rendering)
        self.waited.append(self.clock.now - begin)

    async def scrapes(self, number, *clients, interval=INTERVAL):
        """Scrape, and let an interval pass; repeat that."""
        for _ in range(number):
            self._tasks += [asyncio.create_task(self.scrape(client)) for client in clients or ("prometheus",)]
            await self.clock.advance(interval)


@pytest.fixture
async def exporter_of(clock):
    made = []

    def make(seconds):
        made.append(Exporter(clock, seconds))
        return made[-1]

    yield make
    for each in made:
        await each.early.close()


@pytest.mark.parametrize(("before", "waits"), [(5.0, 0.0), (1.0, 1.0)])
async def test_after_a_reload_no_page_of_an_older_snapshot_is_kept(exporter_of, clock, before, waits):
    exporter = exporter_of(1.0)
    await exporter.scrapes(3)
    await exporter.scrapes(1, interval=INTERVAL - before)
    exporter.render.forget()
    exporter.early.forget()
    await clock.advance(before)
    await exporter.scrapes(1)
    assert exporter.waited[-1] == waits


async def test_the_plans_are_bounded(exporter_of, clock):
    """Clients that are forgotten before their scrape leave their plans behind."""
    exporter = exporter_of(0.0)
    for cohort, interval in enumerate((MAX_INTERVAL, 10.0)):
        for _ in range(3):
            await clock.advance(interval)
            for number in range(MAX_CLIENTS):
                exporter.early.scraped(f"{cohort}.{number}", clock.now - 2.0, exporter, Rendering())
        await settle()
        assert clock.asleep == MAX_CLIENTS
    await exporter.early.close()
    assert not clock.asleep
