from __future__ import annotations

from math import inf

import pytest

from spec_decode_exporter.core.single_flight import SingleFlight
from spec_decode_exporter.web.early_pages import MAX_SHARE, MIN_SECONDS, EarlyPages
from spec_decode_exporter.web.scrape_forecast import MAX_CLIENTS
from spec_decode_exporter.web.server.fair_scheduler import FairScheduler
from tests.conftest import settle

INTERVAL = 15.0


class Exporter:
    """Exporter whose page takes ``seconds`` of a clock that is moved by hand."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds = clock, seconds
        self.rendered = []
        """Moments at which pages were complete."""
        self.render = SingleFlight(self._render, clock.monotonic)
        self.kept_until = -inf
        self.early = EarlyPages(clock, FairScheduler())

    async def _render(self):
        self.clock.now += self.seconds
        self.rendered.append(self.clock.now)

    def keep(self, seconds):
        self.kept_until = self.clock.now + seconds

    async def scrape(self, client="prometheus"):
        """Return the seconds that a scrape waits for its page."""
        begin = self.clock.now
        if begin > self.kept_until:
            await self.render()
        self.early.scraped(client, begin, self)
        await settle()
        return self.clock.now - begin

    async def scrapes(self, number, interval=INTERVAL, client="prometheus"):
        first, waited = self.clock.now, []
        for scrape in range(number):
            await self.clock.advance(first + scrape * interval - self.clock.now)
            waited.append(await self.scrape(client))
        return waited


@pytest.fixture
async def exporter_of(clock):
    made = []

    def make(seconds):
        made.append(Exporter(clock, seconds))
        return made[-1]

    yield make
    for each in made:
        await each.early.close()


@pytest.mark.parametrize("seconds", [1.1 * MIN_SECONDS, 0.5, 1.0, 2.6, 0.99 * MAX_SHARE * INTERVAL])
async def test_from_its_fourth_scrape_on_a_regular_client_does_not_wait(exporter_of, seconds):
    exporter = exporter_of(seconds)
    waited = await exporter.scrapes(8)
    assert waited == pytest.approx([seconds] * 3 + [0.0] * 5)
    assert len(exporter.rendered) == 8


async def test_the_page_is_complete_shortly_before_its_scrape(exporter_of, clock):
    exporter = exporter_of(2.6)
    begin = clock.now
    await exporter.scrapes(4)
    assert 0 < begin + 3 * INTERVAL - exporter.rendered[-1] <= 1.0


async def test_a_page_that_takes_less_than_usual_is_kept_for_its_scrape(exporter_of):
    exporter = exporter_of(4.5)
    await exporter.scrapes(3)
    exporter.seconds = 0.5
    await exporter.clock.advance(INTERVAL - 4.5)
    assert await exporter.scrape() == 0.0
    assert len(exporter.rendered) == 4


async def test_a_page_is_kept_for_one_scrape(exporter_of, clock):
    exporter = exporter_of(1.0)
    await exporter.scrapes(4)
    await clock.advance(1.0)
    assert await exporter.scrape("curl") == 1.0


async def test_a_scrape_that_comes_a_little_early_shares_the_page_too(exporter_of, clock):
    exporter = exporter_of(1.0)
    await exporter.scrapes(3)
    await clock.advance(INTERVAL - 1.0 - 0.2)
    assert await exporter.scrape() == 0.0


async def test_a_page_that_takes_longer_than_usual_has_a_head_start(exporter_of):
    """The scrape finds it under way, and waits for the rest."""
    exporter = exporter_of(1.0)
    await exporter.scrapes(3)
    exporter.seconds = 3.0
    await exporter.clock.advance(INTERVAL - 1.0)
    assert len(exporter.rendered) == 4


@pytest.mark.parametrize("seconds", [0.9 * MIN_SECONDS, 1.1 * MAX_SHARE * INTERVAL])
async def test_short_pages_and_an_overloaded_exporter_render_on_request(exporter_of, seconds):
    exporter = exporter_of(seconds)
    assert await exporter.scrapes(6) == pytest.approx([seconds] * 6)
    assert not exporter.clock.asleep


async def test_after_an_overload_pages_are_rendered_early_again(exporter_of):
    exporter = exporter_of(8.0)
    await exporter.scrapes(4)
    exporter.seconds = 1.0
    assert (await exporter.scrapes(40))[-10:] == [0.0] * 10


async def test_a_scrape_that_does_not_come_costs_one_page(exporter_of, clock):
    exporter = exporter_of(1.0)
    await exporter.scrapes(5)
    rendered = len(exporter.rendered)
    await clock.advance(100 * INTERVAL)
    assert len(exporter.rendered) == rendered + 1


async def test_a_page_that_becomes_cheap_is_rendered_on_request_again(exporter_of):
    exporter = exporter_of(1.0)
    await exporter.scrapes(5)
    exporter.seconds = 0.01
    await exporter.scrapes(30)
    await exporter.clock.advance(0.01)
    assert not exporter.clock.asleep


async def test_two_clients_that_scrape_shortly_after_each_other_share_pages(exporter_of, clock):
    exporter = exporter_of(1.0)
    waited = []
    for _ in range(8):
        waited.append((await exporter.scrape("one"), await exporter.scrape("two")))
        await clock.advance(INTERVAL - sum(waited[-1]))
    assert waited[3:] == [(0.0, 0.0)] * 5
    assert len(exporter.rendered) == 8 + 1  # the last is for the next scrape


async def test_the_plans_are_bounded(exporter_of, clock):
    """Clients that are forgotten before their scrape leave their plans behind."""
    exporter = exporter_of(0.0)
    exporter.early.scraped("slow", clock.now - 1.0, exporter)
    for cohort in range(4):
        for _ in range(3):
            await clock.advance(10.0)
            for number in range(MAX_CLIENTS):
                exporter.early.scraped(f"{cohort}.{number}", clock.now - 1.0, exporter)
        await settle()
        assert clock.asleep <= MAX_CLIENTS
    await exporter.early.close()
    assert not clock.asleep
