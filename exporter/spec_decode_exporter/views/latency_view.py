"""Documents of the latencies beside those of a baseline without speculation, with their texts."""

from __future__ import annotations

from math import inf
from typing import Annotated, Final

from pydantic import Field

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.latency_comparison import Incomparable
from spec_decode_exporter.core.number_formats import duration, within
from spec_decode_exporter.figures.quantile import (
    Edges,
    Quantile,
    QuantileRatio,
    edges,
    needed_observations,
    quantile,
)
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.views.document import Unlimited, View, at

_REASONS: Final = {
    Incomparable.OTHER_BUCKETS: "the server has other buckets now",
    Incomparable.WIDE_BUCKETS: "the server's buckets are too wide",
}
"""Reasons against one ratio, short enough for a cell; else there are too few requests."""


# fmt: off
class ComparedQuantileView(View):
    """A quantile of the baseline, and the ratio of the present one to it."""

    baseline_seconds: float | None = at("Interpolated quantile of the baseline.")
    ratio: float | None = at("Present quantile over that of the baseline, both interpolated; below 1 is faster.", default=None)
    lower: float | None = at("Lower 95 % bound of the ratio, as buckets and requests allow.", default=None)
    upper: Unlimited = at("Upper 95 % bound; null without a limit, if the baseline's quantile is in the first bucket.", default=None)
    reason: Incomparable | None = at("Reason why there is no ratio.", default=None)
    text: str = at("The ratio with its bounds, or the reason against it.")
    quantiles: Annotated[tuple[str, str], Field(exclude=True)]
    """Both quantiles as texts: the present one, and that of the baseline."""


class LatencyComparisonView(View):
    """Quantiles of latencies beside those of the newest baseline without speculation."""

    baseline: str = at("Name of the baseline in a sentence.", "baseline.name")
    reason: Incomparable | None = at("Reason against all ratios; null if the baseline is comparable.")
    text: str = at("This reason in a sentence; empty without one.")
    latencies: dict[Latency, dict[str, ComparedQuantileView]] = at("By latency and quantile (`p50`, `p95`, `p99`); empty with a reason against all.")
# fmt: on


def latency_comparison_view(evaluation: Evaluation) -> LatencyComparisonView | None:
    """Return the document of a comparison; None without one."""
    found = evaluation.latency_comparison
    if found is None:
        return None
    latencies = {
        latency: {
            each.name: _view(each, its, evaluation.latencies[latency], found.baseline.histograms[latency])
            for each, its in quantiles.items()
        }
        for latency, quantiles in found.latencies.items()
    }
    text = f"Not comparable with the {found.reason} of that time." if found.reason else ""
    return LatencyComparisonView.of(found, text=text, latencies=latencies)


def _view(each: Quantile, found: QuantileRatio | Incomparable, *histograms: Buckets) -> ComparedQuantileView:
    texts = [quantile_text(quantile(each.share, its), edges(each.share, its)) for its in histograms]
    more: dict[str, object] = {"baseline_seconds": quantile(each.share, histograms[-1]), "quantiles": texts}
    if isinstance(found, Incomparable):
        text = _REASONS.get(found, f"needs {needed_observations(each.share)} requests")
        return ComparedQuantileView(**more, text=text, reason=found)
    return ComparedQuantileView(**more, **found.bounds._asdict(), text=ratio_text(found), ratio=found.value)


def quantile_text(value: float | None, bucket: Edges | None) -> str:
    """Write an interpolated quantile in seconds; the edges of its bucket if they are far apart."""
    if value is None or bucket is None or not bucket.are_far_apart:
        return duration(value)
    in_seconds = (bucket.lower if bucket.upper == inf else bucket.upper) >= 1
    return within(*bucket, *((1.0, "s") if in_seconds else (1e-3, "ms")))


def ratio_text(its: QuantileRatio) -> str:
    """Write a ratio with its bounds; the bounds alone if they are far apart, since the buckets are wide."""
    low, high = its.bounds
    if not low or high == inf:
        return f"at least {_factor(low)}" if low else f"at most {_factor(high)}"
    bounds = f"{_factor(low)} to {_factor(high)}"
    return bounds if its.bounds.are_far_apart else f"{its.value:.2f} ({bounds})"


def _factor(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
