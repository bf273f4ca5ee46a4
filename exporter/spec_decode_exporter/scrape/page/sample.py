"""Values of one engine on one metrics page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency


class EngineName(NamedTuple):
    """Identity of an engine within its server."""

    model_name: str
    """Empty if unknown."""
    engine: str
    """Number of the data-parallel engine; ``0`` if unknown."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Histogram as on the page: cumulative counts under ascending upper bounds, +Inf last."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters and gauges of one engine. A value that the page lacks is None."""

    counters: tuple[int | None, ...]
    """Indexed by ``Counter``. Exact integers; times in nanoseconds."""
    positions: tuple[int, ...]
    """Accepted tokens by draft position; 0 for a position that the page lacks."""
    gauges: tuple[float | None, ...]
    """Indexed by ``Gauge``."""
    created: float | None
    """Unix time of the counters' start, else of the process' start."""
    latencies: Mapping[Latency, Buckets] | None = None
    """Histograms; None on a page that was read without them."""
    answer_lengths: Buckets | None = None
    """Histogram of the generation tokens of finished requests, read together with ``latencies``."""

    def __getitem__(self, counter: Counter) -> int | None:
        return self.counters[counter]

    def gauge(self, gauge: Gauge) -> float | None:
        """Return a gauge's value, or None if the page lacks it."""
        return self.gauges[gauge]


class PageReading(NamedTuple):
    """Samples of all engines on a page."""

    engine_kind: str
    """A name from ``engine_table.ENGINES``; empty if the page has no known engine."""
    front_end: str
    """``python``, ``rust``, ``ray`` or ``v0`` (vLLM V0: no counters are read); empty for other engines."""
    samples: Mapping[EngineName, Sample]
