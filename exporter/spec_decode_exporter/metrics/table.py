"""Metric table: ONE row for each metric of an engine besides its figures."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Final

from spec_decode_exporter.analysis.end_to_end import EndToEnd
from spec_decode_exporter.analysis.figure_table import EACH, FIGURES, FULL, LONGEST, MINIMAL, STANDARD
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.figures.window_figures import seconds
from spec_decode_exporter.figures.quantile import quantile
from spec_decode_exporter.metrics.metric import Metric, Numbers, figure_metrics
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.window.poll import Check, Reset
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.scrape.page.engine_table import Gauge, Latency

_TENTHS: Final = (*(str(tenth / 10) for tenth in range(1, 11)), "+Inf")
_LATENCY_QUANTILES: Final = (0.5, 0.95, 0.99)
_SPREAD_QUANTILES: Final = (0.1, 0.5, 0.9)

_total = partial(Metric, group=Group.COUNTERS, kind="counter")
_sum = partial(Metric, group=Group.SUMS, windows=EACH)
_pay = partial(Metric, group=Group.PAY)
_spread = partial(Metric, FULL, Group.DISTRIBUTION, windows=EACH)


def _one_of(members: type[StrEnum], present: StrEnum) -> Numbers:
    """Return a state set: a number for each member, of which one is 1."""
    return [(str(member), float(member == present)) for member in members]


def _poll_histogram(engine: EngineSnapshot) -> Numbers:
    """Return a histogram: its numbers have the sample's suffix and its upper bound as label values."""
    counts = engine.totals.poll_buckets
    buckets = [(("_bucket", bound), count) for bound, count in zip(_TENTHS, counts, strict=True)]
    return [*buckets, (("_count", ""), counts[-1]), (("_sum", ""), engine.totals.counters.accepted_tokens)]


def _engine_reported(engine: EngineSnapshot, gauge: Gauge) -> float | None:
    """Return a ratio that the engine itself reports, if it has no counters that can be used."""
    sample = engine.reported
    return None if sample is None or sample.counters[0] is not None else sample.gauge(gauge)


def _latency(latency: Latency) -> Callable[[EngineSnapshot], Numbers]:
    """Return the reader of a latency's quantiles over the longest window."""

    def read(engine: EngineSnapshot) -> Numbers:
        buckets = engine.evaluation.latencies.get(latency)
        label = engine.evaluation.longest.label if buckets else ""
        shares = _LATENCY_QUANTILES if buckets else ()
        return [((label, f"{share:g}"), quantile(share, buckets)) for share in shares if buckets]

    return read


def _request(value: Callable[[EndToEnd], float | None]) -> Callable[[WindowEvaluation], Numbers]:
    """Return the reader of a number of the speed-up of whole requests."""
    return lambda its: [(str(its.request.basis), value(its.request))] if its.request else []


def _cost(side: str) -> Callable[[EngineSnapshot], Numbers]:
    """Return the reader of one possible cost of a draft token, in the longest window."""
    return lambda engine: [
        (str(its.cost.source), getattr(its.cost.token, side))
        for its in engine.evaluation.windows[-1:]
        if its.cost
    ]


def _depth_speedups(engine: EngineSnapshot) -> Numbers:
    its = engine.evaluation
    return [((its.longest.label, str(depth.tokens), depth.basis), depth.speedup) for depth in its.depths]


def _marginal_benefits(engine: EngineSnapshot) -> Numbers:
    its = engine.evaluation
    return [
        ((its.longest.label, str(position)), depth.marginal_benefit)
        for position, depth in enumerate(its.depths)
    ]


def _recommended(engine: EngineSnapshot) -> Numbers:
    depth = engine.evaluation.recommended
    return [] if depth is None else [(depth.basis, depth.tokens)]


def _schedule_changes(its: WindowEvaluation) -> float | None:
    """Return the share of polls with a change of K, of a schedule whose method drafts in every step."""
    speculation = its.known.speculation
    drafts_always = speculation.method and not its.known.drafts_what_it_finds
    return its.schedule_change_ratio if len(speculation.schedule.firsts) > 1 and drafts_always else None


# fmt: off
_SINCE: Final = "since the exporter first saw the engine."
METRICS: Final[tuple[Metric, ...]] = (
    _total(MINIMAL, name="spec_decode_drafts_total", help=f"Drafts {_SINCE}", read=lambda engine: engine.totals.counters.drafts),
    _total(MINIMAL, name="spec_decode_draft_tokens_total", help=f"Draft tokens {_SINCE}", read=lambda engine: engine.totals.counters.draft_tokens),
    _total(MINIMAL, name="spec_decode_accepted_tokens_total", help=f"Accepted draft tokens {_SINCE}", read=lambda engine: engine.totals.counters.accepted_tokens),
    _total(MINIMAL, name="spec_decode_generation_tokens_total", help=f"Generated tokens {_SINCE}", read=lambda engine: engine.totals.counters.generation_tokens),
    _total(STANDARD, name="spec_decode_first_tokens_total", help=f"First tokens of requests, which no decode step gives, {_SINCE}", read=lambda engine: engine.totals.counters.first_tokens),
    _total(STANDARD, name="spec_decode_decode_steps_total", help=f"Decode steps, counted once for each running request, {_SINCE}", read=lambda engine: engine.totals.counters.decode_steps),
    _total(STANDARD, name="spec_decode_decode_seconds_total", help=f"Seconds that requests spent in decode steps {_SINCE}", read=lambda engine: seconds(engine.totals.counters.decode_nanoseconds)),
    _total(FULL, name="spec_decode_first_token_seconds_total", help=f"Seconds that requests waited for their first token, in the queue too, {_SINCE}", read=lambda engine: seconds(engine.totals.counters.first_token_nanoseconds)),
    _total(FULL, name="spec_decode_covered_seconds_total", help=f"Seconds between successful polls, which the other counters cover, {_SINCE}", read=lambda engine: engine.totals.covered_seconds),
    _total(STANDARD, name="spec_decode_position_accepted_tokens_total", help=f"Draft tokens accepted at each draft position {_SINCE}", read=lambda engine: [(str(position), count) for position, count in enumerate(engine.totals.positions)], labels=("position",)),
    Metric(STANDARD, Group.COUNTERS, "spec_decode_poll_acceptance_ratio", "Acceptance rate of each poll, weighted by draft tokens: _count is draft tokens, _sum accepted tokens.", _poll_histogram, ("le",), kind="histogram"),
    *figure_metrics(FIGURES),
    Metric(FULL, Group.ACCEPTANCE, "spec_decode_engine_reported_acceptance_ratio", "Acceptance rate that the engine itself reports, if it has no usable counters.", lambda engine: _engine_reported(engine, Gauge.REPORTED_ACCEPTANCE_RATIO)),
    Metric(FULL, Group.ACCEPTANCE, "spec_decode_engine_reported_acceptance_length_tokens", "Acceptance length that the engine itself reports, bonus token included, if it has no usable counters.", lambda engine: _engine_reported(engine, Gauge.REPORTED_ACCEPTANCE_LENGTH)),
    _sum(FULL, name="spec_decode_window_drafts", help="Drafts in the window.", read=lambda its: its.total.drafts),
    _sum(STANDARD, name="spec_decode_window_draft_tokens", help="Draft tokens in the window.", read=lambda its: its.total.draft_tokens),
    _sum(STANDARD, name="spec_decode_window_accepted_tokens", help="Accepted draft tokens in the window.", read=lambda its: its.total.accepted_tokens),
    _sum(FULL, name="spec_decode_window_generation_tokens", help="Generated tokens in the window.", read=lambda its: its.total.generation_tokens),
    _sum(FULL, name="spec_decode_window_first_tokens", help="First tokens of requests in the window.", read=lambda its: its.total.first_tokens),
    _sum(FULL, name="spec_decode_window_decode_steps", help="Decode steps in the window, counted once for each running request.", read=lambda its: its.total.decode_steps),
    _sum(STANDARD, name="spec_decode_window_decode_seconds", help="Seconds that requests spent in decode steps in the window.", read=lambda its: seconds(its.total.decode_nanoseconds), reduced=LONGEST),
    _sum(MINIMAL, name="spec_decode_window_seconds", help="Seconds that the window covers; less than its length after a start or an outage.", read=lambda its: its.window.seconds),
    _sum(FULL, name="spec_decode_window_position_accepted_tokens", help="Draft tokens accepted at each draft position in the window.", read=lambda its: [(str(position), count) for position, count in enumerate(its.window.positions)], labels=("position",)),
    *(
        Metric(profile, Group.LATENCY, f"spec_decode_{quantity}_quantile_seconds", f"Quantiles of the {meaning} in the longest window, in seconds.", _latency(latency), ("window", "quantile"), kind="unknown")
        for profile, quantity, latency, meaning in (
            (STANDARD, "time_to_first_token", Latency.TIME_TO_FIRST_TOKEN, "time to first token over requests"),
            (STANDARD, "time_per_output_token", Latency.TIME_PER_OUTPUT_TOKEN, "time per output token after the first over requests"),
            (FULL, "step", Latency.DECODE_STEP, "time of a decode step over steps"),
            (FULL, "end_to_end", Latency.END_TO_END, "time from arrival to the last token over requests"),
            (FULL, "queue_time", Latency.QUEUE, "time in the queue over requests"),
        )
    ),
    _spread(name="spec_decode_interval_acceptance_quantile_ratio", help="Quantiles of the acceptance rates of the window's polls, weighted by draft tokens.", read=lambda its: [(f"{share:g}", its.poll_rate_quantile(share)) for share in _SPREAD_QUANTILES], labels=("quantile",), kind="unknown"),
    _spread(name="spec_decode_interval_acceptance_ratio_min", help="Lowest acceptance rate of a poll in the window.", read=lambda its: its.poll_rates[0][0] if its.poll_rates else None),
    _spread(name="spec_decode_interval_acceptance_ratio_max", help="Highest acceptance rate of a poll in the window.", read=lambda its: its.poll_rates[-1][0] if its.poll_rates else None),
    _pay(MINIMAL, name="spec_decode_engine_info", help="Method of speculation, source of this information, and draft model; empty if unknown; always 1.", read=lambda engine: [((its.method, its.source, its.draft_model), 1.0) for its in [engine.evaluation.known.speculation]], labels=("method", "method_source", "draft_model")),
    _pay(MINIMAL, name="spec_decode_configured_tokens", help="K, the number of tokens that the engine is configured to draft.", read=lambda engine: engine.tokens or None),
    _pay(MINIMAL, name="spec_decode_draft_cost_ratio", help="Cost of one more draft token in plain decode steps of the target model, by source of the cost.", read=_cost("guess"), labels=("source",)),
    _pay(STANDARD, name="spec_decode_draft_cost_ratio_lower", help="Lowest possible spec_decode_draft_cost_ratio at the present load; the bounds of the speed-up allow for it.", read=_cost("low"), labels=("source",)),
    _pay(STANDARD, name="spec_decode_draft_cost_ratio_upper", help="Highest possible spec_decode_draft_cost_ratio at the present load; the bounds of the speed-up allow for it.", read=_cost("high"), labels=("source",)),
    _pay(STANDARD, name="spec_decode_crossover_running_requests", help="Running requests above which speculation stops paying, by the evaluated window.", read=lambda engine: engine.evaluation.crossover),
    _pay(MINIMAL, name="spec_decode_end_to_end_speedup_ratio", help="Speed of whole requests relative to no speculation in the window, by source of its time to first token.", read=_request(lambda its: its.value), labels=("basis",), windows=LONGEST),
    _pay(FULL, name="spec_decode_end_to_end_speedup_ratio_lower", help="The lower 95 % bound of spec_decode_end_to_end_speedup_ratio in the window.", read=_request(lambda its: its.bounds and its.bounds.lower), labels=("basis",), windows=LONGEST),
    _pay(FULL, name="spec_decode_end_to_end_speedup_ratio_upper", help="The upper 95 % bound of spec_decode_end_to_end_speedup_ratio in the window.", read=_request(lambda its: its.bounds and its.bounds.upper), labels=("basis",), windows=LONGEST),
    _pay(STANDARD, name="spec_decode_schedule_change_ratio", help="Share of the polls in the window in which the schedule changed the number of draft tokens.", read=_schedule_changes, windows=LONGEST),
    _pay(FULL, name="spec_decode_position_marginal_benefit_ratio", help="Benefit of drafting a position over its cost, by the evaluated window; worth drafting above 1.", read=_marginal_benefits, labels=("window", "position")),
    _pay(STANDARD, name="spec_decode_depth_speedup_ratio", help="Estimated speed-up with this number of draft tokens, by the acceptance in the evaluated window.", read=_depth_speedups, labels=("window", "tokens", "basis")),
    _pay(MINIMAL, name="spec_decode_recommended_tokens", help="Smallest number of draft tokens that is as good as the best, by the evaluated window; 0: no speculation.", read=_recommended, labels=("basis",)),
    _pay(MINIMAL, name="spec_decode_state", help="State of speculation in the longest window: 1 for the present state, 0 for the others.", read=lambda engine: _one_of(State, engine.evaluation.state), labels=("state",)),
    _pay(MINIMAL, name="spec_decode_verdict", help="Verdict on speculation in the evaluated window: 1 for the present verdict, 0 for the others.", read=lambda engine: _one_of(Verdict, engine.evaluation.verdict), labels=("verdict",)),
    _pay(MINIMAL, name="spec_decode_recommendation", help="Recommended action by the evaluated window: 1 for this action, 0 for the others.", read=lambda engine: _one_of(Action, engine.evaluation.shown_advice.action), labels=("action",)),
    Metric(MINIMAL, Group.INTEGRITY, "spec_decode_consistent", "State of an identity of the server's counters: 1 holds, 0 was broken by two successive polls.", lambda engine: [(str(check), float(check not in engine.broken)) for check in Check], ("check",)),
    Metric(MINIMAL, Group.INTEGRITY, "spec_decode_engine_resets_total", "Resets of the server's counters, by cause: restart, or decrease without a restart.", lambda engine: [(str(cause), engine.totals.resets[cause]) for cause in Reset], ("cause",), kind="counter"),
)
# fmt: on
