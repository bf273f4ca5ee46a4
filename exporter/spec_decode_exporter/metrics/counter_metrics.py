"""Metrics of an engine's counters: totals since the exporter first saw it, and sums of windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures import latency, series
from spec_decode_exporter.figures.window_figures import window_label
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Numbers, Read, Values
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import NANO, Window

_SINCE = "since the exporter first saw the engine"


_counts: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.COUNTER, group=Group.COUNTERS)
_sum: partial[Metric[EngineSnapshot]] = partial(
    Metric, kind=MetricKind.GAUGE, group=Group.SUMS, labels=("window",)
)


def _total(counter: Counter, divisor: int = 1) -> Read[EngineSnapshot]:
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


def _window_sum(total: Callable[[Window], float | None]) -> Read[EngineSnapshot]:
    """Read a sum of every window."""
    return lambda snapshot: [((window_label(window),), total(window)) for window in snapshot.windows]


COUNTER_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _counts(
        "spec_decode_drafts_total",
        help=f"Drafts {_SINCE}.",
        source=(series.DRAFTS,),
        read=_total(Counter.DRAFTS),
    ),
    _counts(
        "spec_decode_draft_tokens_total",
        help=f"Draft tokens {_SINCE}.",
        source=(series.DRAFT_TOKENS,),
        read=_total(Counter.DRAFT_TOKENS),
    ),
    _counts(
        "spec_decode_accepted_tokens_total",
        help=f"Accepted draft tokens {_SINCE}.",
        source=(series.ACCEPTED,),
        read=_total(Counter.ACCEPTED_TOKENS),
    ),
    _counts(
        "spec_decode_generation_tokens_total",
        help=f"Generated tokens {_SINCE}.",
        source=(series.GENERATED,),
        read=_total(Counter.GENERATION_TOKENS),
    ),
    _counts(
        "spec_decode_first_tokens_total",
        help=f"First tokens of requests, which no decode step gives, {_SINCE}.",
        source=(series.FIRST,),
        read=_total(Counter.FIRST_TOKENS),
    ),
    _counts(
        "spec_decode_decode_steps_total",
        help=f"Decode steps, counted once for each running request, {_SINCE}.",
        source=(series.STEPS,),
        read=_total(Counter.DECODE_STEPS),
    ),
    _counts(
        "spec_decode_decode_seconds_total",
        help=f"Seconds that requests spent in decode steps {_SINCE}.",
        source=(series.STEP_SECONDS,),
        read=_total(Counter.DECODE_NANOSECONDS, NANO),
    ),
    _counts(
        "spec_decode_position_accepted_tokens_total",
        help=f"Draft tokens accepted at each draft position {_SINCE}.",
        labels=("position",),
        source=(series.POSITIONS,),
        read=_position_totals,
    ),
    Metric(
        "spec_decode_poll_acceptance_ratio",
        MetricKind.HISTOGRAM,
        Group.COUNTERS,
        "Acceptance rate of each poll, weighted by draft tokens: _count is draft tokens, _sum accepted tokens.",
        _poll_histogram,
        source=(series.ACCEPTED, series.DRAFT_TOKENS),
    ),
)

SUM_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _sum(
        "spec_decode_window_draft_tokens",
        help="Draft tokens in the window.",
        source=(series.DRAFT_TOKENS,),
        read=_window_sum(lambda window: window[Counter.DRAFT_TOKENS]),
    ),
    _sum(
        "spec_decode_window_accepted_tokens",
        help="Accepted draft tokens in the window.",
        source=(series.ACCEPTED,),
        read=_window_sum(lambda window: window[Counter.ACCEPTED_TOKENS]),
    ),
    _sum(
        "spec_decode_window_decode_seconds",
        help="Seconds that requests spent in decode steps in the window.",
        source=(series.STEP_SECONDS,),
        read=_window_sum(latency.decode_seconds),
    ),
    _sum(
        "spec_decode_window_seconds",
        help="Seconds that the window covers; less than its length after a start or an outage.",
        read=_window_sum(lambda window: window.seconds),
    ),
)
