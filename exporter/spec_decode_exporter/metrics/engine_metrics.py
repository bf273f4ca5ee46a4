"""Every metric: ONE table. Documentation, HELP texts and the checks of dashboards and alerts come from it."""

from __future__ import annotations

from functools import partial
from typing import Any

from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures import acceptance, latency, positions, server_load
from spec_decode_exporter.figures.poll_spread import Spread
from spec_decode_exporter.metrics import reads
from spec_decode_exporter.metrics.economics_metrics import BOUND_METRICS, DROP_METRICS, PAY_METRICS
from spec_decode_exporter.metrics.experiment_metrics import EXPERIMENT_METRICS
from spec_decode_exporter.metrics.metric import Metric, MetricKind
from spec_decode_exporter.metrics.request_metrics import REQUEST_METRICS
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.monitor.target_status import ExporterStatus, TargetStatus
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.scrape.page.layout_map import MAX_ENGINES
from spec_decode_exporter.scrape.poll_errors import REASONS

ENGINE_LABELS = ("target", "model_name", "engine")
"""What every metric of an engine carries, before the target's configured labels."""

_WINDOW = "Over a window that the exporter keeps from its own polls."
_LONG = "Over the longest window that the exporter keeps from its own polls."
_SEEN = "Increases as the exporter saw them, monotonic over the server's restarts."
_DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_RATES = f"From {_ACCEPTED} and {_DRAFT_TOKENS}."
_GENERATED = "vllm:generation_tokens_total"
_FIRST = "vllm:time_to_first_token_seconds_count"
_STEPS = "vllm:inter_token_latency_seconds_count"
_STEP_SECONDS = "vllm:inter_token_latency_seconds_sum"

# Shorthands for the rows below.
_counter: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.COUNTER)
_gauge: partial[Metric[EngineSnapshot]] = partial(Metric, kind=MetricKind.GAUGE)
_counts = partial(_counter, group=Group.COUNTERS)
_accept = partial(_gauge, group=Group.ACCEPTANCE, labels=("window",))
_rate = partial(_gauge, group=Group.RATES, labels=("window",))
_sum = partial(_gauge, group=Group.SUMS, labels=("window",))
_load = partial(_gauge, group=Group.LOAD, labels=("window",))
_spread = partial(_gauge, group=Group.DISTRIBUTION, labels=("window",), default=False)


def _per_second(counter: Counter) -> reads.Read:
    return reads.each_window(lambda window: server_load.per_second(window, window[counter]))


def _of(counter: Counter) -> reads.Read:
    return reads.each_window(lambda window: window[counter])


_WINDOW_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _counts(
        "spec_decode_drafts_total", help=f"Drafts. {_SEEN} From {_DRAFTS}.", read=reads.total(Counter.DRAFTS)
    ),
    _counts(
        "spec_decode_draft_tokens_total",
        help=f"Tokens drafted. {_SEEN} From {_DRAFT_TOKENS}.",
        read=reads.total(Counter.DRAFT_TOKENS),
    ),
    _counts(
        "spec_decode_accepted_tokens_total",
        help=f"Draft tokens accepted. {_SEEN} From {_ACCEPTED}.",
        read=reads.total(Counter.ACCEPTED_TOKENS),
    ),
    _counts(
        "spec_decode_generation_tokens_total",
        help=f"Tokens generated. {_SEEN} From {_GENERATED}.",
        read=reads.total(Counter.GENERATION_TOKENS),
    ),
    _counts(
        "spec_decode_first_tokens_total",
        help=f"First tokens of requests, which no decode step gives. {_SEEN} From {_FIRST}.",
        read=reads.total(Counter.FIRST_TOKENS),
    ),
    _counts(
        "spec_decode_decode_steps_total",
        help=f"Decode steps, counted once for each running request. {_SEEN} From {_STEPS}.",
        read=reads.total(Counter.DECODE_STEPS),
    ),
    _counts(
        "spec_decode_decode_seconds_total",
        help=f"Time that requests spent in decode steps. {_SEEN} From {_STEP_SECONDS}.",
        read=reads.decode_seconds_total,
    ),
    _counts(
        "spec_decode_covered_seconds_total",
        help="Time between successful polls: what the other counters cover.",
        read=reads.covered_seconds_total,
    ),
    _counts(
        "spec_decode_position_accepted_tokens_total",
        help=f"Draft tokens accepted at each draft position. {_SEEN} From {_POSITIONS}.",
        labels=("position",),
        read=reads.position_totals,
    ),
    Metric(
        "spec_decode_poll_acceptance_ratio",
        MetricKind.HISTOGRAM,
        Group.COUNTERS,
        "Acceptance rate of each poll's increment, observed with the weight of its draft tokens: _count is "
        f"draft tokens, _sum is accepted tokens. A spread over polls, not over requests. From {_ACCEPTED} and "
        f"{_DRAFT_TOKENS}.",
        reads.poll_histogram,
    ),
    _accept(
        "spec_decode_draft_acceptance_ratio",
        help=f"Accepted tokens over draft tokens. {_WINDOW} From {_ACCEPTED} and {_DRAFT_TOKENS}.",
        read=reads.each_window(acceptance.draft_acceptance_ratio),
    ),
    _accept(
        "spec_decode_acceptance_length_tokens",
        help=f"Mean tokens that a draft gives, the bonus token included: 1 + accepted tokens over drafts. {_WINDOW} "
        f"From {_ACCEPTED} and {_DRAFTS}.",
        read=reads.each_window(acceptance.acceptance_length_tokens),
    ),
    _accept(
        "spec_decode_position_acceptance_ratio",
        help=f"Share of drafts that are accepted up to and including the position. {_WINDOW} From {_POSITIONS} and "
        f"{_DRAFTS}.",
        labels=("window", "position"),
        read=reads.each_position(positions.position_acceptance_ratios),
    ),
    _accept(
        "spec_decode_position_conditional_acceptance_ratio",
        help=f"Share of the drafts accepted up to the position before that are accepted at this one too. {_WINDOW} "
        f"From {_POSITIONS}, and {_DRAFTS} for the first.",
        labels=("window", "position"),
        read=reads.each_position(positions.conditional_acceptance_ratios),
    ),
    _accept(
        "spec_decode_acceptance_decay_ratio",
        help="Mean of the conditional acceptance after the first position, pooled; 1 is no decay. "
        f"{_WINDOW} From {_POSITIONS}.",
        read=reads.each_window(positions.decay_ratio),
    ),
    _accept(
        "spec_decode_draft_length_tokens",
        help=f"Mean tokens of a draft; below the configured number where drafts are shorter. {_WINDOW} "
        f"From {_DRAFT_TOKENS} and {_DRAFTS}.",
        read=reads.each_window(acceptance.draft_length_tokens),
    ),
    _accept(
        "spec_decode_coverage_ratio",
        help=f"Share of decode steps that had a draft. {_WINDOW} From {_DRAFTS} and {_STEPS}.",
        read=reads.each_window(acceptance.coverage_ratio),
    ),
    _accept(
        "spec_decode_effective_tokens_per_step",
        help=f"Mean tokens that a decode step gives, with a draft or without. {_WINDOW} "
        f"From {_GENERATED}, {_FIRST} and {_STEPS}.",
        read=reads.each_window(acceptance.effective_tokens_per_step),
    ),
    _gauge(
        "spec_decode_engine_reported_acceptance_ratio",
        group=Group.ACCEPTANCE,
        help="The acceptance rate that the engine itself reports, where it has no counters that can be used: "
        "from vllm:spec_decode_draft_acceptance_rate (V0) or sglang:spec_accept_rate.",
        read=reads.reported(Gauge.REPORTED_ACCEPTANCE_RATIO),
    ),
    _gauge(
        "spec_decode_engine_reported_acceptance_length_tokens",
        group=Group.ACCEPTANCE,
        help="The acceptance length that the engine itself reports, bonus token included, where it has no counters "
        "that can be used: from sglang:spec_accept_length.",
        read=reads.reported(Gauge.REPORTED_ACCEPTANCE_LENGTH),
    ),
    _rate(
        "spec_decode_drafts_per_second",
        help=f"Drafts a second. {_WINDOW} From {_DRAFTS}.",
        read=_per_second(Counter.DRAFTS),
    ),
    _rate(
        "spec_decode_draft_tokens_per_second",
        help=f"Tokens drafted a second. {_WINDOW} From {_DRAFT_TOKENS}.",
        read=_per_second(Counter.DRAFT_TOKENS),
    ),
    _rate(
        "spec_decode_accepted_tokens_per_second",
        help=f"Draft tokens accepted a second. {_WINDOW} From {_ACCEPTED}.",
        read=_per_second(Counter.ACCEPTED_TOKENS),
    ),
    _rate(
        "spec_decode_rejected_tokens_per_second",
        help=f"Draft tokens a second that were for nothing. {_WINDOW} From {_DRAFT_TOKENS} and {_ACCEPTED}.",
        read=reads.each_window(
            lambda window: server_load.per_second(window, acceptance.rejected_tokens(window))
        ),
    ),
    _rate(
        "spec_decode_generation_tokens_per_second",
        help=f"Tokens generated a second. {_WINDOW} From {_GENERATED}.",
        read=_per_second(Counter.GENERATION_TOKENS),
    ),
    _sum("spec_decode_window_drafts", help=f"Drafts. {_WINDOW} From {_DRAFTS}.", read=_of(Counter.DRAFTS)),
    _sum(
        "spec_decode_window_draft_tokens",
        help=f"Tokens drafted. {_WINDOW} From {_DRAFT_TOKENS}.",
        read=_of(Counter.DRAFT_TOKENS),
    ),
    _sum(
        "spec_decode_window_accepted_tokens",
        help=f"Draft tokens accepted. {_WINDOW} From {_ACCEPTED}.",
        read=_of(Counter.ACCEPTED_TOKENS),
    ),
    _sum(
        "spec_decode_window_generation_tokens",
        help=f"Tokens generated. {_WINDOW} From {_GENERATED}.",
        read=_of(Counter.GENERATION_TOKENS),
    ),
    _sum(
        "spec_decode_window_first_tokens",
        help=f"First tokens of requests. {_WINDOW} From {_FIRST}.",
        read=_of(Counter.FIRST_TOKENS),
    ),
    _sum(
        "spec_decode_window_decode_steps",
        help=f"Decode steps, counted once for each running request. {_WINDOW} From {_STEPS}.",
        read=_of(Counter.DECODE_STEPS),
    ),
    _sum(
        "spec_decode_window_decode_seconds",
        help=f"Time that requests spent in decode steps. {_WINDOW} From {_STEP_SECONDS}.",
        read=reads.each_window(latency.decode_seconds),
    ),
    _sum(
        "spec_decode_window_seconds",
        help="Time that the window really covers; less than its name says after a start or an outage.",
        read=reads.each_window(lambda window: window.seconds),
    ),
    _sum(
        "spec_decode_window_position_accepted_tokens",
        help=f"Draft tokens accepted at each draft position. {_WINDOW} From {_POSITIONS}.",
        labels=("window", "position"),
        default=False,
        read=reads.each_position(reads.position_counts),
    ),
    _gauge(
        "spec_decode_step_seconds",
        group=Group.LATENCY,
        labels=("window",),
        help=f"Mean time of a decode step of one request. {_WINDOW} From vllm:inter_token_latency_seconds, which vLLM "
        "observes once a step, however many tokens the step gave.",
        read=reads.each_window(latency.step_seconds),
    ),
    _gauge(
        "spec_decode_time_per_output_token_seconds",
        group=Group.LATENCY,
        labels=("window",),
        help="Mean time per output token after the first, weighted by tokens and corrected for several tokens a step. "
        f"{_WINDOW} From {_STEP_SECONDS}, {_GENERATED} and {_FIRST}.",
        read=reads.each_window(latency.time_per_output_token_seconds),
    ),
    _gauge(
        "spec_decode_latency_seconds",
        group=Group.LATENCY,
        labels=("window", "latency", "percentile"),
        help=f"Quantiles of the server's own histograms. {_LONG} Interpolated as histogram_quantile does; "
        "time_per_output_token weighs by requests, decode_step is once a step. A quantile in a histogram's lowest bucket "
        "(queue: 0.3 s) is no more than a guess below its bound. From vllm:time_to_first_token_seconds, "
        "vllm:request_time_per_output_token_seconds, vllm:inter_token_latency_seconds, vllm:e2e_request_latency_seconds "
        "and vllm:request_queue_time_seconds.",
        read=reads.latencies,
    ),
    _load(
        "spec_decode_running_requests",
        help=f"Mean of the running requests over the polls. {_WINDOW} From vllm:num_requests_running.",
        read=reads.each_window(lambda window: server_load.mean(window, Gauge.RUNNING_REQUESTS)),
    ),
    _load(
        "spec_decode_waiting_requests",
        help=f"Mean of the waiting requests over the polls. {_WINDOW} From vllm:num_requests_waiting.",
        read=reads.each_window(lambda window: server_load.mean(window, Gauge.WAITING_REQUESTS)),
    ),
    _load(
        "spec_decode_kv_cache_usage_ratio",
        help=f"Mean share of the KV cache in use over the polls. {_LONG} From vllm:kv_cache_usage_perc.",
        read=reads.long_window(lambda window: server_load.mean(window, Gauge.KV_CACHE_USAGE)),
    ),
    _load(
        "spec_decode_prefix_cache_hit_ratio",
        help=f"Share of prompt tokens found in the prefix cache. {_LONG} From vllm:prefix_cache_hits_total and "
        "vllm:prefix_cache_queries_total.",
        read=reads.long_window(server_load.prefix_cache_hit_ratio),
    ),
    _load(
        "spec_decode_preemptions_per_second",
        help=f"Preemptions a second. {_LONG} From vllm:num_preemptions_total.",
        read=reads.long_window(lambda window: server_load.per_second(window, window[Counter.PREEMPTIONS])),
    ),
    _spread(
        "spec_decode_accepted_length_ratio",
        help="Share of drafts of which exactly so many tokens are accepted, the bonus token not counted. "
        f"{_WINDOW} From {_POSITIONS} and {_DRAFTS}.",
        labels=("window", "length"),
        read=reads.each_position(positions.accepted_length_ratios),
    ),
    _spread(
        "spec_decode_interval_acceptance_ratio",
        help=f"Percentiles of the acceptance rates of single polls, weighted by draft tokens. {_WINDOW} Over polls, "
        f"not over requests. {_RATES}",
        labels=("window", "percentile"),
        read=reads.spread_percentiles,
    ),
    _spread(
        "spec_decode_interval_acceptance_ratio_min",
        help=f"Lowest acceptance rate of a poll. {_WINDOW} Over polls, not over requests. {_RATES}",
        read=reads.of_spread(lambda found: found.lowest),
    ),
    _spread(
        "spec_decode_interval_acceptance_ratio_max",
        help=f"Highest acceptance rate of a poll. {_WINDOW} Over polls, not over requests. {_RATES}",
        read=reads.of_spread(lambda found: found.highest),
    ),
    _spread(
        "spec_decode_interval_acceptance_ratio_stddev",
        help="Standard deviation of the acceptance rates of single polls, weighted by draft tokens. "
        f"{_WINDOW} Over polls, not over requests. {_RATES}",
        read=reads.of_spread(Spread.standard_deviation),
    ),
)

_INTEGRITY_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    _gauge(
        "spec_decode_consistent",
        group=Group.INTEGRITY,
        labels=("check",),
        help="Whether an identity of the server's counters of speculation holds: 0 after two successive polls broke it.",
        read=lambda findings: [((str(check),), float(check not in findings.broken)) for check in Check],
    ),
    _counter(
        "spec_decode_engine_resets_total",
        group=Group.INTEGRITY,
        labels=("cause",),
        help="How often the server's counters began anew: restart, or decrease without a word of one.",
        read=reads.resets,
    ),
)

ENGINE_METRICS: tuple[Metric[EngineSnapshot], ...] = (
    *_WINDOW_METRICS,
    *BOUND_METRICS,
    *PAY_METRICS,
    *DROP_METRICS,
    *_INTEGRITY_METRICS,
)

_target: partial[Metric[TargetStatus]] = partial(Metric, kind=MetricKind.GAUGE, group=Group.EXPORTER)
_own: partial[Metric[ExporterStatus]] = partial(Metric, kind=MetricKind.GAUGE, group=Group.EXPORTER)


def _failures(status: TargetStatus) -> list[tuple[tuple[str, ...], float]]:
    failures = status.failures or {}
    return [((reason,), failures.get(reason, 0)) for reason in REASONS]


TARGET_METRICS: tuple[Metric[TargetStatus], ...] = (
    _target(
        "spec_decode_exporter_target_up",
        help="Whether the newest poll of the target succeeded.",
        read=lambda status: [((), None if status.up is None else float(status.up))],
    ),
    _target(
        "spec_decode_exporter_target_info",
        help="What serves there, and whether its page is asked for filtered or full; always 1.",
        labels=("engine_kind", "front_end", "page", "version"),
        read=lambda status: [
            (
                (status.engine_kind, status.front_end, status.page, status.version),
                1.0 if status.page else None,
            )
        ],
    ),
    _target(
        "spec_decode_exporter_polls_total",
        kind=MetricKind.COUNTER,
        help="Polls of the target, failed ones included.",
        read=lambda status: [((), status.polls)],
    ),
    _target(
        "spec_decode_exporter_poll_failures_total",
        kind=MetricKind.COUNTER,
        help="Polls of the target that failed, by reason.",
        labels=("reason",),
        read=_failures,
    ),
    _target(
        "spec_decode_exporter_engines_forgotten_total",
        kind=MetricKind.COUNTER,
        help=f"Engines of the target that were forgotten for newer ones: {MAX_ENGINES} are kept. Above 0, the "
        "server gives its engines or models ever new names.",
        read=lambda status: [((), status.engines_forgotten)],
    ),
    _target(
        "spec_decode_exporter_engines_not_watched",
        help="Engines on the target's page that are not watched: `limits.engines` of all targets together is reached.",
        read=lambda status: [((), status.engines_not_watched)],
    ),
    _target(
        "spec_decode_exporter_poll_seconds",
        help="How long the newest answer took.",
        read=lambda status: [((), status.poll_seconds)],
    ),
    _target(
        "spec_decode_exporter_poll_bytes",
        help="How large the newest answer was, unpacked.",
        read=lambda status: [((), status.poll_bytes)],
    ),
    _target(
        "spec_decode_exporter_poll_interval_seconds",
        help="The interval at which the target is polled now; longer than configured where its answers cost much.",
        read=lambda status: [((), status.interval)],
    ),
    _target(
        "spec_decode_exporter_last_success_timestamp_seconds",
        help="When a poll of the target last succeeded.",
        read=lambda status: [((), status.last_success)],
    ),
)

EXPORTER_METRICS: tuple[Metric[ExporterStatus], ...] = (
    _own(
        "spec_decode_exporter_build_info",
        help="The exporter's version, revision and Python; always 1.",
        labels=("version", "revision", "python_version"),
        read=lambda status: [((status.version, status.revision, status.python_version), 1)],
    ),
    _own(
        "spec_decode_exporter_targets",
        help="Targets that are watched, by the way they were found.",
        labels=("discovery",),
        read=lambda status: [((kind,), count) for kind, count in status.targets.items()],
    ),
    _own(
        "spec_decode_exporter_targets_not_watched",
        help="Targets that were found and are not watched: `limits.engines` is reached.",
        read=lambda status: [((), status.targets_not_watched)],
    ),
    _own(
        "spec_decode_exporter_config_last_reload_successful",
        help="Whether the last reading of the configuration succeeded.",
        read=lambda status: [((), float(status.reload_successful))],
    ),
    _own(
        "spec_decode_exporter_config_last_reload_success_timestamp_seconds",
        help="When the configuration in force was read.",
        read=lambda status: [((), status.reload_success_timestamp)],
    ),
    _own(
        "spec_decode_exporter_config_hash",
        help="A number made from the configuration in force: equal for equal configurations.",
        read=lambda status: [((), status.config_hash)],
    ),
    _own(
        "spec_decode_exporter_web_config_last_reload_successful",
        help="Whether the last reading of the file of --web.config.file succeeded; absent without one.",
        read=lambda status: [
            ((), None if status.web_reload_successful is None else float(status.web_reload_successful))
        ],
    ),
)

CATALOGUE: tuple[Metric[Any], ...] = (
    *ENGINE_METRICS,
    *EXPERIMENT_METRICS,
    *REQUEST_METRICS,
    *TARGET_METRICS,
    *EXPORTER_METRICS,
)
NAMES = frozenset(metric.name for metric in CATALOGUE)
