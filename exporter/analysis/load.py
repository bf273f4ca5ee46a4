"""What the server was busy with over a window."""

from __future__ import annotations

from exporter.analysis.ratio import ratio
from exporter.scrape.engines import Counter, Gauge
from exporter.window.ledger import MEAN_GAUGES, Window


def mean(window: Window, gauge: Gauge) -> float | None:
    """Return the mean of one of ``MEAN_GAUGES`` over the window's polls."""
    return window.gauges[MEAN_GAUGES.index(gauge)]


def per_second(window: Window, count: float | None) -> float | None:
    """Return a count of the window for each second that the window covers."""
    return ratio(count, window.seconds)


def prefix_cache_hit_ratio(window: Window) -> float | None:
    """Return the share of prompt tokens looked up in the prefix cache that were found there."""
    return ratio(window[Counter.PREFIX_CACHE_HITS], window[Counter.PREFIX_CACHE_QUERIES])
