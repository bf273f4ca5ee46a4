"""How rows of the catalogue read an engine's findings: each function turns a formula into values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.figures.latency import quantile
from spec_decode_exporter.figures.poll_spread import Spread, spread
from spec_decode_exporter.metrics.metric import Values
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.increments import Reset
from spec_decode_exporter.window.ledger import NANO, Window

Read = Callable[[EngineSnapshot], Values]

PERCENTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
SPREAD_PERCENTILES = (("p10", 0.10), ("p50", 0.50), ("p90", 0.90))


def total(counter: Counter) -> Read:
    """Read one counter's total since the exporter first saw the engine."""
    return lambda findings: [((), findings.totals.counters[counter])]


def decode_seconds_total(findings: EngineSnapshot) -> Values:
    """Read the total of the inter-token latencies."""
    return [((), findings.totals.counters[Counter.DECODE_NANOSECONDS] / NANO)]


def covered_seconds_total(findings: EngineSnapshot) -> Values:
    """Read the time that the totals cover."""
    return [((), findings.totals.covered_seconds)]


def poll_histogram(findings: EngineSnapshot) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Read a histogram: its values have the sample's suffix and its upper bound in place of labels."""
    totals = findings.totals
    for bound, count in totals.poll_buckets:
        yield ("_bucket", bound), count
    yield ("_count", ""), totals.poll_buckets[-1][1]
    yield ("_sum", ""), totals.poll_sum


def position_totals(findings: EngineSnapshot) -> Values:
    """Read the accepted tokens of each position."""
    return [((str(position),), count) for position, count in enumerate(findings.totals.positions)]


def resets(findings: EngineSnapshot) -> Values:
    """Read how often the engine's counters began anew, by cause."""
    return [((str(cause),), findings.totals.resets[cause]) for cause in Reset]


def each_window(formula: Callable[[Window], float | None]) -> Read:
    """Read a formula for every window."""
    return lambda findings: [((window_label(window),), formula(window)) for window in findings.windows]


def long_window(formula: Callable[[Window], float | None]) -> Read:
    """Read a formula for the longest window alone."""
    return lambda findings: [((window_label(window),), formula(window)) for window in findings.windows[-1:]]


def each_position(formula: Callable[[Window], list[float | None]]) -> Read:
    """Read a formula that gives one value for each position, for every window."""

    def read(findings: EngineSnapshot) -> Iterator[tuple[tuple[str, ...], float | None]]:
        for window in findings.windows:
            for position, value in enumerate(formula(window)):
                yield (window_label(window), str(position)), value

    return read


def position_counts(window: Window) -> list[float | None]:
    """Return the accepted tokens of each position."""
    return list(window.positions)


def latencies(findings: EngineSnapshot) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Read the quantiles of every latency over the longest window."""
    for window in findings.windows[-1:]:
        for latency, buckets in findings.latencies.items():
            for percentile, share in PERCENTILES:
                yield (window_label(window), str(latency), percentile), quantile(share, buckets)


def spread_percentiles(findings: EngineSnapshot) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Read the percentiles of the polls' acceptance rates."""
    for window in findings.windows:
        found = spread(window)
        for percentile, share in SPREAD_PERCENTILES:
            yield (window_label(window), percentile), found.percentile(share) if found else None


def of_spread(formula: Callable[[Spread], float]) -> Read:
    """Read a formula of the spread over polls, for every window."""

    def value(window: Window) -> float | None:
        found = spread(window)
        return formula(found) if found else None

    return each_window(value)


def reported(gauge: Gauge) -> Read:
    """Read what the engine itself reports, where it has no counters that can be used."""

    def read(findings: EngineSnapshot) -> Values:
        sample = findings.reported
        usable = sample is not None and sample[Counter.DRAFTS] is not None
        return [((), None if sample is None or usable else sample.gauge(gauge))]

    return read


def window_label(window: Window) -> str:
    """Return the value of the ``window`` label."""
    return _written(window.length)


# The same few lengths for every series of every page: writing them anew took a quarter of a page's time.
_written = lru_cache(maxsize=64)(format_duration)
