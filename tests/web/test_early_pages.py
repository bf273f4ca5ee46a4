from __future__ import annotations

import asyncio
from math import inf

import pytest

from spec_decode_exporter.core.single_flight import SingleFlight
from spec_decode_exporter.web.early_pages import MAX_EARLY, MAX_SHARE, MIN_SECONDS, EarlyPages
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


@pytest.mark.parametrize("seconds", [1.1 * MIN_SECONDS, 0.5, 1.0, 2.6, MAX_EARLY / 1.5])
async def test_from_its_fourth_scrape_on_a_regular_client_does_not_wait(exporter_of, seconds):
    exporter = exporter_of(seconds)
    await exporter.scrapes(8)
    assert exporter.waited == pytest.approx([seconds] * 3 + [0.0] * 5)
    assert len(exporter.rendered) == 8 + 1  # the last is for the next scrape


async def test_a_page_is_complete_shortly_before_its_scrape(exporter_of, clock):
    exporter = exporter_of(2.0)
    await exporter.scrapes(4)
    assert clock.now - exporter.rendered[-1] == pytest.approx(1.0)


async def test_a_faster_page_than_expected_is_kept_for_its_scrape(exporter_of, clock):
    exporter = exporter_of(4.0)
    await exporter.scrapes(2)
    await exporter.scrapes(1, interval=INTERVAL / 2)
    exporter.seconds = 0.0
    await clock.advance(INTERVAL / 2)
    await exporter.scrapes(1)
    assert exporter.waited[3:] == [0.0]
    assert len(exporter.rendered) == 4 + 1


async def test_a_scrape_waits_for_the_rest_of_a_slower_page(exporter_of, clock):
    exporter = exporter_of(1.0)
    await exporter.scrapes(2)
    await exporter.scrapes(1, interval=INTERVAL / 2)
    exporter.seconds = 3.0
    await clock.advance(INTERVAL / 2)
    await exporter.scrapes(1)
    assert exporter.waited[3:] == pytest.approx([3.0 - 1.5])


async def test_a_page_is_kept_for_the_time_of_its_scrape_only(exporter_of, clock):
    exporter = exporter_of(1.0)
    await exporter.scrapes(3)
    await exporter.scrapes(1, interval=2.0)
    await exporter.scrapes(1, "curl")
    assert exporter.waited[3:] == [0.0, 1.0]


async def test_other_requests_do_not_disable_early_pages(exporter_of, clock):
    exporter = exporter_of(2.0)
    await exporter.scrapes(5)
    for _ in range(3):
        await asyncio.gather(*(exporter.scrape("curl") for _ in range(50)))
        await exporter.scrapes(1)
    regular = [waited for waited in exporter.waited if waited]
    assert len(regular) == 3


@pytest.mark.parametrize("seconds", [0.9 * MIN_SECONDS, 1.1 * MAX_SHARE * INTERVAL])
async def test_short_pages_and_an_overloaded_exporter_render_on_request(exporter_of, seconds):
    exporter = exporter_of(seconds)
    await exporter.scrapes(6)
    assert exporter.waited == pytest.approx([seconds] * 6)
    assert not exporter.clock.asleep


async def test_after_an_overload_pages_are_rendered_early_again(exporter_of):
    exporter = exporter_of(8.0)
    await exporter.scrapes(4)
    exporter.seconds = 1.0
    await exporter.scrapes(10)
    assert exporter.waited[-5:] == [0.0] * 5


async def test_a_page_that_becomes_cheap_is_rendered_on_request_again(exporter_of, clock):
    exporter = exporter_of(1.0)
    await exporter.scrapes(5)
    exporter.seconds = 0.01
    await exporter.scrapes(12)
    assert not clock.asleep


async def test_a_scrape_that_does_not_come_costs_one_page(exporter_of, clock):
    exporter = exporter_of(1.0)
    await exporter.scrapes(5)
    rendered = len(exporter.rendered)
    await clock.advance(100 * INTERVAL)
    assert len(exporter.rendered) == rendered


async def test_two_clients_share_pages(exporter_of):
    exporter = exporter_of(1.0)
    await exporter.scrapes(8, "one", "two")
    assert exporter.waited == [1.0] * 6 + [0.0] * 10
    assert len(exporter.rendered) == 8 + 1


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
