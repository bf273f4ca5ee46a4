"""What one page says about one engine at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency


class EngineName(NamedTuple):
    """Which engine of a server."""

    model_name: str
    """Empty where the server does not tell."""
    engine: str
    """Its number among the data-parallel engines; ``0`` where the server does not tell."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram as the page shows it: cumulative counts under ascending upper bounds, +Inf last."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters and gauges of one engine. What the page does not have is None."""

    counters: tuple[int | None, ...]
    """Indexed by ``Counter``. Exact integers; times in nanoseconds."""
    positions: tuple[int, ...]
    """Accepted tokens by draft position; a position that the page leaves out is 0."""
    gauges: tuple[float | None, ...]
    """Indexed by ``Gauge``."""
    created: float | None
    """Unix time at which the counters began, else at which the process did."""
    latencies: Mapping[Latency, Buckets] | None = None
    """The histograms, on a page that was read with them."""

    def __getitem__(self, counter: Counter) -> int | None:
        return self.counters[counter]

    def gauge(self, gauge: Gauge) -> float | None:
        """Return a gauge's value, or None where the page has none."""
        return self.gauges[gauge]


@dataclass(frozen=True, slots=True)
class PageReading:
    """A whole page, understood."""

    engine_kind: str
    """A name from ``engines.ENGINES``; empty if the page shows no engine that is known."""
    front_end: str
    """``python``, ``rust``, ``ray``, ``v0`` (vLLM V0: no counters are read); empty for others."""
    samples: Mapping[EngineName, Sample]
