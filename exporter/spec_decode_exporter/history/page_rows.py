"""Rows of a history: the samples of one scrape of a target, read like a metrics page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spec_decode_exporter.history.history_targets import REPLICA_LABELS
from spec_decode_exporter.history.query_api import HistoryError, SampledSeries
from spec_decode_exporter.scrape.engines import MEANINGS
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.layout import Layout, ParsedSeries
from spec_decode_exporter.scrape.sample import EngineName, PageMap, Sample

MAX_LAYOUTS: Final = 64
"""Maximum combinations of series that scrapes of one page of samples lack."""

Samples = Mapping[EngineName, Sample]
Row = tuple[float, Sequence[float]]


@dataclass(slots=True)
class RowReader:
    """Reads rows of one target. It counts those that no page could have."""

    unreadable: int = 0
    """Scrapes that were left out: a counter had a value that no counter can have."""
    reason: str = ""
    """Reason of the last one."""

    def read(self, series: Sequence[SampledSeries]) -> Iterator[tuple[float, Samples]]:
        """Yield the Unix time and the samples of each scrape, oldest first.

        Scrapes of all series have one time. Those of the replica with the most samples count.

        Raises:
            HistoryError: The series of the target cannot be engines.
        """
        chosen = _of_one_replica(series)
        layouts: dict[tuple[int, ...], PageMap] = {}
        for present, rows in _by_presence(chosen):
            if len(layouts) > MAX_LAYOUTS:
                raise HistoryError("its series come and go with every scrape: they are of several servers")
            if present not in layouts:
                layouts[present] = _page_map([chosen[place] for place in present])
            yield from self._read(layouts[present], rows)

    def _read(self, layout: PageMap, rows: Sequence[Row]) -> Iterator[tuple[float, Samples]]:
        for time, values in rows:
            try:
                yield time, layout.reading(values, with_latencies=False).samples
            except PageError as error:
                self.unreadable += 1
                self.reason = str(error)


def _page_map(series: Sequence[SampledSeries]) -> PageMap:
    parsed = [ParsedSeries(each.labels["__name__"].encode(), _labels(each)) for each in series]
    try:
        return PageMap(Layout((), {each: (line, 0) for line, each in enumerate(parsed)}))
    except PageError as error:
        raise HistoryError(f"the series of a target cannot be those of a server: {error}") from None


def _labels(series: SampledSeries) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in series.labels.items() if name != "__name__"))


def _of_one_replica(series: Sequence[SampledSeries]) -> list[SampledSeries]:
    """Return each series once: of HA pairs, those of the replica with the most samples."""
    replicas: defaultdict[tuple[tuple[str, str], ...], list[SampledSeries]] = defaultdict(list)
    for each in series:
        if each.labels.get("__name__", "").encode() in MEANINGS and each.times:
            key = tuple(sorted((name, each.labels[name]) for name in REPLICA_LABELS & each.labels.keys()))
            replicas[key].append(each)
    return max(replicas.values(), key=lambda found: sum(len(each.times) for each in found), default=[])


def _by_presence(series: Sequence[SampledSeries]) -> Iterator[tuple[tuple[int, ...], list[Row]]]:
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
    run: list[Row] = []
    for time in sorted(found):
        places = tuple(found[time])
        if places != present and run:
            yield present, run
            run = []
        present = places
        run.append((time, tuple(found[time].values())))
    yield present, run
