"""Metric table: ONE row for each metric; those of figures come from the rows of the figure table.

The order is that of the families on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import cache, partial
from itertools import accumulate
from math import isfinite
from operator import attrgetter
from typing import Final

from spec_decode_exporter.analysis.end_to_end import EndToEnd
from spec_decode_exporter.analysis.figure_table import WORK, term
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.schema import Group, Profile
from spec_decode_exporter.experiments.arm import Arm
from spec_decode_exporter.experiments.pace import ArmSpeedup
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.quantile import (
    LATENCY_QUANTILES,
    QUANTILE_LABEL,
    SPREAD_QUANTILES,
    QuantileRatio,
    quantile,
)
from spec_decode_exporter.metrics import subject
from spec_decode_exporter.metrics.metric import Metric, Number, Numbers, figure_metrics
from spec_decode_exporter.metrics.subject import GroupRequests
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.requests.model_findings import PromptFindings
from spec_decode_exporter.requests.record import Refusal, RequestSource
from spec_decode_exporter.requests.store import GroupFindings
from spec_decode_exporter.requests.summary import (
    Effect,
    Percentiles,
    RequestHistogram,
    RequestSummary,
    RequestTotals,
)
from spec_decode_exporter.scrape.engines import Gauge, Latency
from spec_decode_exporter.scrape.errors import REASONS
from spec_decode_exporter.window.engine_windows import NANO
from spec_decode_exporter.window.poll import Check, Reset

MINIMAL, STANDARD, FULL = Profile
_TENTHS: Final = (*(str(tenth / 10) for tenth in range(1, 11)), "+Inf")


def _total(profile: Profile, name: str, text: str, counter: str = "") -> Metric:
    """Return the row of a counter since the exporter first saw the engine."""
    counter = counter or name.removeprefix("spec_decode_").removesuffix("_total")

    count, text = attrgetter(f"totals.counters.{counter}"), f"{text} since the exporter first saw the engine."
    read = (lambda engine: count(engine) / NANO) if counter.endswith("_nanoseconds") else count
    return Metric(Group.COUNTERS, profile, name, text, read, kind="counter", source=(counter,))


@cache
def _one_of(members: type[StrEnum], present: StrEnum) -> Numbers:
    """Return a state set: a number for each member, of which one is 1."""
    return [(str(member), float(member == present)) for member in members]


def _buckets(bounds: Iterable[str], counts: Sequence[int], total: float) -> Numbers:
    """Return the series of a histogram by its upper bounds, cumulative counts and sum."""
    buckets = [(("_bucket", bound), count) for bound, count in zip(bounds, counts, strict=True)]
    return [*buckets, (("_count", ""), counts[-1]), (("_sum", ""), total)]


def _poll_histogram(engine: EngineSnapshot) -> Numbers:
    return _buckets(_TENTHS, engine.totals.poll_buckets, engine.totals.counters.accepted_tokens)


def _latency(latency: Latency, engine: EngineSnapshot) -> Numbers:
    """Return a latency's quantiles over the longest window."""
    label, buckets = engine.evaluation.longest.label, engine.evaluation.latencies.get(latency)
    return [((label, each.label), quantile(each.share, buckets)) for each in LATENCY_QUANTILES if buckets]


def _baseline_ratio(latency: Latency, place: int, engine: EngineSnapshot) -> Numbers:
    """Return the ratios of a latency to its baseline (0), or their lower (1) or upper (2) bounds."""
    comparison, label = engine.evaluation.latency_comparison, engine.evaluation.longest.label
    compared = comparison.latencies.get(latency, {}) if comparison else {}
    known = [(each, its) for each, its in compared.items() if isinstance(its, QuantileRatio)]
    numbers = [(each.label, (its.value, *its.bounds)[place]) for each, its in known]
    return [((label, own), number) for own, number in numbers if isfinite(number)]


def _request(value: Callable[[EndToEnd], Number]) -> Callable[[WindowEvaluation], Numbers]:
    """Return the reader of a number of the speed-up of whole requests."""
    return lambda its: [(str(its.request.basis), value(its.request))] if its.request else []


def _cost(side: str) -> Callable[[EngineSnapshot], Numbers]:
    """Return the reader of one possible cost of a draft token, in the longest window."""
    value = attrgetter(f"{side}.token")
    return lambda its: [(str(cost.source), value(cost)) for cost in [its.evaluation.longest.cost] if cost]


def _depth_speedups(engine: EngineSnapshot) -> Numbers:
    its = engine.evaluation
    return [((its.longest.label, str(depth.tokens), depth.basis), depth.speedup) for depth in its.depths]


def _marginal_benefits(engine: EngineSnapshot) -> Numbers:
    its = engine.evaluation
    return [((its.longest.label, str(n)), depth.marginal_benefit) for n, depth in enumerate(its.depths)]


def _recommended(engine: EngineSnapshot) -> Numbers:
    tokens = engine.evaluation.decision.advice.tokens
    return [] if tokens is None else [("measured" if tokens <= engine.tokens else "extrapolated", tokens)]


def _schedule_changes(its: WindowEvaluation) -> Number:
    """Return the share of polls with a change of K, of a schedule whose method drafts in every step."""
    known = its.known
    changes = len(known.speculation.schedule.firsts) > 1 and known.drafts_in_every_step
    return ratio(*its.draft_length_changes) if changes and its.draft_length_changes else None


def _speedups(value: Callable[[ArmSpeedup], Number]) -> Callable[[Arm], Numbers]:
    """Return the reader of a number of an arm's speed-up by each basis."""
    return lambda its: [(str(basis), value(speedup)) for basis, speedup in its.speedups.items()]


def _since(value: Callable[[RequestTotals], Number | Numbers]) -> Callable[[GroupRequests], Number | Numbers]:
    """Return the reader of a sum over a group's requests since the start."""
    return lambda group: None if group.since_start is None else value(group.since_start)


def _request_buckets(histogram: RequestHistogram) -> Numbers:
    bounds = (*(str(float(bound)) for bound in histogram.upper_bounds), "+Inf")
    return _buckets(bounds, [*accumulate(histogram.counts)], histogram.sum)


def _percentiles(which: Callable[[RequestSummary], Percentiles | None], group: GroupFindings) -> Numbers:
    """Return percentiles over a group's requests in a window."""
    found = which(group.summary)
    return [(each.label, getattr(found, each.name)) for each in SPREAD_QUANTILES if found]


def _prompt_lengths(model: PromptFindings) -> Numbers:
    lengths = ((bucket.prompt_tokens, bucket.summary.acceptance_length) for bucket in model.buckets)
    return [(bucket, length and length.value) for bucket, length in lengths]


_COST: Final = ("configuration", "decode_nanoseconds", "typical cost of the method")
_TIMES: Final = (
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    *("running_requests", "generation_tokens"),
)
_FIRST, _TOKEN = Latency.TIME_TO_FIRST_TOKEN, Latency.TIME_PER_OUTPUT_TOKEN
_SOURCE: Final = {
    _FIRST: ("vllm:time_to_first_token_seconds",),
    _TOKEN: ("vllm:request_time_per_output_token_seconds",),
}
_SPECULATION: Final = ("drafts", "draft_tokens", "accepted_tokens", "positions")
_TRAFFIC: Final = ("running_requests", "first_tokens", "prompt_tokens", "generation_tokens")
_ANSWER: Final = ("response: metrics.speculative_decoding",)
_PROMPT: Final = ("response: usage.prompt_tokens", *_ANSWER)

# fmt: off
_reported = partial(Metric, Group.ACCEPTANCE, STANDARD)
_sum = partial(Metric, Group.SUMS, windows="each")
_quantiles = partial(Metric, Group.LATENCY, STANDARD, labels=("window", QUANTILE_LABEL))
_ratio_bound = partial(Metric, Group.LATENCY, FULL, labels=("window", QUANTILE_LABEL))
_spread = partial(Metric, Group.DISTRIBUTION, STANDARD, windows="each", reduced="longest", source=("accepted_tokens", "draft_tokens"))
_pay = partial(Metric, Group.PAY, source=WORK)
_decode_time = partial(Metric, Group.PAY, STANDARD, kind="counter", source=(*WORK, "decode_nanoseconds"))
_end_to_end = partial(Metric, Group.PAY, windows="longest", labels=("basis",), source=(*WORK, "decode_nanoseconds", "first_token_nanoseconds"))
_drop = partial(Metric, Group.DROPS, source=("accepted_tokens", "drafts"))
_arm = partial(Metric, Group.EXPERIMENTS, subject=subject.ARM, windows="each", reduced="longest")
_group = partial(Metric, Group.REQUESTS, subject=subject.GROUP, source=_ANSWER)
_window = partial(_group, windows="each", reduced="longest")
_percentile = partial(_window, STANDARD, labels=(QUANTILE_LABEL,))
_receiver = partial(Metric, Group.EXPORTER, MINIMAL, subject=subject.RECEIVER, kind="counter")
_target = partial(Metric, Group.EXPORTER, subject=subject.TARGET)
_own = partial(Metric, Group.EXPORTER, subject=subject.EXPORTER)

METRICS: Final[tuple[Metric, ...]] = (
    _total(MINIMAL, "spec_decode_drafts_total", "Drafts"),
    _total(MINIMAL, "spec_decode_draft_tokens_total", "Draft tokens"),
    _total(MINIMAL, "spec_decode_accepted_tokens_total", "Accepted draft tokens"),
    _total(MINIMAL, "spec_decode_generation_tokens_total", "Generated tokens"),
    _total(STANDARD, "spec_decode_first_tokens_total", "First tokens of requests, which come from the prefill and no decode step,"),
    _total(STANDARD, "spec_decode_decode_steps_total", "Decode steps, counted once for each running request,"),
    _total(STANDARD, "spec_decode_decode_seconds_total", "Seconds that requests spent in decode steps", "decode_nanoseconds"),
    _decode_time("spec_decode_evaluated_decode_seconds_total", "Seconds that requests decoded while bounds of the speed-up were known, since the exporter first saw the engine.", attrgetter("decode_time.actual")),
    _decode_time("spec_decode_plain_decode_seconds_total", "Seconds that the evaluated decoding would have taken without speculation, at the best guess of the cost.", attrgetter("decode_time.plain")),
    _decode_time("spec_decode_plain_decode_seconds_lower_total", "The sum of the lower 95 % bounds of spec_decode_plain_decode_seconds_total.", attrgetter("decode_time.plain_lower")),
    _decode_time("spec_decode_plain_decode_seconds_upper_total", "The sum of the upper 95 % bounds of spec_decode_plain_decode_seconds_total.", attrgetter("decode_time.plain_upper")),
    Metric(Group.COUNTERS, STANDARD, "spec_decode_position_accepted_tokens_total", "Draft tokens accepted at each draft position since the exporter first saw the engine.", lambda engine: [(str(position), count) for position, count in enumerate(engine.totals.positions)], labels=("position",), kind="counter", source=("positions",)),
    Metric(Group.COUNTERS, STANDARD, "spec_decode_poll_acceptance_ratio", "Acceptance rate of each poll, weighted by draft tokens: _count is draft tokens, _sum accepted tokens.", _poll_histogram, kind="histogram", source=("accepted_tokens", "draft_tokens")),
    *figure_metrics(Group.ACCEPTANCE, MINIMAL, "spec_decode_draft_acceptance_ratio", "spec_decode_draft_acceptance_ratio_lower", "spec_decode_draft_acceptance_ratio_upper", "spec_decode_acceptance_length_tokens", "spec_decode_acceptance_length_tokens_lower", "spec_decode_acceptance_length_tokens_upper"),
    *figure_metrics(Group.PAY, MINIMAL, "spec_decode_estimated_speedup_ratio", "spec_decode_estimated_speedup_ratio_lower", "spec_decode_estimated_speedup_ratio_upper", bounds_profile=MINIMAL),
    *figure_metrics(Group.PAY, STANDARD, "spec_decode_speedup_ceiling_ratio", reduced="longest"),
    *figure_metrics(Group.PAY, MINIMAL, "spec_decode_break_even_acceptance_ratio", windows="bare"),
    *figure_metrics(Group.PAY, STANDARD, "spec_decode_break_even_cost_ratio", "spec_decode_break_even_cost_ratio_lower", "spec_decode_break_even_cost_ratio_upper", windows="bare"),
    *figure_metrics(Group.PAY, FULL, "spec_decode_gained_tokens_per_second_per_gigabyte", "spec_decode_gained_tokens_per_second_per_gigabyte_lower", "spec_decode_gained_tokens_per_second_per_gigabyte_upper", windows="bare", bounds_profile=FULL),
    *figure_metrics(Group.ACCEPTANCE, STANDARD, "spec_decode_position_acceptance_ratio"),
    *figure_metrics(Group.ACCEPTANCE, STANDARD, "spec_decode_position_conditional_acceptance_ratio", "spec_decode_acceptance_decay_ratio", reduced="longest"),
    *figure_metrics(Group.DISTRIBUTION, FULL, "spec_decode_accepted_length_ratio"),
    *figure_metrics(Group.ACCEPTANCE, STANDARD, "spec_decode_draft_length_tokens", reduced="longest"),
    *figure_metrics(Group.ACCEPTANCE, STANDARD, "spec_decode_coverage_ratio", "spec_decode_effective_tokens_per_step"),
    *figure_metrics(Group.RATES, STANDARD, "spec_decode_drafts_per_second", "spec_decode_draft_tokens_per_second", "spec_decode_accepted_tokens_per_second", reduced="longest"),
    *figure_metrics(Group.RATES, FULL, "spec_decode_rejected_tokens_per_second"),
    *figure_metrics(Group.RATES, STANDARD, "spec_decode_generation_tokens_per_second", reduced="shortest"),
    *figure_metrics(Group.LATENCY, STANDARD, "spec_decode_step_seconds", "spec_decode_time_per_output_token_seconds", reduced="longest"),
    *figure_metrics(Group.LATENCY, STANDARD, "spec_decode_time_to_first_token_seconds", "spec_decode_first_token_time_ratio", windows="longest"),
    *figure_metrics(Group.LOAD, MINIMAL, "spec_decode_running_requests"),
    *figure_metrics(Group.LOAD, STANDARD, "spec_decode_waiting_requests"),
    *figure_metrics(Group.LOAD, STANDARD, "spec_decode_kv_cache_usage_ratio", "spec_decode_prefix_cache_hit_ratio", "spec_decode_preemptions_per_second", windows="longest"),
    _reported("spec_decode_engine_reported_acceptance_ratio", "Acceptance rate that the engine itself reports, if it has no usable counters.", lambda engine: engine.engine_reported(Gauge.REPORTED_ACCEPTANCE_RATIO), source=("vllm:spec_decode_draft_acceptance_rate", "sglang:spec_accept_rate")),
    _reported("spec_decode_engine_reported_acceptance_length_tokens", "Acceptance length that the engine itself reports, bonus token included, if it has no usable counters.", lambda engine: engine.engine_reported(Gauge.REPORTED_ACCEPTANCE_LENGTH), source=("sglang:spec_accept_length",)),
    _sum(STANDARD, "spec_decode_window_draft_tokens", "Draft tokens in the window.", lambda its: its.total.draft_tokens, source=("draft_tokens",)),
    _sum(STANDARD, "spec_decode_window_accepted_tokens", "Accepted draft tokens in the window.", lambda its: its.total.accepted_tokens, source=("accepted_tokens",)),
    _sum(STANDARD, "spec_decode_window_decode_seconds", "Seconds that requests spent in decode steps in the window.", lambda its: term(its.window, "decode_nanoseconds"), reduced="longest", source=("decode_nanoseconds",)),
    _sum(MINIMAL, "spec_decode_window_seconds", "Seconds that the window covers; less than its length after a start or an outage.", lambda its: its.window.seconds),
    _quantiles("spec_decode_time_to_first_token_quantile_seconds", "Quantiles of the time to first token over requests in the longest window, in seconds.", partial(_latency, _FIRST), source=_SOURCE[_FIRST]),
    _quantiles("spec_decode_time_per_output_token_quantile_seconds", "Quantiles of the time per output token after the first over requests in the longest window, in seconds.", partial(_latency, _TOKEN), source=_SOURCE[_TOKEN]),
    _quantiles("spec_decode_time_to_first_token_quantile_baseline_ratio", "Quantiles of the time to first token in the longest window over those of the baseline; below 1 is faster.", partial(_baseline_ratio, _FIRST, 0), source=_SOURCE[_FIRST]),
    _ratio_bound("spec_decode_time_to_first_token_quantile_baseline_ratio_lower", "The lower 95 % bound of spec_decode_time_to_first_token_quantile_baseline_ratio in the longest window.", partial(_baseline_ratio, _FIRST, 1), source=_SOURCE[_FIRST]),
    _ratio_bound("spec_decode_time_to_first_token_quantile_baseline_ratio_upper", "The upper 95 % bound of spec_decode_time_to_first_token_quantile_baseline_ratio in the longest window.", partial(_baseline_ratio, _FIRST, 2), source=_SOURCE[_FIRST]),
    _quantiles("spec_decode_time_per_output_token_quantile_baseline_ratio", "Quantiles of the time per output token in the longest window over those of the baseline; below 1 is faster.", partial(_baseline_ratio, _TOKEN, 0), source=_SOURCE[_TOKEN]),
    _ratio_bound("spec_decode_time_per_output_token_quantile_baseline_ratio_lower", "The lower 95 % bound of spec_decode_time_per_output_token_quantile_baseline_ratio in the longest window.", partial(_baseline_ratio, _TOKEN, 1), source=_SOURCE[_TOKEN]),
    _ratio_bound("spec_decode_time_per_output_token_quantile_baseline_ratio_upper", "The upper 95 % bound of spec_decode_time_per_output_token_quantile_baseline_ratio in the longest window.", partial(_baseline_ratio, _TOKEN, 2), source=_SOURCE[_TOKEN]),
    _spread("spec_decode_interval_acceptance_quantile_ratio", "Quantiles of the acceptance rates of the window's polls, weighted by draft tokens.", lambda its: zip([each.label for each in SPREAD_QUANTILES], its.poll_rate_quantiles([each.share for each in SPREAD_QUANTILES]), strict=True), labels=(QUANTILE_LABEL,)),
    _spread("spec_decode_interval_acceptance_ratio_min", "Lowest acceptance rate of a poll in the window.", lambda its: its.poll_rates[0][0] if its.poll_rates else None),
    _spread("spec_decode_interval_acceptance_ratio_max", "Highest acceptance rate of a poll in the window.", lambda its: its.poll_rates[-1][0] if its.poll_rates else None),
    _pay(MINIMAL, "spec_decode_engine_info", "Method of speculation, source of this information, and draft model; empty if unknown; always 1.", lambda engine: [((its.method, its.source, its.draft_model), 1.0) for its in [engine.evaluation.known.speculation]], labels=("method", "method_source", "draft_model"), source=("configuration", "discovery label", "pod arguments", "/server_info")),
    _pay(MINIMAL, "spec_decode_configured_tokens", "K, the number of tokens that the engine is configured to draft.", lambda engine: engine.tokens or None, source=("configuration", "positions")),
    _pay(MINIMAL, "spec_decode_draft_cost_ratio", "Cost of one more draft token in decode steps without speculation, by source of the cost.", _cost("guess"), labels=("source",), source=_COST),
    _pay(STANDARD, "spec_decode_draft_cost_ratio_lower", "Lowest possible spec_decode_draft_cost_ratio at the current load; the bounds of the speed-up contain it.", _cost("low"), labels=("source",), source=_COST),
    _pay(STANDARD, "spec_decode_draft_cost_ratio_upper", "Highest possible spec_decode_draft_cost_ratio at the current load; the bounds of the speed-up contain it.", _cost("high"), labels=("source",), source=_COST),
    _pay(STANDARD, "spec_decode_crossover_running_requests", "Running requests above which speculation stops paying, by the evaluated window.", lambda engine: engine.evaluation.crossover),
    _end_to_end(MINIMAL, "spec_decode_end_to_end_speedup_ratio", "Speed of whole requests relative to no speculation in the window, by source of its time to first token.", _request(lambda its: its.value)),
    _end_to_end(STANDARD, "spec_decode_end_to_end_speedup_ratio_lower", "The lower 95 % bound of spec_decode_end_to_end_speedup_ratio in the window.", _request(lambda its: its.bounds and its.bounds.lower)),
    _end_to_end(STANDARD, "spec_decode_end_to_end_speedup_ratio_upper", "The upper 95 % bound of spec_decode_end_to_end_speedup_ratio in the window.", _request(lambda its: its.bounds and its.bounds.upper)),
    _pay(STANDARD, "spec_decode_schedule_change_ratio", "Share of the polls in the window in which the schedule changed the number of draft tokens.", _schedule_changes, windows="longest", source=("decode_steps", "drafts", "draft_tokens")),
    _pay(FULL, "spec_decode_position_marginal_benefit_ratio", "Benefit of drafting a position over its cost, by the evaluated window; worth drafting above 1.", _marginal_benefits, labels=("window", "position"), source=("positions",)),
    _pay(STANDARD, "spec_decode_depth_speedup_ratio", "Estimated speed-up with this number of draft tokens, by the acceptance in the evaluated window.", _depth_speedups, labels=("window", "tokens", "basis"), source=("positions",)),
    _pay(MINIMAL, "spec_decode_recommended_tokens", "Advised number of draft tokens: the current one to keep it, 0 to disable speculation.", _recommended, labels=("basis",), source=("positions",)),
    _pay(MINIMAL, "spec_decode_pays_share_ratio", "Share of published costs, or of the speed-up's interval (log scale), at which speculation pays; 0 or 1 if certain.", lambda engine: engine.evaluation.pays_share_ratio),
    _pay(MINIMAL, "spec_decode_state", "State of speculation in the longest window: 1 for the current state, 0 for the others.", lambda engine: _one_of(State, engine.evaluation.state), labels=("state",), source=("drafts", "running_requests")),
    _pay(MINIMAL, "spec_decode_verdict", "Verdict on speculation: 1 for the current verdict, 0 for the others.", lambda engine: _one_of(Verdict, engine.evaluation.verdict), labels=("verdict",)),
    _pay(MINIMAL, "spec_decode_recommendation", "Recommended action: 1 for the current action, 0 for the others.", lambda engine: _one_of(Action, engine.evaluation.action), labels=("action",)),
    _drop(MINIMAL, "spec_decode_baseline_acceptance_length_tokens", "Baseline of the acceptance length in tokens, learned from about the last half hour of drafts.", lambda engine: engine.drops.baseline_acceptance_length_tokens),
    _drop(STANDARD, "spec_decode_baseline_acceptance_length_tokens_stddev", "Standard deviation of the acceptance length over 30 s around the baseline, by chance alone.", lambda engine: engine.drops.baseline_acceptance_length_tokens_stddev),
    _drop(MINIMAL, "spec_decode_acceptance_dropped", "State of acceptance, by kind of drop: 1 while it is below the baseline of the last half hour.", lambda engine: [(str(kind), float(is_below)) for kind, is_below in engine.drops.dropped.items()], labels=("kind",)),
    _drop(MINIMAL, "spec_decode_acceptance_drops_total", "Drops of acceptance, by kind.", lambda engine: [(str(kind), count) for kind, count in engine.drops.total.items()], labels=("kind",), kind="counter"),
    _drop(STANDARD, "spec_decode_reference_acceptance_ratio", "Configured acceptance rate that the engine is compared with, at the same number of draft tokens.", lambda engine: (reference := engine.evaluation.known.assumed.reference) and reference.at(engine.tokens), source=("configuration",)),
    Metric(Group.INTEGRITY, MINIMAL, "spec_decode_consistent", "State of an identity of the server's counters: 1 holds, 0 was broken by two successive polls.", lambda engine: [(str(check), float(check not in engine.broken)) for check in Check], labels=("check",), source=_SPECULATION),
    Metric(Group.INTEGRITY, MINIMAL, "spec_decode_engine_resets_total", "Resets of the server's counters, by cause: restart, or decrease without a restart.", lambda engine: [(str(cause), engine.totals.resets[cause]) for cause in Reset], labels=("cause",), kind="counter"),

    _arm(MINIMAL, "spec_decode_experiment_speedup_ratio", "Speed of the arm relative to the baseline in the window, by basis.", _speedups(lambda its: its.value), labels=("basis",), source=_TIMES),
    _arm(MINIMAL, "spec_decode_experiment_speedup_ratio_lower", "Lower 95 % bound of the speed of the arm relative to the baseline in the window, at equal traffic.", _speedups(lambda its: its.estimate and its.estimate.lower), labels=("basis",), source=_TIMES),
    _arm(MINIMAL, "spec_decode_experiment_speedup_ratio_upper", "Upper 95 % bound of the speed of the arm relative to the baseline in the window, at equal traffic.", _speedups(lambda its: its.estimate and its.estimate.upper), labels=("basis",), source=_TIMES),
    _arm(MINIMAL, "spec_decode_experiment_traffic_ratio", "Work of the arm's traffic over the baseline's in the window, by kind; below 1: fewer, shorter or easier requests.", lambda its: [(str(part), value) for part, value in its.traffic.items()], labels=("kind",), source=_TRAFFIC),
    Metric(Group.EXPERIMENTS, MINIMAL, "spec_decode_experiment_winner", "Fastest arm over the longest window, statistically significant (95 %): 1 for the winner, 0 for the others.", lambda arm: [(str(basis), float(won)) for basis, won in arm.wins.items()], labels=("basis",), subject=subject.ARM, source=_TIMES),
    _arm(STANDARD, "spec_decode_experiment_acceptance_length_tokens", "Mean tokens that a draft of the arm gives in the window, the bonus token included.", lambda its: its.acceptance_length, source=("accepted_tokens", "drafts")),
    _arm(STANDARD, "spec_decode_experiment_requests", "Requests that began on the engines of the arm in the window.", lambda its: its.requests, source=("first_tokens",)),
    _arm(STANDARD, "spec_decode_experiment_engines", "Engines of the arm in the window; 0 if no engine matches.", lambda its: its.engines),

    _group(MINIMAL, "spec_decode_requests_total", "Requests that reported their own speculation, since the exporter first saw the group.", _since(lambda its: its.requests), kind="counter"),
    _group(STANDARD, "spec_decode_request_saved_tokens_total", "Accepted draft tokens of the requests, each saving a step of the target, since the exporter first saw the group.", _since(lambda its: its.accepted_tokens), kind="counter"),
    _group(STANDARD, "spec_decode_request_acceptance_ratio", "Requests by acceptance rate, since the exporter first saw the group; without requests that drafted nothing.", _since(lambda its: _request_buckets(its.acceptance_ratio_histogram)), kind="histogram"),
    _group(FULL, "spec_decode_request_acceptance_length_tokens", "Requests by acceptance length, since the exporter first saw the group; without requests that drafted nothing.", _since(lambda its: _request_buckets(its.acceptance_length_tokens_histogram)), kind="histogram"),
    _window(MINIMAL, "spec_decode_window_requests", "Requests that reported their own speculation and ended in the window.", lambda its: its.summary.requests),
    _percentile("spec_decode_request_acceptance_quantile_ratio", "Quantiles of the acceptance rate over the requests of the window.", partial(_percentiles, lambda its: its.acceptance_ratio)),
    _percentile("spec_decode_request_acceptance_length_quantile_tokens", "Quantiles of the acceptance length over the requests of the window, bonus token included.", partial(_percentiles, lambda its: its.acceptance_length_tokens)),
    _percentile("spec_decode_request_time_per_output_token_quantile_seconds", "Quantiles of the time per output token after the first over the requests of the window, in seconds.", partial(_percentiles, lambda its: its.time_per_output_token_seconds), source=("response: metrics.generation_time_ms", "response: usage.completion_tokens")),
    _window(MINIMAL, "spec_decode_requests_below_break_even_ratio", "Share of the requests of the window that speculation made slower, at the cost of drafting.", lambda its: ratio(its.summary.below_break_even, its.summary.evaluated)),
    _window(STANDARD, "spec_decode_window_evaluated_requests", "Requests of the window with drafts and a known cost; weight of the shares below break-even.", lambda its: its.summary.evaluated),
    _window(MINIMAL, "spec_decode_request_speedup_ratio", "Estimated decoding speed of the requests of the window relative to no speculation; below 1 is slower.", lambda its: its.summary.speedup_ratio and its.summary.speedup_ratio.value),
    _window(MINIMAL, "spec_decode_request_speedup_ratio_lower", "The lower 95 % bound of the speed-up of the requests of the window.", lambda its: its.summary.speedup_ratio and its.summary.speedup_ratio.lower),
    _window(MINIMAL, "spec_decode_request_speedup_ratio_upper", "The upper 95 % bound of the speed-up of the requests of the window.", lambda its: its.summary.speedup_ratio and its.summary.speedup_ratio.upper),
    _window(MINIMAL, "spec_decode_request_effect", "Effect of speculation on the requests of the window: 1 for the current effect, 0 for the others.", lambda its: _one_of(Effect, its.summary.effect), labels=("effect",)),
    _window(STANDARD, "spec_decode_pathological_requests", "Requests of the window with almost no accepted draft token (rejected) or almost all (repetitive).", lambda its: [("rejected", its.summary.rejected), ("repetitive", its.summary.repetitive)], labels=("kind",)),
    _window(MINIMAL, "spec_decode_mixed_workload", "State of the model's requests in the window: 1 if they are of two kinds that an average hides.", lambda its: float(its.mixed), subject=subject.MODEL),
    _group(STANDARD, "spec_decode_user_requests", "Requests of a user, named by a hash, in the longest window; absent unless users are kept.", lambda its: its.requests, subject=subject.USER, source=("user of the request",)),
    _group(STANDARD, "spec_decode_user_acceptance_ratio", "Acceptance rate of a user's requests in the longest window; absent unless users are kept.", lambda its: ratio(its.accepted_tokens, its.draft_tokens), subject=subject.USER),
    _group(STANDARD, "spec_decode_prompt_acceptance_length_tokens", "Acceptance length of the requests with prompts of this length, bonus token included.", _prompt_lengths, labels=("prompt_tokens",), subject=subject.PROMPTS, source=_PROMPT),
    _group(MINIMAL, "spec_decode_acceptance_falls_with_prompt", "State of the model's requests: 1 if long prompts have a significantly lower acceptance length.", lambda its: float(its.falls), subject=subject.PROMPTS, source=_PROMPT),
    _receiver("spec_decode_exporter_requests_taken_total", "Received and counted requests, by the field that reports their speculation; absent if the exporter receives none.", lambda found: [(str(source), found.sources.get(source, 0)) for source in RequestSource], labels=("source",)),
    _receiver("spec_decode_exporter_requests_refused_total", "Rejected requests, by reason; a body that is rejected as a whole counts as one.", lambda found: [(str(reason), found.refused.get(reason, 0)) for reason in Refusal], labels=("reason",)),
    _receiver("spec_decode_exporter_requests_folded_total", "Requests counted under the label value other, because the label has more values than its limit.", lambda found: sorted(found.folded.items()), labels=("label",)),

    _target(MINIMAL, "spec_decode_exporter_target_up", "Result of the newest poll of the target: 1 succeeded, 0 failed.", lambda status: None if status.record.up is None else float(status.record.up)),
    _target(MINIMAL, "spec_decode_exporter_target_error", "Reason why the newest poll failed, with the HTTP status of a rejection; always 1, absent after a success.", lambda status: [(status.record.failure, 1.0)] if status.record.failure else [], labels=("reason",)),
    _target(MINIMAL, "spec_decode_exporter_target_engines", "Engines on the newest page of the target; 0 if the page is of no supported server.", lambda status: status.record.engines),
    _target(MINIMAL, "spec_decode_exporter_target_info", "Kind of engine, front end, page and version of the target; always 1.", lambda status: [((status.engine_kind, status.front_end, status.record.page, status.record.version), 1.0)] if status.record.page else [], labels=("engine_kind", "front_end", "page", "version")),
    _target(MINIMAL, "spec_decode_exporter_polls_total", "Polls of the target, failed ones included.", lambda status: status.record.polls, kind="counter"),
    _target(MINIMAL, "spec_decode_exporter_poll_failures_total", "Failed polls of the target, by reason.", lambda status: [(reason, status.record.failures[reason]) for reason in REASONS], labels=("reason",), kind="counter"),
    _target(STANDARD, "spec_decode_exporter_engines_not_monitored", "Engines on the page of the target that are not monitored, because limits.engines is reached.", lambda status: status.engines_not_monitored),
    _target(MINIMAL, "spec_decode_exporter_poll_seconds", "Duration of the newest poll of the target in seconds.", lambda status: status.record.seconds),
    _target(MINIMAL, "spec_decode_exporter_poll_bytes", "Size of the newest page of the target in bytes, uncompressed.", lambda status: status.record.size),
    _target(MINIMAL, "spec_decode_exporter_poll_interval_seconds", "Current poll interval of the target in seconds; longer than configured if polls fail or are expensive.", lambda status: status.record.pace),
    _target(MINIMAL, "spec_decode_exporter_last_success_timestamp_seconds", "Unix time of the last successful poll of the target.", lambda status: status.record.last_success),

    _own(MINIMAL, "spec_decode_exporter_build_info", "Version, revision and Python of the exporter; always 1.", lambda status: [((status.version, status.revision, status.python_version), 1.0)], labels=("version", "revision", "python_version")),
    _own(MINIMAL, "spec_decode_exporter_web_info", "Address of the exporter's pages in a browser, by --web.external-url; always 1, absent without it.", lambda status: [(status.external_url, 1.0)] if status.external_url else [], labels=("external_url",)),
    _own(MINIMAL, "spec_decode_exporter_targets", "Monitored targets, by discovery.", lambda status: status.targets.items(), labels=("discovery",)),
    _own(STANDARD, "spec_decode_exporter_targets_not_monitored", "Discovered targets that are not monitored, because limits.engines is reached.", lambda status: status.targets_not_monitored),
    _own(STANDARD, "spec_decode_exporter_log_lines_dropped_total", "Log lines that the exporter dropped because its standard error was not read.", lambda status: status.log_lines_dropped, kind="counter"),
    _own(MINIMAL, "spec_decode_exporter_state_last_save_successful", "Result of the last save of the state file: 1 succeeded, 0 failed; absent without this file.", lambda status: None if status.state_problem is None else float(not status.state_problem)),
    _own(MINIMAL, "spec_decode_exporter_config_last_reload_successful", "Result of the last reload of the configuration: 1 succeeded, 0 failed.", lambda status: float(not status.reload_problem)),
    _own(MINIMAL, "spec_decode_exporter_config_last_reload_success_timestamp_seconds", "Unix time at which the active configuration was loaded.", lambda status: status.reload_success_timestamp),
    _own(MINIMAL, "spec_decode_exporter_config_hash", "Hash of the active configuration; equal configurations have equal hashes.", lambda status: status.config_hash),
    _own(MINIMAL, "spec_decode_exporter_web_config_last_reload_successful", "Result of the last reload of --web.config.file: 1 succeeded, 0 failed; absent without this file.", lambda status: None if status.web_reload_successful is None else float(status.web_reload_successful)),
)
# fmt: on
