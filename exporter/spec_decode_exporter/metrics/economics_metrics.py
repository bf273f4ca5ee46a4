"""Metrics that say whether speculation pays, at which cost, and whether acceptance dropped."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.depth import Depth
from spec_decode_exporter.drops.drop import DropStatus
from spec_decode_exporter.analysis.end_to_end import EndToEnd
from spec_decode_exporter.analysis.evaluation_result import Evaluation
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.findings.schedule_conditions import schedule_changes
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures import series
from spec_decode_exporter.figures.window_figures import window_label
from spec_decode_exporter.metrics.figure_metrics import bound_metrics, figure_metrics
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Numbers, Read, Values
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot

_DECODING = (series.GENERATED, series.FIRST, series.STEPS)
_ECONOMICS = (*_DECODING, series.DRAFTS, series.DRAFT_TOKENS)
_COST = ("configuration", series.STEP_SECONDS, "typical cost of the method")
_LENGTH = (series.ACCEPTED, series.DRAFTS)
_RUNNING = "vllm:num_requests_running"


_gauge: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.GAUGE)
_pay = partial(_gauge, group=Group.PAY)
_drop = partial(_gauge, group=Group.DROPS, source=_LENGTH)


def _of_evaluation(value: Callable[[Evaluation], float | None]) -> Read[EngineSnapshot]:
    """Read a number of the evaluation."""
    return lambda snapshot: [((), value(snapshot.evaluation))]


def _one_of(members: type[StrEnum], value: Callable[[Evaluation], StrEnum]) -> Read[EngineSnapshot]:
    """Read a state set: a series for each member, of which one is 1."""
    return lambda snapshot: [
        ((str(member),), float(member == value(snapshot.evaluation))) for member in members
    ]


def _engine_info(snapshot: EngineSnapshot) -> Values:
    known = snapshot.speculation
    return [((known.method, known.source, known.draft_model), 1.0)]


def _of_cost(value: Callable[[Cost], float]) -> Read[EngineSnapshot]:
    """Read a number of the cost in the longest window."""

    def read(snapshot: EngineSnapshot) -> Values:
        cost = snapshot.evaluation.cost
        return [] if cost is None else [((str(cost.source),), value(cost))]

    return read


def _of_requests(value: Callable[[EndToEnd], float | None]) -> Read[EngineSnapshot]:
    """Read a number of the speed-up of whole requests in the longest window."""

    def read(snapshot: EngineSnapshot) -> Numbers:
        request = snapshot.evaluation.request
        for window in snapshot.windows[-1:]:
            if request is not None:
                yield (window_label(window), str(request.basis)), value(request)

    return read


def _depth_speedups(snapshot: EngineSnapshot) -> Numbers:
    for window in snapshot.windows[-1:]:
        for depth in snapshot.evaluation.depths:
            yield (window_label(window), str(depth.tokens), _basis(depth)), depth.speedup


def _marginal_benefits(snapshot: EngineSnapshot) -> Numbers:
    for window in snapshot.windows[-1:]:
        for position, benefit in enumerate(snapshot.evaluation.marginal_benefits):
            yield (window_label(window), str(position)), benefit


def _recommended_tokens(snapshot: EngineSnapshot) -> Values:
    depth = snapshot.evaluation.recommended
    return [] if depth is None else [((_basis(depth),), depth.tokens)]


def _basis(depth: Depth) -> str:
    return "extrapolated" if depth.extrapolated else "measured"


def _schedule_changes(snapshot: EngineSnapshot) -> Numbers:
    for window in snapshot.windows[-1:]:
        found = schedule_changes(window, snapshot.speculation)
        if found is not None:
            yield (window_label(window),), found.ratio


def _of_drops(value: Callable[[DropStatus], float | None]) -> Read[EngineSnapshot]:
    """Read a number of the drop detection."""
    return lambda snapshot: [((), value(snapshot.drops))]


def _dropped(snapshot: EngineSnapshot) -> Values:
    return [((str(kind),), float(is_below)) for kind, is_below in snapshot.drops.dropped.items()]


def _drops_total(snapshot: EngineSnapshot) -> Values:
    return [((str(kind),), count) for kind, count in snapshot.drops.drops.items()]


_INPUTS: tuple[Metric[EngineSnapshot], ...] = (
    _pay(
        "spec_decode_engine_info",
        help="Method of speculation, source of this information, and draft model; empty if unknown; always 1.",
        labels=("method", "method_source", "draft_model"),
        source=("configuration", "discovery label", "pod arguments", "/server_info"),
        read=_engine_info,
    ),
    _pay(
        "spec_decode_configured_tokens",
        help="K, the number of tokens that the engine is configured to draft.",
        source=("configuration", series.POSITIONS),
        read=lambda snapshot: [((), snapshot.tokens or None)],
    ),
    _pay(
        "spec_decode_draft_cost_ratio",
        help="Cost of one more draft token in plain decode steps of the target model, by source of the cost.",
        labels=("source",),
        source=_COST,
        read=_of_cost(lambda cost: cost.draft_cost_ratio),
    ),
    _pay(
        "spec_decode_draft_cost_ratio_lower",
        help="Lowest possible spec_decode_draft_cost_ratio at the present load; the bounds of the speed-up allow for it.",
        labels=("source",),
        source=_COST,
        read=_of_cost(lambda cost: cost.low.draft_cost_ratio),
    ),
    _pay(
        "spec_decode_draft_cost_ratio_upper",
        help="Highest possible spec_decode_draft_cost_ratio at the present load; the bounds of the speed-up allow for it.",
        labels=("source",),
        source=_COST,
        read=_of_cost(lambda cost: cost.high.draft_cost_ratio),
    ),
)

_CROSSOVER: Metric[EngineSnapshot] = _pay(
    "spec_decode_crossover_running_requests",
    help="Running requests above which speculation stops paying, by the evaluated window.",
    source=_ECONOMICS,
    read=_of_evaluation(lambda evaluation: evaluation.crossover),
)

_REQUESTS: tuple[Metric[EngineSnapshot], ...] = tuple(
    _pay(
        f"spec_decode_end_to_end_speedup_ratio{suffix}",
        help=text,
        labels=("window", "basis"),
        source=(*_ECONOMICS, series.STEP_SECONDS, series.FIRST_SECONDS),
        read=_of_requests(value),
    )
    for suffix, text, value in (
        (
            "",
            "Speed of whole requests relative to no speculation in the window, by source of its time to first token.",
            lambda request: request.value,
        ),
        (
            "_lower",
            "The lower 95 % bound of spec_decode_end_to_end_speedup_ratio in the window.",
            lambda request: None if request.bounds is None else request.bounds.lower,
        ),
        (
            "_upper",
            "The upper 95 % bound of spec_decode_end_to_end_speedup_ratio in the window.",
            lambda request: None if request.bounds is None else request.bounds.upper,
        ),
    )
)

_SCHEDULE: Metric[EngineSnapshot] = _pay(
    "spec_decode_schedule_change_ratio",
    help="Share of the polls in the window in which the schedule changed the number of draft tokens.",
    labels=("window",),
    source=(series.STEPS, series.DRAFTS, series.DRAFT_TOKENS),
    read=_schedule_changes,
)

_ADVICE: tuple[Metric[EngineSnapshot], ...] = (
    _pay(
        "spec_decode_position_marginal_benefit_ratio",
        help="Benefit of drafting a position over its cost, by the evaluated window; worth drafting above 1.",
        labels=("window", "position"),
        source=(series.POSITIONS,),
        read=_marginal_benefits,
    ),
    _pay(
        "spec_decode_depth_speedup_ratio",
        help="Estimated speed-up with this number of draft tokens, by the acceptance in the evaluated window.",
        labels=("window", "tokens", "basis"),
        source=(series.POSITIONS,),
        read=_depth_speedups,
    ),
    _pay(
        "spec_decode_recommended_tokens",
        help="Smallest number of draft tokens that is as good as the best, by the evaluated window; 0: no speculation.",
        labels=("basis",),
        source=(series.POSITIONS,),
        read=_recommended_tokens,
    ),
    _pay(
        "spec_decode_state",
        help="State of speculation in the longest window: 1 for the present state, 0 for the others.",
        labels=("state",),
        source=(series.DRAFTS, _RUNNING),
        read=_one_of(State, lambda evaluation: evaluation.state),
    ),
    _pay(
        "spec_decode_verdict",
        help="Verdict on speculation in the evaluated window: 1 for the present verdict, 0 for the others.",
        labels=("verdict",),
        source=_ECONOMICS,
        read=_one_of(Verdict, lambda evaluation: evaluation.verdict),
    ),
    _pay(
        "spec_decode_recommendation",
        help="Recommended action by the evaluated window: 1 for this action, 0 for the others.",
        labels=("action",),
        source=_ECONOMICS,
        read=_one_of(Action, lambda evaluation: evaluation.action),
    ),
)


def _pay_figures() -> tuple[Metric[EngineSnapshot], ...]:
    """Return the metrics of the figures: those of the longest window first, those with bounds last."""
    plain = figure_metrics(Group.PAY, bounded=False)
    return (
        *(metric for metric in plain if not metric.labels),
        _CROSSOVER,
        *(metric for metric in plain if metric.labels),
        *figure_metrics(Group.PAY, bounded=True),
        *bound_metrics(Group.PAY),
    )


PAY_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    *_INPUTS,
    *_pay_figures(),
    *_REQUESTS,
    _SCHEDULE,
    *_ADVICE,
)

DROP_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _drop(
        "spec_decode_baseline_acceptance_length_tokens",
        help="Baseline of the acceptance length in tokens, learned from about the last half hour of drafts.",
        read=_of_drops(lambda drops: drops.baseline_length),
    ),
    _drop(
        "spec_decode_baseline_acceptance_length_tokens_stddev",
        help="Standard deviation of the acceptance length over 30 s around the baseline, by chance alone.",
        read=_of_drops(lambda drops: drops.baseline_stddev),
    ),
    _drop(
        "spec_decode_acceptance_dropped",
        help="State of acceptance, by kind of drop: 1 is below its baseline, suddenly or slowly over hours.",
        labels=("kind",),
        read=_dropped,
    ),
    Metric(
        "spec_decode_acceptance_drops_total",
        MetricKind.COUNTER,
        Group.DROPS,
        "Drops of acceptance, by kind.",
        _drops_total,
        labels=("kind",),
        source=_LENGTH,
    ),
    _drop(
        "spec_decode_reference_acceptance_ratio",
        help="Configured acceptance rate that the engine is compared with, at the same number of draft tokens.",
        source=("configuration",),
        read=lambda snapshot: [((), snapshot.reference_acceptance_ratio)],
    ),
)
