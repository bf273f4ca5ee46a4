"""Measure an engine over one window: every figure with its 95 % bounds, if it has some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, sqrt

from spec_decode_exporter.analysis.figure_table import COMPARED, Figure, columns_of
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.figures.estimate import Estimate, estimate_of
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, edges, quantile
from spec_decode_exporter.figures.student_t import NORMAL_975
from spec_decode_exporter.reports.reference_document import MeasuredFigure, MeasuredHistogram, Measurement
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.history import position_columns


def measure(its: WindowEvaluation, latencies: Mapping[Latency, Buckets]) -> Measurement:
    """Return the measurement of a window and of the histograms over it."""
    return Measurement(
        seconds=its.window.seconds,
        polls=its.window.polls,
        counts={name: count for name, count in its.total._asdict().items() if count is not None},
        position_accepted_tokens=its.window.positions,
        quantities={
            figure.key: MeasuredFigure.of(value, _bounds(its, figure))
            for figure in COMPARED
            if (value := figure.of(its)) is not None
        },
        position_acceptance_ratio=tuple(_shares(its, its.positions.acceptance)),
        position_conditional_acceptance_ratio=tuple(_shares(its, its.positions.conditional, of_reached=True)),
        latency_seconds={name: _histogram(name, buckets) for name, buckets in latencies.items()},
    )


def _bounds(its: WindowEvaluation, figure: Figure) -> Estimate | None:
    """Return the bounds of a figure: its own if it has some, else those of the ratio of its sums."""
    if figure.bounds is not None:
        return figure.bounds(its)
    if figure.over is None:
        return None
    above, below = (columns_of(its.window, its.increments, name) for name in figure.over)
    return estimate_of(above, below, its.request_cosines, (0.0, figure.highest))


def _shares(
    its: WindowEvaluation, shares: Sequence[float | None], *, of_reached: bool = False
) -> Iterator[MeasuredFigure | None]:
    """Yield the share of drafts at each position, of all drafts or of those that reached the one before."""
    accepted = position_columns(its.increments, len(shares))
    (drafts,) = its.columns("drafts")
    for position, share in enumerate(shares):
        before = accepted[position - 1] if of_reached and position else drafts
        if share is None:
            yield None
        else:
            yield MeasuredFigure.of(share, its.share_bounds(share, accepted[position], before))


def _histogram(name: Latency, buckets: Buckets) -> MeasuredHistogram:
    quantiles = {key: _quantile(name, share, buckets) for key, share in LATENCY_QUANTILES}
    finite = tuple(bound for bound in buckets.bounds if bound < inf)
    return MeasuredHistogram(bounds=finite, counts=buckets.counts, **quantiles)


def _quantile(name: Latency, share: float, buckets: Buckets) -> MeasuredFigure | None:
    """Return a quantile with the edges of the buckets of its 95 % ranks as bounds.

    The ranks are n·q ± 1.96·√(n·q·(1 - q)), which only assumes that requests are independent (Conover,
    *Practical Nonparametric Statistics*, 3.2). Decode steps of a request are not: no bounds.
    """
    value = quantile(share, buckets)
    if value is None:
        return None
    half = NORMAL_975 * sqrt(share * (1 - share) / buckets.counts[-1])
    if name is Latency.DECODE_STEP or share < half or share + half > 1:
        return MeasuredFigure(value=value)
    low, high = edges(share - half, buckets), edges(share + half, buckets)
    if low is None or high is None or high.upper == inf:
        return MeasuredFigure(value=value)
    return MeasuredFigure(value=value, lower=min(value, low.lower), upper=max(value, high.upper))
