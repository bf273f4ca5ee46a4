"""Reads baselines from a history: the newest period of a server without speculation, in small slices.

The event loop polls servers at the same time. So a page of samples is small, and work on it yields after each
few scrapes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Final

from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.history import selectors
from spec_decode_exporter.history.history_reader import DEFAULT_INTERVAL, has_rust_front_end, usual_interval
from spec_decode_exporter.history.history_targets import HistoryTarget, targets_of, without_twins
from spec_decode_exporter.history.page_rows import RowReader, Samples
from spec_decode_exporter.history.plain_search import ActivityReadings, FoundPeriod, plain_periods
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, Remedies, SampledSeries
from spec_decode_exporter.history.sample_pages import PageSize, sample_pages
from spec_decode_exporter.learned.baseline import Baseline
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.sample import EngineName
from spec_decode_exporter.window.history import GONE_POLLS, GONE_SECONDS

KEYS: Final = Remedies("`baseline.prometheus.match`", "`baseline.prometheus.authorization`")
MAX_BODY: Final = 2**20
"""Maximum bytes of a response; one of this size takes the event loop some 20 ms."""
MAX_VALUES: Final = 150_000
"""Maximum JSON values of a response: 50,000 samples, or 15 MB."""
PAGES: Final = PageSize(first=600, largest=3 * 3600, samples=10_000)
SEARCH_PAGES: Final = PageSize(first=86_400, largest=90 * 86_400, samples=10_000)
MIN_STEP: Final = 300
"""Seconds between two readings of the search, at least: a period without speculation is longer."""
MAX_READINGS: Final = 10_000
"""Readings of a series: servers answer 11,000 at most."""
MAX_SECONDS: Final = 86_400.0
"""Seconds of samples that are read, of the end of a period: older ones would have an eighth of the weight."""
MAX_SAMPLES: Final = 4_000_000
"""Samples that are read of one period: a day of two engines at 1 s."""
MAX_PERIODS: Final = 3
"""Periods that are read until one is a baseline."""
_WINDOW_SECONDS: Final = 900.0
"""Longest window of an engine's monitor: no evaluation is read, so it only bounds the memory."""
SCRAPES_SLICE: Final = 20
"""Scrapes between two yields to the event loop: they take some 5 ms."""


class BaselineReader:
    """Reads baselines of the servers of a history."""

    def __init__(self, api: QueryApi, match: str, begin: float, end: float) -> None:
        """Search between two Unix times in the series with these label matchers."""
        self._api = api
        self.name = api.name
        """Name of the history."""
        self._match = match
        self._begin = begin
        self._end = end

    async def servers(self) -> list[HistoryTarget]:
        """Return all servers that match.

        Raises:
            HistoryError: There are none, or they cannot be read.
        """
        series = await self._api.series(selectors.servers(self._match), self._begin, self._end)
        found, _ = await without_twins(targets_of(series), self._identifying)
        if not found:
            where = f" with {self._match}" if self._match else ""
            raise HistoryError(
                f"{self._api.name} has no metrics of an engine that is known{where} in this time; check "
                f"{KEYS.match} and `lookback`"
            )
        return found

    async def read(self, server: HistoryTarget) -> Mapping[str, Baseline]:
        """Return the baseline of each model of a server.

        Raises:
            HistoryError: There is no period without speculation, or it cannot be read.
        """
        periods = await self._search(server)
        is_rust = await has_rust_front_end(self._api, server, self._begin, self._end)
        baselines: dict[str, Baseline] = {}
        for model, found in periods.items():
            for period in found[:MAX_PERIODS]:
                baseline = await _PeriodReading(self._api, server, model, is_rust=is_rust).read(period)
                if baseline.end:
                    baselines[model] = baseline
                    break
        if not baselines:
            raise HistoryError(
                f"{self._api.name} has no period of this server without speculation and with requests for a "
                "minute; a longer `lookback` may have one"
            )
        return baselines

    async def _search(self, server: HistoryTarget) -> Mapping[str, Sequence[FoundPeriod]]:
        step = max(MIN_STEP, ceil((self._end - self._begin) / MAX_READINGS))
        selector = selectors.activity(server.kind, server.prefix, server.labels)
        readings = ActivityReadings()

        async def values(end: float, seconds: int) -> Sequence[SampledSeries]:
            # Without the end itself: it is the next page's first reading.
            first = ceil((end - seconds) / step) * step
            return await self._api.values_every(selector, first, max(first, end - 1), step)

        pace = Pace(1)
        async for _, page in sample_pages(values, self._begin, self._end, SEARCH_PAGES):
            readings.add(page)
            await pace.done()
        return {model: plain_periods(each, self._end) for model, each in readings.by_model().items()}

    async def _identifying(self, target: HistoryTarget) -> list[SampledSeries]:
        selector = selectors.identifying(target.prefix, target.kind, target.labels)
        return await self._api.samples(selector, self._end, int(min(900.0, self._end - self._begin)))


class _PeriodReading:
    """Learns the baseline of one model from the samples of one period, by the live classes."""

    def __init__(self, api: QueryApi, server: HistoryTarget, model: str, *, is_rust: bool) -> None:
        self._api = api
        self._server = server
        self._model = model
        self._is_rust = is_rust
        self._baseline = Baseline()
        self._engines: dict[EngineName, EngineMonitor] = {}
        self._interval = 0.0

    async def read(self, period: FoundPeriod) -> Baseline:
        server, rows, pace = self._server, RowReader(), Pace(SCRAPES_SLICE)
        fetch = partial(self._api.samples, selectors.of_target(server.kind, server.prefix, server.labels))
        begin = max(period.begin, period.end - MAX_SECONDS)
        last, samples = begin - 1.0, 0
        async for _, page in sample_pages(fetch, begin, period.end, PAGES):
            await pace.done(SCRAPES_SLICE)
            for time, engines in rows.read(page):
                if time > last:
                    self._interval = self._interval or usual_interval(page[0].times)
                    self._observe(time, engines)
                    last = time
                    await pace.done()
            samples += sum(len(each.times) for each in page)
            if samples > MAX_SAMPLES:
                break
        if period.ended:
            self._baseline.drafting()
        return self._baseline

    def _observe(self, time: float, samples: Samples) -> None:
        for name, sample in samples.items():
            if name.model_name != self._model:
                continue
            engine = self._engines.get(name)
            last = engine.history.last_seen if engine else 0.0
            if engine is None or time - last > max(GONE_POLLS * self._interval, GONE_SECONDS):
                # An increment over a gap has the load of its end alone.
                engine = self._engines[name] = self._new_engine()
            interval = self._interval or DEFAULT_INTERVAL
            deque(engine.observe(sample, time, time, interval, interval), maxlen=0)

    def _new_engine(self) -> EngineMonitor:
        engine = EngineMonitor((_WINDOW_SECONDS,), baseline=self._baseline)
        engine.history.always_counts_drafts = self._is_rust
        return engine
