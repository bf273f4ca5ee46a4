"""Time to first token and prefix-cache hits of an arm, which the time per output token does not include."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spec_decode_exporter.experiments.measure import added
from spec_decode_exporter.figures.latency import quantile
from spec_decode_exporter.figures.quantiles import ARM_QUANTILES
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import NANO, Window

Histograms = Mapping[Latency, Buckets]
"""Histograms of an engine; empty if the server has none."""


@dataclass(frozen=True, slots=True)
class ArmFirstToken:
    """Time to first token of an arm in seconds, and its prefix-cache hits; unknown values are None."""

    mean: float | None = None
    """Σ time to first token / F over the engines that have both."""
    p50: float | None = None
    """Interpolated within the server's buckets, of the requests of all engines."""
    p95: float | None = None
    prefix_hit_ratio: float | None = None
    """Hits over look-ups of prompt tokens, over the engines that have both."""


def arm_first_token(windows: Sequence[Window], histograms: Sequence[Histograms] = ()) -> ArmFirstToken:
    """Return the values of an arm by the windows and the histograms of its engines."""
    waited = _ratio(windows, Counter.FIRST_TOKEN_NANOSECONDS, Counter.FIRST_TOKENS)
    buckets = _buckets([each for each in histograms if each])
    return ArmFirstToken(
        mean=None if waited is None else waited / NANO,
        prefix_hit_ratio=_ratio(windows, Counter.PREFIX_CACHE_HITS, Counter.PREFIX_CACHE_QUERIES),
        **{} if buckets is None else {name: quantile(share, buckets) for name, share in ARM_QUANTILES},
    )


def _ratio(windows: Sequence[Window], numerator: Counter, denominator: Counter) -> float | None:
    pairs = ((window[numerator], window[denominator]) for window in windows)
    known = [(above, below) for above, below in pairs if above is not None and below is not None]
    return ratio(sum(above for above, _ in known), sum(below for _, below in known))


def _buckets(histograms: Sequence[Histograms]) -> Buckets | None:
    return added(histograms).get(Latency.TIME_TO_FIRST_TOKEN) if histograms else None
