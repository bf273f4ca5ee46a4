"""Metrics of an engine: figures and counters, its own reports, latencies, spread over polls, checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures import latency, series
from spec_decode_exporter.figures.poll_spread import Spread
from spec_decode_exporter.figures.quantiles import LATENCY_QUANTILES, QUANTILE_LABEL, SPREAD_QUANTILES
from spec_decode_exporter.figures.window_figures import window_label
from spec_decode_exporter.metrics.counter_metrics import COUNTER_METRICS, SUM_METRICS
from spec_decode_exporter.metrics.economics_metrics import DROP_METRICS, PAY_METRICS
from spec_decode_exporter.metrics.figure_metrics import bound_metrics, figure_metrics
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Numbers, Read
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Gauge, Latency
from spec_decode_exporter.window.increments import Reset

ENGINE_LABELS = ("target", "model_name", "engine")
"""Labels of every metric of an engine, before the target's configured labels."""

_SPECULATION = (series.DRAFTS, series.DRAFT_TOKENS, series.ACCEPTED, series.POSITIONS)
_LATENCIES = (
    (
        "time_to_first_token",
        Latency.TIME_TO_FIRST_TOKEN,
        "time to first token over requests",
        "vllm:time_to_first_token_seconds",
    ),
    (
        "time_per_output_token",
        Latency.TIME_PER_OUTPUT_TOKEN,
        "time per output token after the first over requests",
        "vllm:request_time_per_output_token_seconds",
    ),
)
"""Quantity in the metric's name, histogram, its meaning and its source."""


_counter: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.COUNTER)
_gauge: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.GAUGE)
_reported = partial(_gauge, group=Group.ACCEPTANCE)
_spread = partial(
    _gauge,
    group=Group.DISTRIBUTION,
    labels=("window",),
    source=(series.ACCEPTED, series.DRAFT_TOKENS),
)


def _quantiles_of(name: Latency) -> Read[EngineSnapshot]:
    """Read the quantiles of a latency over the longest window."""

    def read(snapshot: EngineSnapshot) -> Numbers:
        buckets = snapshot.latencies.get(name)
        if buckets is None:
            return
        for window in snapshot.windows[-1:]:
            for quantile in LATENCY_QUANTILES:
                yield (window_label(window), quantile.label), latency.quantile(quantile.share, buckets)

    return read


def _spread_quantiles(snapshot: EngineSnapshot) -> Numbers:
    """Read the quantiles of the polls' acceptance rates."""
    for window in snapshot.figures:
        spread = window.spread()
        for quantile in SPREAD_QUANTILES:
            yield (window.label, quantile.label), spread.quantile(quantile.share) if spread else None


def _of_spread(formula: Callable[[Spread], float]) -> Read[EngineSnapshot]:
    """Read a formula of the spread over polls, for every window."""

    def read(snapshot: EngineSnapshot) -> Numbers:
        for window in snapshot.figures:
            spread = window.spread()
            yield (window.label,), formula(spread) if spread else None

    return read


_REPORTED_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _reported(
        "spec_decode_engine_reported_acceptance_ratio",
        help="Acceptance rate that the engine itself reports, if it has no usable counters.",
        source=("vllm:spec_decode_draft_acceptance_rate", "sglang:spec_accept_rate"),
        read=lambda snapshot: [((), snapshot.engine_reported(Gauge.REPORTED_ACCEPTANCE_RATIO))],
    ),
    _reported(
        "spec_decode_engine_reported_acceptance_length_tokens",
        help="Acceptance length that the engine itself reports, bonus token included, if it has no usable counters.",
        source=("sglang:spec_accept_length",),
        read=lambda snapshot: [((), snapshot.engine_reported(Gauge.REPORTED_ACCEPTANCE_LENGTH))],
    ),
)

_LATENCY_METRICS: tuple[Metric[EngineSnapshot], ...] = tuple(
    Metric(
        f"spec_decode_{quantity}_quantile_seconds",
        MetricKind.QUANTILES,
        Group.LATENCY,
        f"Quantiles of the {meaning} in the longest window, in seconds.",
        _quantiles_of(name),
        labels=("window", QUANTILE_LABEL),
        source=(source,),
    )
    for quantity, name, meaning, source in _LATENCIES
)

_SPREAD_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _spread(
        "spec_decode_interval_acceptance_quantile_ratio",
        kind=MetricKind.QUANTILES,
        help="Quantiles of the acceptance rates of the window's polls, weighted by draft tokens.",
        labels=("window", QUANTILE_LABEL),
        read=_spread_quantiles,
    ),
    _spread(
        "spec_decode_interval_acceptance_ratio_min",
        help="Lowest acceptance rate of a poll in the window.",
        read=_of_spread(lambda spread: spread.lowest),
    ),
    _spread(
        "spec_decode_interval_acceptance_ratio_max",
        help="Highest acceptance rate of a poll in the window.",
        read=_of_spread(lambda spread: spread.highest),
    ),
)

_INTEGRITY_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _gauge(
        "spec_decode_consistent",
        group=Group.INTEGRITY,
        labels=("check",),
        help="State of an identity of the server's counters: 1 holds, 0 was broken by two successive polls.",
        source=_SPECULATION,
        read=lambda snapshot: [((str(check),), float(check not in snapshot.broken)) for check in Check],
    ),
    _counter(
        "spec_decode_engine_resets_total",
        group=Group.INTEGRITY,
        labels=("cause",),
        help="Resets of the server's counters, by cause: restart, or decrease without a restart.",
        read=lambda snapshot: [((str(cause),), snapshot.totals.resets[cause]) for cause in Reset],
    ),
)

ENGINE_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    *COUNTER_METRICS,
    *figure_metrics(Group.ACCEPTANCE),
    *_REPORTED_METRICS,
    *figure_metrics(Group.RATES),
    *SUM_METRICS,
    *figure_metrics(Group.LATENCY),
    *_LATENCY_METRICS,
    *figure_metrics(Group.LOAD),
    *figure_metrics(Group.DISTRIBUTION),
    *_SPREAD_METRICS,
    *bound_metrics(Group.ACCEPTANCE),
    *PAY_METRICS,
    *DROP_METRICS,
    *_INTEGRITY_METRICS,
)
