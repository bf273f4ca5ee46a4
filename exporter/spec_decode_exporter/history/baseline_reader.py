"""Reads baselines from a history: the newest period of a server without speculation, in small slices.

Most of a history has drafts, and a baseline needs a day of samples at most. So the search reads two counters
every few minutes; all samples of the period that it finds decide. The event loop polls servers at the same
time: a page of samples is small, and work on it yields after each few scrapes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from math import ceil
from typing import Final

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.core.urls import address
from spec_decode_exporter.costs.baseline import Baseline
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.history.history_pages import (
    DEFAULT_INTERVAL,
    Fetch,
    PageSize,
    TargetSamples,
    check_engines,
    sample_pages,
)
from spec_decode_exporter.history.history_targets import (
    HistoryTarget,
    nothing_found,
    servers_of,
    targets_of,
    without_twins,
)
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, Remedies, SampledSeries
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.engines import DRAFTS, MEANINGS, MODEL_LABEL, Counter
from spec_decode_exporter.scrape.sample import MAX_COUNT, MAX_ENGINES, Sample
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
MIN_HISTOGRAM_STEP: Final = 15
MAX_HISTOGRAMS: Final = 96
"""Least seconds between two readings of the histograms of a period, and their maximum number."""
MAX_SECONDS: Final = 86_400.0
"""Seconds of samples that are read, of the end of a period: older ones would have an eighth of the weight."""
MAX_SAMPLES: Final = 4_000_000
"""Samples that are read of one period: a day of two engines at 1 s."""
MAX_PERIODS: Final = 3
"""Periods that are read until one is a baseline."""
SCRAPES_SLICE: Final = 20
"""Scrapes between two yields to the event loop: they take some 5 ms."""
_WINDOW_SECONDS: Final = 900.0
"""Longest window of an engine's monitor: no evaluation is read, so it only bounds the memory."""
_NAMED: Final = 3
"""Servers that an error names."""
_NAME_LENGTH: Final = 60

_Sums = defaultdict[str, dict[float, dict[Counter, float]]]
"""Generated tokens and drafts, summed over engines, by model and Unix time."""


class BaselineReader:
    """Reads baselines of the servers of a history."""

    def __init__(self, api: QueryApi, match: str, begin: float, end: float) -> None:
        """Search between two Unix times in the series with these label matchers."""
        self.api = api
        self._match = match
        self._begin = begin
        self._end = end

    async def servers(self) -> list[HistoryTarget]:
        """Return all servers that match; raise HistoryError without any, or if they cannot be read."""
        series = await self.api.series(servers_of(self._match), self._begin, self._end)
        found = await without_twins(self.api, targets_of(series), self._begin, self._end)
        if not found:
            raise HistoryError(f"{nothing_found(self.api, self._match)}; check {KEYS.match} and `lookback`")
        return found

    async def read(self, server: HistoryTarget) -> Mapping[str, Baseline]:
        """Return the baseline of each model of a server.

        Raises:
            HistoryError: There is no period without speculation, or it cannot be read.
        """
        periods = await self._search(server)
        is_rust = await server.has_rust_front_end(self.api, self._begin, self._end)
        baselines: dict[str, Baseline] = {}
        for model, found in islice(periods.items(), MAX_ENGINES):
            for period in found[:MAX_PERIODS]:
                samples = TargetSamples(self.api, server, PAGES)
                baseline = await _learned(samples, model, period, front_end="rust" if is_rust else "")
                if baseline.end:
                    latencies = TargetSamples(self.api, server, SEARCH_PAGES)
                    with suppress(HistoryError):  # the baseline counts without histograms too
                        await _learn_latencies(latencies, model, period.begin, baseline)
                    baselines[model] = baseline
                    break
        if not baselines:
            raise HistoryError(
                f"{self.api.name} has no period of this server without speculation and with requests for a "
                "minute; a longer `lookback` may have one"
            )
        return baselines

    async def _search(self, server: HistoryTarget) -> Mapping[str, Sequence[FoundPeriod]]:
        step = max(MIN_STEP, ceil((self._end - self._begin) / MAX_READINGS))
        sums: _Sums = defaultdict(dict)

        values, pace = _every(self.api, server.activity, step), Pace(1)
        async for _, page in sample_pages(values, self._begin, self._end, SEARCH_PAGES):
            add_readings(page, sums)
            await pace.done()
        return {model: plain_periods(each, self._end) for model, each in sums.items()}


async def _learned(samples: TargetSamples, model: str, period: FoundPeriod, *, front_end: str) -> Baseline:
    """Return the baseline of one model that the samples of one period have, by the live classes."""
    baseline, pace, begin = Baseline(), Pace(SCRAPES_SLICE), max(period.begin, period.end - MAX_SECONDS)
    engines, assumed = dict[str, EngineMonitor](), Assumptions(front_end=front_end)
    async for _, scrapes in samples.pages(begin, period.end):
        await pace.done(SCRAPES_SLICE)
        for time, scrape in scrapes:
            interval = samples.interval or DEFAULT_INTERVAL
            gone = max(GONE_POLLS * samples.interval, GONE_SECONDS)
            for name, sample in scrape.items():
                engine = engines.get(name.engine)
                if name.model_name != model:
                    continue
                if engine is None or time - engine.history.last_seen > gone:
                    # An increment over a gap has the load of its end alone.
                    engine = engines[name.engine] = EngineMonitor((_WINDOW_SECONDS,), assumed, baseline)
                    check_engines(len(engines))
                deque(engine.observe(sample, time, time, interval, interval), maxlen=0)
            await pace.done()
        if samples.samples > MAX_SAMPLES:
            break
    if period.ended:
        baseline.drafting()
    return baseline


async def _learn_latencies(samples: TargetSamples, model: str, begin: float, baseline: Baseline) -> None:
    """Add the histograms of a period that begins at a Unix time, between readings without drafts."""
    kept, before, begin = baseline.kept, dict[str, Sample](), max(begin, baseline.end - MAX_SECONDS)
    if kept is None:
        return
    step = max(MIN_HISTOGRAM_STEP, ceil((kept.end - begin) / MAX_HISTOGRAMS))
    fetch, pace = _every(samples.api, samples.target.latencies, step), Pace(SCRAPES_SLICE)
    async for _, scrapes in samples.pages(begin, kept.end + 1, fetch):
        for time, scrape in scrapes:
            found = {name.engine: each for name, each in scrape.items() if name.model_name == model}
            for engine in found.keys() & before.keys():
                old, new = before[engine], found[engine]
                if old.latencies and new.latencies and not old[Counter.DRAFTS] and not new[Counter.DRAFTS]:
                    kept.add_latencies(old.latencies, new.latencies, time)
            before = found
            await pace.done()


def _every(api: QueryApi, selector: str, step: int) -> Fetch:
    """Return the function that reads the newest values at every ``step`` seconds."""

    async def values(end: float, seconds: int) -> Sequence[SampledSeries]:
        # Without the end itself: it is the next page's first reading.
        first = ceil((end - seconds) / step) * step
        return await api.values_every(selector, first, max(first, end - 1), step)

    return values


@dataclass(frozen=True, slots=True)
class FoundPeriod:
    """Time in which a target may have served a model without speculation."""

    begin: float
    """Unix time."""
    end: float
    ended: bool
    """Drafts ended it."""


def add_readings(series: Iterable[SampledSeries], sums: _Sums) -> None:
    """Add a page of readings to the sums by model and time; a value that no counter can have is left out."""
    for each in series:
        meaning = MEANINGS.get(each.labels.get("__name__", "").encode())
        quantity = Counter.DRAFTS if meaning and meaning.quantity in DRAFTS else meaning and meaning.quantity
        if not isinstance(quantity, Counter):
            continue
        times = sums[each.labels.get(MODEL_LABEL, "")]
        for time, value in zip(each.times, each.values, strict=True):
            if 0 <= value < MAX_COUNT:
                counters = times.setdefault(time, {})
                counters[quantity] = counters.get(quantity, 0.0) + value


def plain_periods(sums: Mapping[float, Mapping[Counter, float]], now: float) -> list[FoundPeriod]:
    """Return the periods of a model without drafts, newest first, rounded up to whole intervals of readings.

    In an interval a model may have worked without speculation if its tokens changed, and if it had no drafts
    yet at one end: a server without speculation has no such counter, or one at 0. Drafts end a period; idle
    time does not. One that lasts ends ``now`` (Unix time).
    """
    periods: list[FoundPeriod] = []
    begin: float | None = None
    end = 0.0
    for (before, earlier), (time, later) in pairwise(sorted(sums.items(), key=lambda item: item[0])):
        tokens, drafts = later.get(Counter.GENERATION_TOKENS), later.get(Counter.DRAFTS)
        has_worked = bool(tokens) and tokens != earlier.get(Counter.GENERATION_TOKENS)
        if has_worked and not (earlier.get(Counter.DRAFTS) and drafts):
            begin, end = before if begin is None else begin, time
        if begin is not None and drafts and drafts != earlier.get(Counter.DRAFTS):
            periods.append(FoundPeriod(begin, end, ended=True))
            begin = None
    if begin is not None:
        periods.append(FoundPeriod(begin, now, ended=False))
    return periods[::-1]


def server_of(target: Target, servers: Sequence[HistoryTarget], *, is_only_target: bool) -> HistoryTarget:
    """Return the server of a history that is a target.

    It is that with the target's address or name as ``instance``; of several, or without one, that whose
    labels agree with the target's. One server alone is that of one target alone (``is_only_target``).

    Raises:
        HistoryError: None fits, or several do.
    """
    names = {address(target.url), target.name}
    found = [server for server in servers if server.labels.get("instance") in names]
    if len(found) != 1:
        found = [server for server in found or servers if _agrees(target, server)] or found
    if not found and is_only_target and len(servers) == 1:
        found = list(servers)
    if len(found) == 1:
        return found[0]
    if found:
        raise HistoryError(
            f"{len(found)} servers there fit this target: {_listed(found)}; choose one by `match`"
        )
    raise HistoryError(
        f"none of the {len(servers)} servers there is this target: {_listed(servers)}. None has the instance "
        f"{address(target.url)} or its labels; choose its server by `match` in a `baseline` of this target"
    )


def _agrees(target: Target, server: HistoryTarget) -> bool:
    """Return whether both have labels in common, all with equal values."""
    common = [(value, server.labels[name]) for name, value in target.labels if name in server.labels]
    return bool(common) and all(own == its for own, its in common)


def _listed(servers: Sequence[HistoryTarget]) -> str:
    names = [_shown(server.name) for server in servers[:_NAMED]]
    return ", ".join(names) + (" and others" if len(servers) > _NAMED else "")


def _shown(name: str) -> str:
    text = "".join(each if each.isprintable() else "?" for each in name)
    return text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…"
