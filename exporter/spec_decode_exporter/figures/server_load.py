"""What the server was busy with over a window."""

from __future__ import annotations

from math import fsum
from operator import mul

from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import MEAN_GAUGES, Window


def mean(window: Window, gauge: Gauge) -> float | None:
    """Return the mean of one of ``MEAN_GAUGES`` over the window's polls."""
    return window.gauges[MEAN_GAUGES.index(gauge)]


def drafting_requests(window: Window) -> float | None:
    """Return the running requests that a draft token usually has beside it.

    It is the mean over draft tokens, not over time: what a draft token costs depends on the load at which
    it is drafted, and most are drafted while most requests run. Where the cost is a straight line of the
    load, the cost at this one is exact for the window. Without drafts it is the mean over the polls.
    """
    running = mean(window, Gauge.RUNNING_REQUESTS)
    if running is None:
        return None
    drafted = window.increments.counter(Counter.DRAFT_TOKENS)
    total = sum(drafted)
    if total <= 0:
        return running
    running_each = window.increments.gauge(Gauge.RUNNING_REQUESTS)
    return fsum(map(mul, running_each, drafted)) / total


def per_second(window: Window, count: float | None) -> float | None:
    """Return a count of the window for each second that the window covers."""
    return ratio(count, window.seconds)


def prefix_cache_hit_ratio(window: Window) -> float | None:
    """Return the share of prompt tokens looked up in the prefix cache that were found there."""
    return ratio(window[Counter.PREFIX_CACHE_HITS], window[Counter.PREFIX_CACHE_QUERIES])
