"""Metrics of an engine that are not figures: counters, sums of windows, histograms and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures import latency, table
from spec_decode_exporter.figures.poll_spread import Spread
from spec_decode_exporter.figures.window_figures import PERCENTILES, SPREAD_PERCENTILES, window_label
from spec_decode_exporter.metrics.economics_metrics import DROP_METRICS, PAY_METRICS
from spec_decode_exporter.metrics.figure_metrics import bound_metrics, figure_metrics
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Values
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.increments import Reset
from spec_decode_exporter.window.ledger import NANO, Window

ENGINE_LABELS = ("target", "model_name", "engine")
"""Labels of every metric of an engine, before the target's configured labels."""

_SPECULATION = (table.DRAFTS, table.DRAFT_TOKENS, table.ACCEPTED, table.POSITIONS)
_HISTOGRAMS = (
    "vllm:time_to_first_token_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
)
_SINCE = "since the exporter first saw the engine"

Read = Callable[[EngineSnapshot], Values]
Numbers = Iterator[tuple[tuple[str, ...], float | None]]

_counter: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.COUNTER)
_gauge: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.GAUGE)
_counts = partial(_counter, group=Group.COUNTERS)
_sum = partial(_gauge, group=Group.SUMS, labels=("window",))
_reported = partial(_gauge, group=Group.ACCEPTANCE)
_spread = partial(
    _gauge,
    group=Group.DISTRIBUTION,
    labels=("window",),
    default=False,
    source=(table.ACCEPTED, table.DRAFT_TOKENS),
)


def _total(counter: Counter, divisor: int = 1) -> Read:
    """Read a counter's total since the exporter first saw the engine."""

    def read(snapshot: EngineSnapshot) -> Values:
        count = snapshot.totals.counters[counter]
        return [((), count if divisor == 1 else count / divisor)]

    return read


def _poll_histogram(snapshot: EngineSnapshot) -> Numbers:
    """Read a histogram: its values have the sample's suffix and its upper bound in place of labels."""
    totals = snapshot.totals
    for bound, count in totals.poll_buckets:
        yield ("_bucket", bound), count
    yield ("_count", ""), totals.poll_buckets[-1][1]
    yield ("_sum", ""), totals.poll_sum


def _position_totals(snapshot: EngineSnapshot) -> Values:
    return [((str(position),), count) for position, count in enumerate(snapshot.totals.positions)]


def _window_sum(total: Callable[[Window], float | None]) -> Read:
    """Read a sum of every window."""
    return lambda snapshot: [((window_label(window),), total(window)) for window in snapshot.windows]


def _window_positions(snapshot: EngineSnapshot) -> Numbers:
    for window in snapshot.windows:
        for position, count in enumerate(window.positions):
            yield (window_label(window), str(position)), count


def _engine_reported(gauge: Gauge) -> Read:
    """Read a ratio that the engine itself reports, if it has no counters that can be used."""

    def read(snapshot: EngineSnapshot) -> Values:
        sample = snapshot.reported
        usable = sample is not None and sample[Counter.DRAFTS] is not None
        return [((), None if sample is None or usable else sample.gauge(gauge))]

    return read


def _latencies(snapshot: EngineSnapshot) -> Numbers:
    """Read the quantiles of every latency over the longest window."""
    for window in snapshot.windows[-1:]:
        for name, buckets in snapshot.latencies.items():
            for percentile, share in PERCENTILES:
                yield (window_label(window), str(name), percentile), latency.quantile(share, buckets)


def _spread_percentiles(snapshot: EngineSnapshot) -> Numbers:
    """Read the percentiles of the polls' acceptance rates."""
    for window in snapshot.figures:
        spread = window.spread()
        for percentile, share in SPREAD_PERCENTILES:
            yield (window.label, percentile), spread.percentile(share) if spread else None


def _of_spread(formula: Callable[[Spread], float]) -> Read:
    """Read a formula of the spread over polls, for every window."""

    def read(snapshot: EngineSnapshot) -> Numbers:
        for window in snapshot.figures:
            spread = window.spread()
            yield (window.label,), formula(spread) if spread else None

    return read


_COUNTER_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _counts(
        "spec_decode_drafts_total",
        help=f"Drafts {_SINCE}.",
        source=(table.DRAFTS,),
        read=_total(Counter.DRAFTS),
    ),
    _counts(
        "spec_decode_draft_tokens_total",
        help=f"Draft tokens {_SINCE}.",
        source=(table.DRAFT_TOKENS,),
        read=_total(Counter.DRAFT_TOKENS),
    ),
    _counts(
        "spec_decode_accepted_tokens_total",
        help=f"Accepted draft tokens {_SINCE}.",
        source=(table.ACCEPTED,),
        read=_total(Counter.ACCEPTED_TOKENS),
    ),
    _counts(
        "spec_decode_generation_tokens_total",
        help=f"Generated tokens {_SINCE}.",
        source=(table.GENERATED,),
        read=_total(Counter.GENERATION_TOKENS),
    ),
    _counts(
        "spec_decode_first_tokens_total",
        help=f"First tokens of requests, which no decode step gives, {_SINCE}.",
        source=(table.FIRST,),
        read=_total(Counter.FIRST_TOKENS),
    ),
    _counts(
        "spec_decode_decode_steps_total",
        help=f"Decode steps, counted once for each running request, {_SINCE}.",
        source=(table.STEPS,),
        read=_total(Counter.DECODE_STEPS),
    ),
    _counts(
        "spec_decode_decode_seconds_total",
        help=f"Seconds that requests spent in decode steps {_SINCE}.",
        source=(table.STEP_SECONDS,),
        read=_total(Counter.DECODE_NANOSECONDS, NANO),
    ),
    _counts(
        "spec_decode_covered_seconds_total",
        help=f"Seconds between successful polls, which the other counters cover, {_SINCE}.",
        read=lambda snapshot: [((), snapshot.totals.covered_seconds)],
    ),
    _counts(
        "spec_decode_position_accepted_tokens_total",
        help=f"Draft tokens accepted at each draft position {_SINCE}.",
        labels=("position",),
        source=(table.POSITIONS,),
        read=_position_totals,
    ),
    Metric(
        "spec_decode_poll_acceptance_ratio",
        MetricKind.HISTOGRAM,
        Group.COUNTERS,
        "Acceptance rate of each poll, weighted by draft tokens: _count is draft tokens, _sum accepted tokens.",
        _poll_histogram,
        source=(table.ACCEPTED, table.DRAFT_TOKENS),
    ),
)

_REPORTED_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _reported(
        "spec_decode_engine_reported_acceptance_ratio",
        help="Acceptance rate that the engine itself reports, if it has no usable counters.",
        source=("vllm:spec_decode_draft_acceptance_rate", "sglang:spec_accept_rate"),
        read=_engine_reported(Gauge.REPORTED_ACCEPTANCE_RATIO),
    ),
    _reported(
        "spec_decode_engine_reported_acceptance_length_tokens",
        help="Acceptance length that the engine itself reports, bonus token included, if it has no usable counters.",
        source=("sglang:spec_accept_length",),
        read=_engine_reported(Gauge.REPORTED_ACCEPTANCE_LENGTH),
    ),
)

_SUM_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _sum(
        "spec_decode_window_drafts",
        help="Drafts in the window.",
        source=(table.DRAFTS,),
        read=_window_sum(lambda window: window[Counter.DRAFTS]),
    ),
    _sum(
        "spec_decode_window_draft_tokens",
        help="Draft tokens in the window.",
        source=(table.DRAFT_TOKENS,),
        read=_window_sum(lambda window: window[Counter.DRAFT_TOKENS]),
    ),
    _sum(
        "spec_decode_window_accepted_tokens",
        help="Accepted draft tokens in the window.",
        source=(table.ACCEPTED,),
        read=_window_sum(lambda window: window[Counter.ACCEPTED_TOKENS]),
    ),
    _sum(
        "spec_decode_window_generation_tokens",
        help="Generated tokens in the window.",
        source=(table.GENERATED,),
        read=_window_sum(lambda window: window[Counter.GENERATION_TOKENS]),
    ),
    _sum(
        "spec_decode_window_first_tokens",
        help="First tokens of requests in the window.",
        source=(table.FIRST,),
        read=_window_sum(lambda window: window[Counter.FIRST_TOKENS]),
    ),
    _sum(
        "spec_decode_window_decode_steps",
        help="Decode steps in the window, counted once for each running request.",
        source=(table.STEPS,),
        read=_window_sum(lambda window: window[Counter.DECODE_STEPS]),
    ),
    _sum(
        "spec_decode_window_decode_seconds",
        help="Seconds that requests spent in decode steps in the window.",
        source=(table.STEP_SECONDS,),
        read=_window_sum(latency.decode_seconds),
    ),
    _sum(
        "spec_decode_window_seconds",
        help="Seconds that the window covers; less than its length after a start or an outage.",
        read=_window_sum(lambda window: window.seconds),
    ),
    _sum(
        "spec_decode_window_position_accepted_tokens",
        help="Draft tokens accepted at each draft position in the window.",
        labels=("window", "position"),
        default=False,
        source=(table.POSITIONS,),
        read=_window_positions,
    ),
)

_LATENCY_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _gauge(
        "spec_decode_latency_seconds",
        group=Group.LATENCY,
        labels=("window", "latency", "percentile"),
        help="Quantiles of the server's latency histograms over the longest window, in seconds.",
        source=_HISTOGRAMS,
        read=_latencies,
    ),
)

_SPREAD_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _spread(
        "spec_decode_interval_acceptance_ratio",
        help="Percentiles of the acceptance rates of the window's polls, weighted by draft tokens.",
        labels=("window", "percentile"),
        read=_spread_percentiles,
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
    _spread(
        "spec_decode_interval_acceptance_ratio_stddev",
        help="Standard deviation of the acceptance rates of the window's polls, weighted by draft tokens.",
        read=_of_spread(Spread.standard_deviation),
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
    *_COUNTER_METRICS,
    *figure_metrics(Group.ACCEPTANCE),
    *_REPORTED_METRICS,
    *figure_metrics(Group.RATES),
    *_SUM_METRICS,
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
