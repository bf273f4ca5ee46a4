"""Samples of one target, read page by page like the metrics pages that were scraped.

Time is read in pieces of one length, which are halved where the server, or the limit of bytes, demands it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Final

from spec_decode_exporter.history.history_targets import REPLICA_LABELS, HistoryTarget
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, SampledSeries, TooMuchError
from spec_decode_exporter.scrape.engines import MEANINGS
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.layout import Layout, ParsedSeries
from spec_decode_exporter.scrape.sample import MAX_ENGINES, EngineName, PageMap, Sample

DEFAULT_INTERVAL: Final = 60.0  # seconds between two scrapes, where too few show it
MIN_PAGE: Final = 60  # seconds of the smallest page; a server that refuses even that refuses everything
MAX_LAYOUTS: Final = 64  # maximum combinations of series that scrapes of one page of samples lack

Fetch = Callable[[float, int], Awaitable[Sequence[SampledSeries]]]
"""Returns the samples of a number of seconds up to a Unix time."""
Scrape = tuple[float, Mapping[EngineName, Sample]]  # Unix time and samples of a scrape
_Row = tuple[float, Sequence[float]]


async def sample_pages(
    fetch: Fetch, begin: float, end: float, seconds: int
) -> AsyncIterator[tuple[float, Sequence[SampledSeries]]]:
    """Yield the end and the series of each page of ``seconds`` between two Unix times, oldest first.

    Raises:
        HistoryError: The server refuses even the smallest page, or answers no more.
    """
    while begin < end:
        edge = min(begin + seconds, end)
        try:
            page = await fetch(edge, max(1, round(edge - begin)))
        except TooMuchError as error:
            if seconds <= MIN_PAGE:
                raise HistoryError(f"{error}, even for {MIN_PAGE} s") from None
            seconds = max(MIN_PAGE, seconds // 2)
            continue
        yield edge, page
        begin = edge


@dataclass(slots=True)
class TargetSamples:
    """Reads the samples of one target. It counts the scrapes that no page could have."""

    api: QueryApi
    target: HistoryTarget
    seconds: int  # length of a page
    interval: float = 0.0  # usual seconds between two scrapes; 0 with fewer than three
    unreadable: int = 0  # scrapes that were left out: a counter had a value that no counter can have
    reason: str = ""  # reason of the last one
    _last: float = 0.0
    _with_latencies: bool = False

    def notes(self) -> Iterator[str]:
        """Yield remarks about the reading."""
        if self.unreadable:
            yield f"{self.target.name}: {self.unreadable} scrapes left out: {self.reason}."

    async def pages(
        self, begin: float, end: float, fetch: Fetch | None = None
    ) -> AsyncIterator[tuple[float, Iterator[Scrape]]]:
        """Yield the end and the scrapes of each page between two Unix times; each scrape is later.

        ``fetch`` reads histograms instead of the series of the target's ``selector``.

        Raises:
            HistoryError: The server answers no more, or the series of the target cannot be engines.
        """
        self._last, self._with_latencies = begin - 1.0, fetch is not None
        fetch = fetch or partial(self.api.samples, self.target.selector())
        async for edge, page in sample_pages(fetch, begin, end, self.seconds):
            series = _of_one_replica(page)
            self.interval = self.interval or _usual_interval({time for each in series for time in each.times})
            yield edge, self.scrapes(series)

    def scrapes(self, series: Sequence[SampledSeries]) -> Iterator[Scrape]:
        """Yield the Unix time and the samples of each scrape of one replica, if it is later than the last.

        Raises:
            HistoryError: The series of the target cannot be engines.
        """
        layouts: dict[tuple[int, ...], PageMap] = {}
        for present, rows in _by_presence(series):
            if present not in layouts:
                if len(layouts) > MAX_LAYOUTS:
                    raise HistoryError(
                        "its series come and go with every scrape: they are of several servers"
                    )
                layouts[present] = _page_map([series[place] for place in present])
            for time, values in rows:
                if time > self._last:
                    self._last = time
                    try:
                        reading = layouts[present].reading(values, with_latencies=self._with_latencies)
                        yield time, reading.samples
                    except PageError as error:
                        self.unreadable += 1
                        self.reason = str(error)


def check_engines(engines: int) -> None:
    """Raise HistoryError if all scrapes of one target show too many engines."""
    if engines > MAX_ENGINES:
        raise HistoryError(f"it has more than {MAX_ENGINES} engines: its series are of several servers")


def _usual_interval(times: set[float]) -> float:
    gaps = [later - earlier for earlier, later in pairwise(sorted(times))]
    return median(gaps) if len(gaps) > 1 else 0.0


def _of_one_replica(series: Sequence[SampledSeries]) -> list[SampledSeries]:
    """Return each series once: of HA pairs, those of the replica with the most samples."""
    replicas: defaultdict[tuple[tuple[str, str], ...], list[SampledSeries]] = defaultdict(list)
    for each in series:
        if each.labels.get("__name__", "").encode() in MEANINGS and each.times:
            key = tuple(sorted((name, each.labels[name]) for name in REPLICA_LABELS & each.labels.keys()))
            replicas[key].append(each)
    return max(replicas.values(), key=lambda found: sum(len(each.times) for each in found), default=[])


def _by_presence(series: Sequence[SampledSeries]) -> Iterator[tuple[tuple[int, ...], list[_Row]]]:
    """Yield runs of scrapes, oldest first, in which the same series have values."""
    if not series:
        return
    first = series[0].times
    if all(each.times == first for each in series):
        rows = zip(*(each.values for each in series), strict=True)
        yield tuple(range(len(series))), list(zip(first, rows, strict=True))
        return
    found: defaultdict[float, dict[int, float]] = defaultdict(dict)
    for place, each in enumerate(series):
        for time, value in zip(each.times, each.values, strict=True):
            found[time][place] = value
    present: tuple[int, ...] = ()
    run: list[_Row] = []
    for time in sorted(found):
        places = tuple(found[time])
        if places != present and run:
            yield present, run
            run = []
        present = places
        run.append((time, tuple(found[time].values())))
    yield present, run


def _page_map(series: Sequence[SampledSeries]) -> PageMap:
    parsed = list[ParsedSeries]()
    for each in series:
        labels = tuple(sorted(pair for pair in each.labels.items() if pair[0] != "__name__"))
        parsed.append(ParsedSeries(each.labels["__name__"].encode(), labels))
    try:
        return PageMap(Layout((), {each: (line, 0) for line, each in enumerate(parsed)}))
    except PageError as error:
        raise HistoryError(f"the series of a target cannot be those of a server: {error}") from None
