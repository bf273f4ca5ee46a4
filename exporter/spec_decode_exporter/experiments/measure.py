"""Measure an engine over one window: every figure with its 95 % bounds, if it has some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.experiments.measurement import (
    MeasuredFigure,
    MeasuredHistogram,
    Measurement,
)
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    acceptance_length_estimate,
    acceptance_ratio_estimate,
    cosines_of,
    counted_requests,
    grouped,
    ratio_estimate,
)
from spec_decode_exporter.figures.student_t import NORMAL_975
from spec_decode_exporter.figures import latency, positions
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.figure import ScalarFigure
from spec_decode_exporter.figures.quantiles import LATENCY_QUANTILES
from spec_decode_exporter.figures.table import measured
from spec_decode_exporter.figures.terms import CounterTerm, PositionTerm, Term
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import Window

_DRAFTS: Final = CounterTerm(Counter.DRAFTS)


class _Bounds(NamedTuple):
    """Bounds of a window whose cost of drafting is unknown, each computed when it is read."""

    window: Window

    @property
    def acceptance_ratio(self) -> Estimate | None:
        return acceptance_ratio_estimate(self.window)

    @property
    def acceptance_length(self) -> Estimate | None:
        return acceptance_length_estimate(self.window)

    @property
    def speedup(self) -> None:
        return None

    @property
    def break_even_cost(self) -> None:
        return None


def measure(window: Window, latencies: Mapping[Latency, Buckets]) -> Measurement:
    """Return the measurement of a window and of the histograms over it."""
    return Measurement(
        seconds=window.seconds,
        polls=window.polls,
        counts={
            counter.name.lower(): count
            for counter, count in zip(Counter, window.counters, strict=True)
            if count is not None
        },
        position_accepted_tokens=window.positions,
        quantities=dict(_measured(window)),
        position_acceptance_ratio=tuple(_positions(window)),
        position_conditional_acceptance_ratio=tuple(_conditional(window)),
        latency_seconds={name: _histogram(name, buckets) for name, buckets in latencies.items()},
    )


def added(histograms: Sequence[Mapping[Latency, Buckets]]) -> dict[Latency, Buckets]:
    """Return the histograms of several engines as one, without those that differ in their buckets."""
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
    """Return the number of cosines for bounds; without drafts too."""
    return 0 if window.partial else cosines_of(window.seconds, counted_requests(window))


def _measured(window: Window) -> Iterator[tuple[str, MeasuredFigure]]:
    """Yield the figures that have a value, by their keys."""
    figures = WindowFigures(window)
    for figure in measured():
        value = figures.number(figure)
        if value is not None:
            yield figure.key, MeasuredFigure.of(value, _bounds(window, figure))


def _bounds(window: Window, figure: ScalarFigure) -> Estimate | None:
    """Return the bounds of a figure: its own if it has some, else those of the ratio of its terms."""
    if figure.bounds is not None:
        return figure.bounds(_Bounds(window))
    if figure.numerator is None or figure.denominator is None:
        return None
    return _estimate(window, figure.numerator, figure.denominator, figure.highest)


def _estimate(
    window: Window, numerator: Term, denominator: Term, highest: float, min_error: float = 0.0
) -> Estimate | None:
    increments = grouped(window)
    return ratio_estimate(
        numerator.column(window, increments),
        denominator.column(window, increments),
        _cosines(window),
        min_error=min_error,
        lowest=0.0,
        highest=highest,
    )


def _positions(window: Window) -> Iterator[MeasuredFigure | None]:
    for position, share in enumerate(positions.position_acceptance_ratios(window)):
        yield _share(window, share, PositionTerm(position), _DRAFTS, window[Counter.DRAFTS])


def _conditional(window: Window) -> Iterator[MeasuredFigure | None]:
    reached: tuple[int | None, ...] = (window[Counter.DRAFTS], *window.positions)
    for position, share in enumerate(positions.conditional_acceptance_ratios(window)):
        before = PositionTerm(position - 1) if position else _DRAFTS
        yield _share(window, share, PositionTerm(position), before, reached[position])


def _share(
    window: Window, share: float | None, numerator: Term, denominator: Term, trials: int | None
) -> MeasuredFigure | None:
    """Return a share of drafts with its bounds, at least as wide as those of independent drafts."""
    if share is None or not trials:
        return None
    alone = sqrt(max(0.0, share * (1 - share)) / trials)
    return MeasuredFigure.of(share, _estimate(window, numerator, denominator, 1.0, alone))


def _histogram(name: Latency, buckets: Buckets) -> MeasuredHistogram:
    quantiles = {key: _quantile(name, share, buckets) for key, share in LATENCY_QUANTILES}
    finite = tuple(bound for bound in buckets.bounds if bound < inf)
    return MeasuredHistogram(bounds=finite, counts=buckets.counts, **quantiles)


def _quantile(name: Latency, share: float, buckets: Buckets) -> MeasuredFigure | None:
    """Return a quantile with the edges of the buckets of its 95 % ranks as bounds.

    The ranks are n·q ± 1.96·√(n·q·(1 - q)), which only assumes that requests are independent (Conover,
    *Practical Nonparametric Statistics*, 3.2). Decode steps of a request are not: no bounds.
    """
    value = latency.quantile(share, buckets)
    if value is None:
        return None
    half = NORMAL_975 * sqrt(share * (1 - share) / buckets.counts[-1])
    edges = _bucket(share - half, buckets), _bucket(share + half, buckets)
    if name is Latency.DECODE_STEP or edges[0] is None or edges[1] is None:
        return MeasuredFigure(value=value)
    return MeasuredFigure(value=value, lower=min(value, edges[0][0]), upper=max(value, edges[1][1]))


def _bucket(share: float, buckets: Buckets) -> tuple[float, float] | None:
    """Return the edges of the bucket that holds a quantile; None without such a bucket or its end."""
    rank = share * buckets.counts[-1]
    place = next((place for place, count in enumerate(buckets.counts) if count >= rank), None)
    if place is None or not 0 <= share <= 1 or buckets.bounds[place] == inf:
        return None
    return (buckets.bounds[place - 1] if place else 0.0), buckets.bounds[place]
