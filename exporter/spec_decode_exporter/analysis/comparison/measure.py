"""Measuring an engine over one window: every figure with its 95 % bounds, as far as there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.comparison.measurement import (
    MeasuredFigure,
    MeasuredHistogram,
    Measurement,
    Quantity,
)
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    acceptance_length_estimate,
    acceptance_ratio_estimate,
    cosines_of,
    grouped,
    passing_requests,
    ratio_estimate,
)
from spec_decode_exporter.figures import acceptance, latency, positions, server_load
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import MEAN_GAUGES, NANO, Increments, Window

PERCENTILES: Final = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
_NORMAL: Final = 1.96
"""The 0.975 quantile of the normal distribution."""


def measure(window: Window, latencies: Mapping[Latency, Buckets]) -> Measurement:
    """Return what a window and the histograms over it say."""
    return Measurement(
        seconds=window.seconds,
        polls=window.polls,
        counts={
            counter.name.lower(): count
            for counter, count in zip(Counter, window.counters, strict=True)
            if count is not None
        },
        position_accepted_tokens=window.positions,
        quantities=dict(_quantities(window)),
        position_acceptance_ratio=tuple(_positions(window)),
        position_conditional_acceptance_ratio=tuple(_conditional(window)),
        latency_seconds={name: _histogram(name, buckets) for name, buckets in latencies.items()},
    )


def added(histograms: Sequence[Mapping[Latency, Buckets]]) -> dict[Latency, Buckets]:
    """Return the histograms of several engines as one; one that differs in its buckets is left out."""
    first, *others = histograms
    return {
        name: Buckets(
            buckets.bounds,
            tuple(map(sum, zip(buckets.counts, *(other[name].counts for other in others), strict=True))),
        )
        for name, buckets in first.items()
        if all(name in other and other[name].bounds == buckets.bounds for other in others)
    }


def _cosines(window: Window) -> int:
    """Return how many cosines bounds can rest on, where nothing is drafted too."""
    return 0 if window.partial else cosines_of(window.seconds, passing_requests(window))


Column = Callable[[Window, Increments], Sequence[float]]
"""What is divided, or divides, in each of a window's increments."""


def _counter(counter: Counter, unit: int = 1) -> Column:
    return lambda _, increments: [count / unit for count in increments.counter(counter)]


def _decoded(_: Window, increments: Increments) -> Sequence[float]:
    generated, first = map(increments.counter, (Counter.GENERATION_TOKENS, Counter.FIRST_TOKENS))
    return [all_of_them - begun for all_of_them, begun in zip(generated, first, strict=True)]


def _seconds(window: Window, increments: Increments) -> Sequence[float]:
    """Return the time of each increment; of engines side by side, whose times add up, that of one."""
    seconds = increments.seconds()
    total = sum(seconds)
    return [each * window.seconds / total for each in seconds] if total else seconds


def _polls(_: Window, increments: Increments) -> Sequence[float]:
    """Return the polls of each increment: a gauge was read so often in it, however long it took."""
    return increments.polls()


def _gauge(gauge: Gauge) -> Column:
    """Return the sums over the polls; of engines side by side so that their mean is that of the window."""

    def column(window: Window, increments: Increments) -> Sequence[float]:
        sums, known = increments.gauge(gauge), window.gauges[MEAN_GAUGES.index(gauge)] or 0.0
        total = sum(sums)
        return [each * known * sum(increments.polls()) / total for each in sums] if total else sums

    return column


class _Row(NamedTuple):
    """How a quantity is made."""

    value: Callable[[Window], float | None]
    numerator: Column
    denominator: Column
    highest: float = inf


def _a_second(counter: Counter) -> _Row:
    return _Row(lambda window: server_load.per_second(window, window[counter]), _counter(counter), _seconds)


def _a_request(counter: Counter) -> _Row:
    return _Row(
        lambda window: ratio(window[counter], window[Counter.FIRST_TOKENS]),
        _counter(counter),
        _counter(Counter.FIRST_TOKENS),
    )


def _mean(gauge: Gauge, highest: float = inf) -> _Row:
    return _Row(lambda window: server_load.mean(window, gauge), _gauge(gauge), _polls, highest)


_NANOSECONDS: Final = _counter(Counter.DECODE_NANOSECONDS, NANO)

_ROWS: Final[Mapping[Quantity, _Row]] = {
    Quantity.DRAFT_LENGTH: _Row(
        acceptance.draft_length_tokens, _counter(Counter.DRAFT_TOKENS), _counter(Counter.DRAFTS)
    ),
    Quantity.COVERAGE: _Row(
        acceptance.coverage_ratio, _counter(Counter.DRAFTS), _counter(Counter.DECODE_STEPS), 1.0
    ),
    Quantity.TOKENS_PER_STEP: _Row(
        acceptance.effective_tokens_per_step, _decoded, _counter(Counter.DECODE_STEPS)
    ),
    Quantity.TIME_PER_OUTPUT_TOKEN: _Row(latency.time_per_output_token_seconds, _NANOSECONDS, _decoded),
    Quantity.STEP: _Row(latency.step_seconds, _NANOSECONDS, _counter(Counter.DECODE_STEPS)),
    Quantity.DRAFTS: _a_second(Counter.DRAFTS),
    Quantity.DRAFT_TOKENS: _a_second(Counter.DRAFT_TOKENS),
    Quantity.ACCEPTED_TOKENS: _a_second(Counter.ACCEPTED_TOKENS),
    Quantity.GENERATION_TOKENS: _a_second(Counter.GENERATION_TOKENS),
    Quantity.REQUESTS: _a_second(Counter.FIRST_TOKENS),
    Quantity.RUNNING_REQUESTS: _mean(Gauge.RUNNING_REQUESTS),
    Quantity.WAITING_REQUESTS: _mean(Gauge.WAITING_REQUESTS),
    Quantity.KV_CACHE_USAGE: _mean(Gauge.KV_CACHE_USAGE, 1.0),
    Quantity.OUTPUT_TOKENS: _a_request(Counter.GENERATION_TOKENS),
    Quantity.PROMPT_TOKENS: _a_request(Counter.PROMPT_TOKENS),
    Quantity.PREFIX_CACHE_HITS: _Row(
        server_load.prefix_cache_hit_ratio,
        _counter(Counter.PREFIX_CACHE_HITS),
        _counter(Counter.PREFIX_CACHE_QUERIES),
        1.0,
    ),
}


def _quantities(window: Window) -> Iterator[tuple[Quantity, MeasuredFigure]]:
    evaluated = {
        Quantity.DRAFT_ACCEPTANCE_RATIO: (acceptance.draft_acceptance_ratio, acceptance_ratio_estimate),
        Quantity.ACCEPTANCE_LENGTH: (acceptance.acceptance_length_tokens, acceptance_length_estimate),
    }
    for quantity, (value_of, estimate_of) in evaluated.items():
        value = value_of(window)
        if value is not None:
            yield quantity, MeasuredFigure.of(value, estimate_of(window))
    for quantity, row in _ROWS.items():
        value = row.value(window)
        if value is not None:
            yield (
                quantity,
                MeasuredFigure.of(value, _estimate(window, row.numerator, row.denominator, row.highest)),
            )


def _estimate(
    window: Window, numerator: Column, denominator: Column, highest: float, least_error: float = 0.0
) -> Estimate | None:
    increments = grouped(window)
    return ratio_estimate(
        numerator(window, increments),
        denominator(window, increments),
        _cosines(window),
        min_error=least_error,
        lowest=0.0,
        highest=highest,
    )


def _positions(window: Window) -> Iterator[MeasuredFigure | None]:
    for position, share in enumerate(positions.position_acceptance_ratios(window)):
        yield _share(window, share, _position(position), _counter(Counter.DRAFTS), window[Counter.DRAFTS])


def _conditional(window: Window) -> Iterator[MeasuredFigure | None]:
    reached: tuple[int | None, ...] = (window[Counter.DRAFTS], *window.positions)
    for position, share in enumerate(positions.conditional_acceptance_ratios(window)):
        before = _position(position - 1) if position else _counter(Counter.DRAFTS)
        yield _share(window, share, _position(position), before, reached[position])


def _position(position: int) -> Column:
    return lambda _, increments: increments.position(position)


def _share(
    window: Window, share: float | None, numerator: Column, denominator: Column, trials: int | None
) -> MeasuredFigure | None:
    """Return a share of drafts with its bounds, which are never surer than those of independent drafts."""
    if share is None or not trials:
        return None
    alone = sqrt(max(0.0, share * (1 - share)) / trials)
    return MeasuredFigure.of(share, _estimate(window, numerator, denominator, 1.0, alone))


def _histogram(name: Latency, buckets: Buckets) -> MeasuredHistogram:
    quantiles = {key: _quantile(name, share, buckets) for key, share in PERCENTILES}
    finite = tuple(bound for bound in buckets.bounds if bound < inf)
    return MeasuredHistogram(bounds=finite, counts=buckets.counts, **quantiles)


def _quantile(name: Latency, share: float, buckets: Buckets) -> MeasuredFigure | None:
    """Return a quantile between the edges of the buckets that its 95 % ranks fall into.

    The ranks are n·q ± 1.96·√(n·q·(1 - q)), which needs no assumption but that requests do not depend on one
    another (Conover, *Practical Nonparametric Statistics*, 3.2). Decode steps of a request do: no bounds.
    """
    value = latency.quantile(share, buckets)
    if value is None:
        return None
    half = _NORMAL * sqrt(share * (1 - share) / buckets.counts[-1])
    edges = _bucket(share - half, buckets), _bucket(share + half, buckets)
    if name is Latency.DECODE_STEP or edges[0] is None or edges[1] is None:
        return MeasuredFigure(value=value)
    return MeasuredFigure(value=value, lower=min(value, edges[0][0]), upper=max(value, edges[1][1]))


def _bucket(share: float, buckets: Buckets) -> tuple[float, float] | None:
    """Return the edges of the bucket that holds a quantile; None if it has no end, or there is no such."""
    rank = share * buckets.counts[-1]
    place = next((place for place, count in enumerate(buckets.counts) if count >= rank), None)
    if place is None or not 0 <= share <= 1 or buckets.bounds[place] == inf:
        return None
    return (buckets.bounds[place - 1] if place else 0.0), buckets.bounds[place]
