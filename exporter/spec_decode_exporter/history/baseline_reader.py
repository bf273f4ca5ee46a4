"""Reads baselines from a history: the newest period of a server without speculation, in small slices.

Most of a history has drafts, and a baseline needs a day of samples at most. So the search reads two counters
every few minutes; all samples of the period that it finds decide. The event loop polls servers at the same
time: a page of samples is small, and work on it yields after each few scrapes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, pairwise
from math import ceil, inf
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.knowledge import Assumptions, Drafting
from spec_decode_exporter.core.log import escaped
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.core.urls import address
from spec_decode_exporter.costs.baseline import COMPARED, Baseline
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.history.history_pages import (
    DEFAULT_INTERVAL,
    Fetch,
    TargetSamples,
    check_engines,
    sample_pages,
)
from spec_decode_exporter.history.history_targets import (
    IDENTIFYING,
    HistoryTarget,
    every_engine,
    nothing_found,
    targets_of,
    without_twins,
)
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, SampledSeries
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.engines import DRAFTS, MEANINGS, Counter
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.sample import MAX_COUNT, MAX_ENGINES, EngineName, Sample, engine_name

MAX_BODY: Final = 2**20  # maximum bytes of a response; one of this size takes the event loop some 20 ms
PAGE: Final = 3 * 3600
SEARCH_PAGE: Final = 30 * 86_400
"""Seconds of a page of samples, and of one of readings, until a response is too large."""
MIN_STEP: Final = 300
"""Seconds between two readings of the search, at least: a period without speculation is longer."""
MAX_READINGS: Final = 10_000  # readings of a series: servers answer 11,000 at most
MIN_HISTOGRAM_STEP: Final = 15
MAX_HISTOGRAMS: Final = 96
"""Least seconds between two readings of the histograms of a period, and their maximum number."""
MAX_SECONDS: Final = 86_400.0
"""Seconds of samples that are read, of the end of a period: older ones would have an eighth of the weight."""
ROLLOUT_SECONDS: Final = 900.0  # seconds for which a process and its successor run side by side, at most
MAX_OTHERS: Final = 16  # maximum other processes of a group whose times without speculation are searched
MAX_PERIODS: Final = 3  # periods that are read until one is a baseline
SCRAPES_SLICE: Final = 20  # scrapes between two yields to the event loop: they take some 5 ms
_WINDOW_SECONDS: Final = 900.0
"""Longest window of an engine's monitor: no evaluation is read, so it only bounds the memory."""
_ACTIVITY: Final = (Counter.GENERATION_TOKENS, *DRAFTS)
_NO_PERIOD: Final = (
    "it has no period without speculation and with requests for a minute; a longer `lookback` may have one"
)
_NAMED: Final = 3  # servers that an error names
_NAME_LENGTH: Final = 60


class FoundPeriod(NamedTuple):
    """Time in which a target may have served a model without speculation."""

    begin: float  # Unix time
    end: float
    ended: bool  # drafts ended it


class FoundBaseline(NamedTuple):
    """Baseline of a model, and the server that it is of."""

    baseline: Baseline
    server: HistoryTarget


class Activity:
    """Work of a server, by few readings of its counters."""

    def __init__(self) -> None:
        self.drafted: dict[EngineName, float] = {}
        """Unix time by which each engine has drafted for the last time."""
        self._drafts: dict[EngineName, float] = {}
        self._sums: defaultdict[str, dict[float, dict[Counter, float]]] = defaultdict(dict)
        """Generated tokens and drafts, summed over engines, by model and Unix time."""
        self.begin, self.end = inf, -inf  # Unix times of the first and the last reading
        self.periods: Mapping[str, Sequence[FoundPeriod]] = {}
        """Periods without drafts of each model, newest first."""

    def add(self, series: Iterable[SampledSeries]) -> None:
        """Add a page of readings; a value that no counter can have is left out."""
        for each in series:
            meaning = MEANINGS.get(each.labels.get("__name__", "").encode())
            quantity = (
                Counter.DRAFTS if meaning and meaning.quantity in DRAFTS else meaning and meaning.quantity
            )
            if not isinstance(quantity, Counter):
                continue
            try:
                name = engine_name(each.labels)
            except PageError:
                continue
            times = self._sums[name.model_name]
            for time, value in zip(each.times, each.values, strict=True):
                if 0 <= value < MAX_COUNT:
                    counters = times.setdefault(time, {})
                    counters[quantity] = counters.get(quantity, 0.0) + value
                    if quantity is Counter.DRAFTS and value != self._drafts.get(name, 0.0):
                        self._drafts[name], self.drafted[name] = value, time

    def finish(self, now: float, step: float) -> None:
        """Find the periods by readings every ``step`` seconds until ``now`` (Unix time), and drop these."""
        times = [time for sums in self._sums.values() for time in sums]
        self.begin, self.end = min(times, default=inf), max(times, default=-inf)
        last = min(now, self.end + step)
        self.periods = {model: plain_periods(sums, last) for model, sums in self._sums.items()}
        self._sums.clear()


class BaselineReader:
    """Reads baselines of the servers of a history; each server is searched once."""

    def __init__(self, api: QueryApi, match: str, begin: float, end: float) -> None:
        """Search between two Unix times in the series with these label matchers."""
        self.api = api
        self.step = max(MIN_STEP, ceil((end - begin) / MAX_READINGS))
        """Seconds between two readings of the search."""
        self._match = match
        self._begin = begin
        self._end = end
        self._servers: Sequence[HistoryTarget] | None = None
        self._activities: dict[str, Activity] = {}
        self._known: dict[tuple[str, str, FoundPeriod], Baseline] = {}
        """Baselines by server, model and period; empty if it has none."""
        self._hides_drafts = False

    async def servers(self) -> Sequence[HistoryTarget]:
        """Return all servers that match; raise HistoryError without any, or if they cannot be read."""
        if self._servers is None:
            series = await self.api.series(every_engine(self._match, IDENTIFYING), self._begin, self._end)
            self._servers = await without_twins(self.api, targets_of(series), self._begin, self._end)
        if not self._servers:
            raise HistoryError(
                f"{nothing_found(self.api, self._match)}; check `baseline.prometheus.match` and `lookback`"
            )
        return self._servers

    async def read(self, server: HistoryTarget) -> dict[str, FoundBaseline]:
        """Return the baseline of each model of a server: its own, else that of a process of its group.

        Raises:
            HistoryError: There is no period without speculation, or it cannot be read.
        """
        self._hides_drafts = False
        own = await self.activity(server)
        found = dict[str, FoundBaseline]()
        for model in islice(own.periods, MAX_ENGINES):
            candidates = [(server, each) for each in own.periods[model][:MAX_PERIODS]]
            baseline = await self._newest(model, candidates)
            baseline = baseline or await self._newest(model, await self._others(server, model, own))
            if baseline is not None:
                found[model] = baseline
        if not found:
            reason = hidden_drafts(server) if self._hides_drafts else _NO_PERIOD
            raise HistoryError(f"{self.api.name} has no baseline of this server: {reason}")
        return found

    async def activity(self, server: HistoryTarget) -> Activity:
        """Return the work of a server; raise HistoryError if it cannot be read."""
        if server.name not in self._activities:
            activity, pace = Activity(), Pace(1)
            values = partial(self.api.values_every, server.selector(_ACTIVITY), self.step)
            async for _, page in sample_pages(values, self._begin, self._end, SEARCH_PAGE):
                activity.add(page)
                await pace.done()
            activity.finish(self._end, self.step)
            self._activities[server.name] = activity
        return self._activities[server.name]

    async def _others(
        self, server: HistoryTarget, model: str, own: Activity
    ) -> Sequence[tuple[HistoryTarget, FoundPeriod]]:
        """Return the periods of other processes of a server's group, newest first.

        One beside which the server ran is that of another arm, maybe on another machine.
        """
        found = list[tuple[HistoryTarget, FoundPeriod]]()
        group = [each for each in await self.servers() if each.is_like(server)]
        group.sort(key=lambda each: not each.quantities.isdisjoint(DRAFTS))
        for other in [each for each in group if each.labels != server.labels][:MAX_OTHERS]:
            work = await self.activity(other)
            for period in work.periods.get(model, ()):
                together = min(own.end, work.end, period.end) - max(own.begin, period.begin)
                if together <= ROLLOUT_SECONDS:
                    found.append((other, FoundPeriod(period.begin, period.end, ended=True)))
        return sorted(found, key=lambda each: -each[1].end)[:MAX_PERIODS]

    async def _newest(
        self, model: str, periods: Iterable[tuple[HistoryTarget, FoundPeriod]]
    ) -> FoundBaseline | None:
        for server, period in periods:
            key = server.name, model, period
            if key not in self._known:
                self._known[key] = await self._read(server, model, period)
            if self._known[key].end:
                return FoundBaseline(self._known[key], server)
        return None

    async def _read(self, server: HistoryTarget, model: str, period: FoundPeriod) -> Baseline:
        is_rust = await server.has_rust_front_end(self.api, self._begin, self._end)
        known = Assumptions(front_end="rust" if is_rust else "")
        samples, begin = TargetSamples(self.api, server, PAGE), max(period.begin, period.end - MAX_SECONDS)
        baseline, engines = Baseline(), dict[str, EngineMonitor]()
        async for time, scrape in _slices(samples, model, begin, period.end):
            interval = samples.interval or DEFAULT_INTERVAL
            for name, sample in scrape.items():
                if name not in engines or engines[name].history.is_gone(time):
                    # An increment over a gap has the load of its end alone.
                    engines[name] = EngineMonitor((_WINDOW_SECONDS,), known, baseline)
                    check_engines(len(engines))
                deque(engines[name].observe(sample, time, time, interval, interval), maxlen=0)
                self._hides_drafts |= engines[name].counters.drafting is Drafting.UNCOUNTED
        if period.ended:
            baseline.drafting()
        if baseline.end:
            with suppress(HistoryError):  # the baseline counts without histograms too
                await self._learn_latencies(server, model, period.begin, baseline)
        return baseline

    async def _learn_latencies(
        self, server: HistoryTarget, model: str, begin: float, baseline: Baseline
    ) -> None:
        """Add the histograms of a period that begins at a Unix time, between readings without drafts."""
        kept, before, begin = baseline.kept, dict[str, Sample](), max(begin, baseline.end - MAX_SECONDS)
        if kept is None:
            return
        step = max(MIN_HISTOGRAM_STEP, ceil((kept.end - begin) / MAX_HISTOGRAMS))
        samples = TargetSamples(self.api, server, SEARCH_PAGE)
        fetch = partial(self.api.values_every, server.selector((*DRAFTS, *COMPARED)), step)
        async for time, found in _slices(samples, model, begin, kept.end + 1, fetch):
            for engine in found.keys() & before.keys():
                old, new = before[engine], found[engine]
                if old.latencies and new.latencies and not old[Counter.DRAFTS] and not new[Counter.DRAFTS]:
                    kept.add_latencies(old.latencies, new.latencies, time)
            before = found


def hidden_drafts(server: HistoryTarget) -> str:
    """Return the sentence that a server drafts, by its tokens a step, without counters of it."""
    return f"its drafts are not in this Prometheus: add `{server.prefix}spec_decode_.*` to the allow-list"


async def _slices(
    samples: TargetSamples, model: str, begin: float, end: float, fetch: Fetch | None = None
) -> AsyncIterator[tuple[float, dict[str, Sample]]]:
    """Yield the Unix time of each scrape, and the sample of each engine of a model, in small slices."""
    pace = Pace(SCRAPES_SLICE)
    async for _, scrapes in samples.pages(begin, end, fetch):
        await pace.done(SCRAPES_SLICE)
        for time, scrape in scrapes:
            yield time, {name.engine: each for name, each in scrape.items() if name.model_name == model}
            await pace.done()


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
        if drafts and earlier.get(Counter.DRAFTS) is None and drafts > _grown(earlier, later):
            begin = None  # a draft yields a token at least: these began before they were kept
            continue
        if has_worked and not (earlier.get(Counter.DRAFTS) and drafts):
            begin, end = before if begin is None else begin, time
        if begin is not None and drafts and drafts != earlier.get(Counter.DRAFTS):
            periods.append(FoundPeriod(begin, end, ended=True))
            begin = None
    if begin is not None:
        periods.append(FoundPeriod(begin, now, ended=False))
    return periods[::-1]


def _grown(earlier: Mapping[Counter, float], later: Mapping[Counter, float]) -> float:
    """Return the tokens generated between two readings, at least."""
    before, now = (each.get(Counter.GENERATION_TOKENS, 0.0) for each in (earlier, later))
    return now - before if now >= before else now


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
    return bool(common) and all(own == other for own, other in common)


def _listed(servers: Sequence[HistoryTarget]) -> str:
    names = [escaped(server.name, kept="")[:_NAME_LENGTH] for server in servers[:_NAMED]]
    return ", ".join(names) + (" and others" if len(servers) > _NAMED else "")
