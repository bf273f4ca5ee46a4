"""The rows of the catalogue that say how sure a number is, whether speculation pays, and what dropped."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spec_decode_exporter.analysis import speedup
from spec_decode_exporter.analysis.evaluation import Bounds
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.metrics import economics_reads, reads
from spec_decode_exporter.metrics.metric import Metric, MetricKind
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot

_gauge: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.GAUGE)
_pay = partial(_gauge, group=Group.PAY)
_drop = partial(_gauge, group=Group.DROPS)

_LONG = "Over the longest window that the exporter keeps from its own polls."
_WINDOW = "Over a window that the exporter keeps from its own polls."
_SPECULATION = "vllm:spec_decode_num_drafts_total, vllm:spec_decode_num_draft_tokens_total"
_LENGTH = "vllm:spec_decode_num_accepted_tokens_total and vllm:spec_decode_num_drafts_total"
_RATE = "vllm:spec_decode_num_accepted_tokens_total and vllm:spec_decode_num_draft_tokens_total"
_TOKENS = "vllm:generation_tokens_total, vllm:time_to_first_token_seconds_count and vllm:inter_token_latency_seconds_count"
_POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def _bounds(
    name: str, group: Group, of_what: str, source: str, which: Callable[[Bounds], Estimate | None]
) -> tuple[Metric[EngineSnapshot], ...]:
    """Make the rows of both bounds of a metric."""
    sides: tuple[economics_reads.Side, ...] = ("lower", "upper")
    return tuple(
        _gauge(
            f"{name}_{side}",
            group=group,
            labels=("window",),
            help=f"The {side} 95 % bound of {of_what}. Absent where too few requests pass through the window to "
            f"say. {_WINDOW} From {source}.",
            read=economics_reads.bound(which, side),
        )
        for side in sides
    )


BOUND_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    *_bounds(
        "spec_decode_draft_acceptance_ratio",
        Group.ACCEPTANCE,
        "the acceptance rate",
        _RATE,
        lambda bounds: bounds.acceptance_ratio,
    ),
    *_bounds(
        "spec_decode_acceptance_length_tokens",
        Group.ACCEPTANCE,
        "the acceptance length",
        _LENGTH,
        lambda bounds: bounds.acceptance_length,
    ),
)

PAY_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _pay(
        "spec_decode_engine_info",
        help="How the engine speculates, as far as it is known, and where the method is known from; unknown is "
        "empty. Always 1. From the configuration, the label method of discovery, the arguments of the pod, or the "
        "server's /server_info; vllm: metrics do not say it.",
        labels=("method", "method_source", "draft_model"),
        read=economics_reads.engine_info,
    ),
    _pay(
        "spec_decode_configured_tokens",
        help="K, the number of tokens that the engine is configured to draft, where it is known. From the "
        f"configuration, else {_POSITIONS}.",
        read=economics_reads.configured_tokens,
    ),
    _pay(
        "spec_decode_draft_cost_ratio",
        help="What one more draft token costs, drafted and verified, in plain decode steps of the target, and "
        "where that is known from: configured, measured, or the default of the method. Measured from "
        "vllm:inter_token_latency_seconds_sum.",
        labels=("source",),
        read=economics_reads.draft_cost,
    ),
    _pay(
        "spec_decode_break_even_acceptance_ratio",
        help=f"The acceptance rate above which speculation pays at the assumed cost. {_LONG} From "
        f"{_SPECULATION} and vllm:inter_token_latency_seconds_count.",
        read=economics_reads.long_window_at_cost(speedup.break_even_acceptance_ratio),
    ),
    _pay(
        "spec_decode_crossover_running_requests",
        help=f"The load at which speculation stops paying, where the cost is known at several loads. {_LONG} "
        f"From {_TOKENS}, {_SPECULATION}.",
        read=economics_reads.of_evaluation(lambda evaluation: evaluation.crossover),
    ),
    _pay(
        "spec_decode_speedup_ceiling_ratio",
        help="The speed-up if drafting and verifying cost nothing: effective tokens per step, else the acceptance "
        f"length. {_WINDOW} From {_TOKENS}.",
        labels=("window",),
        read=reads.each_window(speedup.speedup_ceiling_ratio),
    ),
    _pay(
        "spec_decode_estimated_speedup_ratio",
        help="How much faster decoding is than without speculation, estimated at the assumed cost; below 1 it is "
        f"slower. Absent where the cost is unknown. {_WINDOW} From {_TOKENS}, {_SPECULATION}.",
        labels=("window",),
        read=economics_reads.each_window_at_cost(speedup.estimated_speedup_ratio),
    ),
    *_bounds(
        "spec_decode_estimated_speedup_ratio",
        Group.PAY,
        "the estimated speed-up at the assumed cost",
        _TOKENS,
        lambda bounds: bounds.speedup,
    ),
    _pay(
        "spec_decode_position_marginal_benefit_ratio",
        help="What drafting a position adds over what it costs; worth drafting while above 1. Absent where the "
        f"cost is unknown or nothing. {_LONG} From {_POSITIONS}.",
        labels=("window", "position"),
        # spec_decode_depth_speedup_ratio tells the same in a form that is easier to read: decision 6.
        default=False,
        read=economics_reads.marginal_benefits,
    ),
    _pay(
        "spec_decode_depth_speedup_ratio",
        help="Estimated speed-up if so many tokens were drafted, by what their positions accept now; extrapolated "
        f"beyond the positions that are drafted. A hypothesis to try. {_LONG} From {_POSITIONS}.",
        labels=("window", "tokens", "basis"),
        read=economics_reads.depth_speedups,
    ),
    _pay(
        "spec_decode_recommended_tokens",
        help="The smallest number of draft tokens that is as good as the best; 0 is no speculation. It follows a "
        f"change only after a whole long window. {_LONG} From {_POSITIONS}.",
        labels=("basis",),
        read=economics_reads.recommended_tokens,
    ),
    _pay(
        "spec_decode_state",
        help=f"What speculation on the engine does now: one of the series is 1. {_LONG} From "
        "vllm:spec_decode_num_drafts_total and vllm:num_requests_running.",
        labels=("state",),
        read=economics_reads.one_of(State, lambda evaluation: evaluation.state),
    ),
    _pay(
        "spec_decode_verdict",
        help=f"Whether speculation pays: one of the series is 1. {_LONG} From {_TOKENS}, {_SPECULATION}.",
        labels=("verdict",),
        read=economics_reads.one_of(Verdict, lambda evaluation: evaluation.verdict),
    ),
    _pay(
        "spec_decode_recommendation",
        help=f"What to do: one of the series is 1. {_LONG} From {_TOKENS}, {_SPECULATION}.",
        labels=("action",),
        read=economics_reads.one_of(Action, lambda evaluation: evaluation.action),
    ),
)

DROP_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _drop(
        "spec_decode_baseline_acceptance_length_tokens",
        help=f"The acceptance length that is usual for the engine, by about the last half hour of drafts; drops are judged by it. From {_LENGTH}.",
        read=economics_reads.of_drops(lambda drops: drops.baseline_length),
    ),
    _drop(
        "spec_decode_baseline_acceptance_length_tokens_stddev",
        help=f"Standard deviation of the acceptance length over 30 s around the baseline, by chance alone. From {_LENGTH}.",
        read=economics_reads.of_drops(lambda drops: drops.baseline_stddev),
    ),
    _drop(
        "spec_decode_acceptance_drop_sigma",
        help=f"How far the acceptance length of the last 20 to 25 s with drafts is below the baseline, in standard errors. From {_LENGTH}.",
        read=economics_reads.of_drops(lambda drops: drops.sigma),
    ),
    _drop(
        "spec_decode_acceptance_dropped",
        help=f"Whether acceptance is below its baseline: suddenly, or sinking slowly over hours. From {_LENGTH}.",
        labels=("kind",),
        read=economics_reads.dropped,
    ),
    Metric(
        "spec_decode_acceptance_drops_total",
        MetricKind.COUNTER,
        Group.DROPS,
        f"How often acceptance dropped, by kind. From {_LENGTH}.",
        economics_reads.drops_total,
        labels=("kind",),
    ),
    _drop(
        "spec_decode_reference_acceptance_ratio",
        help="The acceptance rate that the configuration holds the engine against, as from before a change. Absent "
        "where none is configured, or the engine drafts another number of tokens than the reference did. From the "
        "configuration, not from the engine.",
        read=lambda findings: [((), findings.reference_acceptance_ratio)],
    ),
)
