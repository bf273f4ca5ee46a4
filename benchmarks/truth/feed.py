"""Feed the exporter's own code with the counters of a simulated server: windows and monitors of an engine."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.truth.traffic import Counts
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.scrape.engines import Counter, Gauge
from spec_decode_exporter.scrape.sample import Sample
from spec_decode_exporter.window.engine_windows import History, Window

INTERVAL = 1.0
"""Seconds between polls."""
LENGTHS = (30.0, 300.0)
"""Windows of the exporter's default configuration that decide: a short one and the longest."""
START = 1_000.0
"""Monotonic time of the first poll."""
WALL = 1_790_000_000.0

_OF_DRAFTS = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS})


def sample(counts: Counts, *, created: float, speculates: bool = True) -> Sample:
    """Return the page of a server; one that does not speculate has no counters of drafts."""
    values = tuple(
        getattr(counts, counter.name.lower()) if speculates or counter not in _OF_DRAFTS else None
        for counter in Counter
    )
    gauges = {
        Gauge.RUNNING_REQUESTS: float(counts.running_requests),
        Gauge.WAITING_REQUESTS: float(counts.waiting_requests),
        Gauge.KV_CACHE_USAGE: 0.5,
    }
    return Sample(
        values, tuple(counts.positions) if speculates else (), tuple(map(gauges.get, Gauge)), created
    )


class FedEngine:
    """An engine's monitor with a clock that only the polls move."""

    def __init__(self, assumptions: Assumptions) -> None:
        self.monitor = EngineMonitor(LENGTHS, assumptions)
        self._now = START

    def poll(self, polls: Iterable[Counts], *, speculates: bool = True, process: int = 0) -> None:
        """Poll a server once a second; another ``process`` is a restart."""
        created = WALL + process
        for counts in polls:
            self._now += INTERVAL
            page = sample(counts, created=created, speculates=speculates)
            self.monitor.observe(page, self._now, self._now - START + WALL, INTERVAL, INTERVAL)

    def snapshot(self) -> EngineSnapshot:
        """Evaluate the newest poll."""
        self.monitor.evaluate()
        assert self.monitor.snapshot is not None
        return self.monitor.snapshot


def windows(polls: Iterable[Counts]) -> tuple[Window, ...]:
    history = History(LENGTHS[-1])
    for index, counts in enumerate(polls):
        moment = START + index * INTERVAL
        history.observe(sample(counts, created=WALL), moment, WALL + index * INTERVAL, INTERVAL)
    return history.windows(*LENGTHS)
