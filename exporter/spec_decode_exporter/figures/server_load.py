"""Server load over a window."""

from __future__ import annotations

from math import fsum
from operator import mul

from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import MEAN_GAUGES, Window
from spec_decode_exporter.window.once_per_window import once_per_window


def mean(window: Window, gauge: Gauge) -> float | None:
    """Return the mean of one of ``MEAN_GAUGES`` over the window's polls."""
    return window.gauges[MEAN_GAUGES.index(gauge)]


@once_per_window
def drafting_requests(window: Window) -> float | None:
    """Return the mean running requests, weighted by draft tokens.

    The cost of a draft token depends on the load at which it is drafted, and most are drafted while most
    requests run. If the cost is linear in the load, the cost at this load is exact for the window. Without
    drafts it is the mean over the polls.
    """
    running = mean(window, Gauge.RUNNING_REQUESTS)
    if running is None or window[Counter.DRAFT_TOKENS] == 0:
        return running
    drafted = window.increments.counter(Counter.DRAFT_TOKENS)
    total = sum(drafted)
    if total <= 0:
        return running
    running_each = window.increments.gauge(Gauge.RUNNING_REQUESTS)
    return fsum(map(mul, running_each, drafted)) / total


def per_second(window: Window, count: float | None) -> float | None:
    """Return a count of the window per second that the window covers."""
    return ratio(count, window.seconds)


def prefix_cache_hit_ratio(window: Window) -> float | None:
    """Return the share of looked-up prompt tokens that the prefix cache held."""
    return ratio(window[Counter.PREFIX_CACHE_HITS], window[Counter.PREFIX_CACHE_QUERIES])
