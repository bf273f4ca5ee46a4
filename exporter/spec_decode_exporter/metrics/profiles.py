"""Metrics of each profile, and the windows that the two smaller profiles export of them.

``standard`` has what ``ESSENTIAL`` lists and what a shipped file reads: alerts, rules, dashboards,
docs/guide/integrations.md and questions.md. It has nothing else: a test compares both.
``minimal`` has the verdict, the advice, drops, what the page shows first, and the exporter's own metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spec_decode_exporter.config.schema import Profile

ESSENTIAL: Final = frozenset(
    {
        # throughput
        "spec_decode_drafts_per_second",
        "spec_decode_draft_tokens_per_second",
        "spec_decode_accepted_tokens_per_second",
        # acceptance with its bounds, over polls and over users
        "spec_decode_acceptance_length_tokens_lower",
        "spec_decode_acceptance_length_tokens_upper",
        "spec_decode_poll_acceptance_ratio",
        "spec_decode_interval_acceptance_ratio_min",
        "spec_decode_interval_acceptance_ratio_max",
        "spec_decode_interval_acceptance_quantile_ratio",
        "spec_decode_user_requests",
        "spec_decode_user_acceptance_ratio",
        # requests
        "spec_decode_request_saved_tokens_total",
        # engines without usable counters
        "spec_decode_engine_reported_acceptance_ratio",
        "spec_decode_engine_reported_acceptance_length_tokens",
    }
)
"""What the exporter is for: part of ``standard``, whether a shipped file reads it or not."""

_MINIMAL: Final = frozenset(
    {
        # counters
        "spec_decode_drafts_total",
        "spec_decode_draft_tokens_total",
        "spec_decode_accepted_tokens_total",
        "spec_decode_generation_tokens_total",
        # acceptance
        "spec_decode_draft_acceptance_ratio",
        "spec_decode_acceptance_length_tokens",
        # sums
        "spec_decode_window_seconds",
        # load
        "spec_decode_running_requests",
        # pay
        "spec_decode_engine_info",
        "spec_decode_configured_tokens",
        "spec_decode_draft_cost_ratio",
        "spec_decode_break_even_acceptance_ratio",
        "spec_decode_estimated_speedup_ratio",
        "spec_decode_estimated_speedup_ratio_lower",
        "spec_decode_estimated_speedup_ratio_upper",
        "spec_decode_end_to_end_speedup_ratio",
        "spec_decode_recommended_tokens",
        "spec_decode_state",
        "spec_decode_verdict",
        "spec_decode_recommendation",
        # drops
        "spec_decode_baseline_acceptance_length_tokens",
        "spec_decode_acceptance_dropped",
        "spec_decode_acceptance_drops_total",
        # integrity
        "spec_decode_consistent",
        "spec_decode_engine_resets_total",
        # experiments
        "spec_decode_experiment_speedup_ratio",
        "spec_decode_experiment_speedup_ratio_lower",
        "spec_decode_experiment_speedup_ratio_upper",
        "spec_decode_experiment_comparable",
        "spec_decode_experiment_winner",
        # requests
        "spec_decode_requests_total",
        "spec_decode_window_requests",
        "spec_decode_requests_below_break_even_ratio",
        "spec_decode_request_speedup_ratio",
        "spec_decode_request_speedup_ratio_lower",
        "spec_decode_request_speedup_ratio_upper",
        "spec_decode_request_effect",
        "spec_decode_mixed_workload",
        "spec_decode_acceptance_falls_with_prompt",
        # exporter
        "spec_decode_exporter_requests_taken_total",
        "spec_decode_exporter_requests_refused_total",
        "spec_decode_exporter_requests_folded_total",
        "spec_decode_exporter_target_up",
        "spec_decode_exporter_target_error",
        "spec_decode_exporter_target_engines",
        "spec_decode_exporter_target_info",
        "spec_decode_exporter_polls_total",
        "spec_decode_exporter_poll_failures_total",
        "spec_decode_exporter_poll_seconds",
        "spec_decode_exporter_poll_bytes",
        "spec_decode_exporter_poll_interval_seconds",
        "spec_decode_exporter_last_success_timestamp_seconds",
        "spec_decode_exporter_build_info",
        "spec_decode_exporter_web_info",
        "spec_decode_exporter_targets",
        "spec_decode_exporter_config_last_reload_successful",
        "spec_decode_exporter_config_last_reload_success_timestamp_seconds",
        "spec_decode_exporter_config_hash",
        "spec_decode_exporter_web_config_last_reload_successful",
    }
)

_STANDARD: Final = (
    _MINIMAL
    | ESSENTIAL
    | frozenset(
        {
            # counters
            "spec_decode_first_tokens_total",
            "spec_decode_decode_steps_total",
            "spec_decode_decode_seconds_total",
            "spec_decode_position_accepted_tokens_total",
            # acceptance
            "spec_decode_position_acceptance_ratio",
            "spec_decode_position_conditional_acceptance_ratio",
            "spec_decode_acceptance_decay_ratio",
            "spec_decode_draft_length_tokens",
            "spec_decode_coverage_ratio",
            "spec_decode_effective_tokens_per_step",
            "spec_decode_draft_acceptance_ratio_lower",
            "spec_decode_draft_acceptance_ratio_upper",
            # rates
            "spec_decode_generation_tokens_per_second",
            # sums
            "spec_decode_window_draft_tokens",
            "spec_decode_window_accepted_tokens",
            "spec_decode_window_decode_seconds",
            # latency
            "spec_decode_step_seconds",
            "spec_decode_first_token_time_ratio",
            "spec_decode_time_per_output_token_seconds",
            "spec_decode_time_to_first_token_seconds",
            "spec_decode_time_to_first_token_quantile_seconds",
            "spec_decode_time_per_output_token_quantile_seconds",
            # load
            "spec_decode_waiting_requests",
            "spec_decode_kv_cache_usage_ratio",
            "spec_decode_prefix_cache_hit_ratio",
            "spec_decode_preemptions_per_second",
            # pay
            "spec_decode_end_to_end_speedup_ratio_lower",
            "spec_decode_end_to_end_speedup_ratio_upper",
            "spec_decode_draft_cost_ratio_lower",
            "spec_decode_draft_cost_ratio_upper",
            "spec_decode_crossover_running_requests",
            "spec_decode_speedup_ceiling_ratio",
            "spec_decode_break_even_cost_ratio",
            "spec_decode_break_even_cost_ratio_lower",
            "spec_decode_break_even_cost_ratio_upper",
            "spec_decode_depth_speedup_ratio",
            "spec_decode_schedule_change_ratio",
            # drops
            "spec_decode_baseline_acceptance_length_tokens_stddev",
            "spec_decode_reference_acceptance_ratio",
            # exporter
            "spec_decode_exporter_engines_not_monitored",
            "spec_decode_exporter_targets_not_monitored",
            "spec_decode_exporter_log_lines_dropped_total",
            # experiments
            "spec_decode_experiment_acceptance_length_tokens",
            "spec_decode_experiment_requests",
            "spec_decode_experiment_engines",
            # requests
            "spec_decode_request_acceptance_ratio",
            "spec_decode_request_acceptance_quantile_ratio",
            "spec_decode_request_acceptance_length_quantile_tokens",
            "spec_decode_request_time_per_output_token_quantile_seconds",
            "spec_decode_window_evaluated_requests",
            "spec_decode_pathological_requests",
            "spec_decode_prompt_acceptance_length_tokens",
        }
    )
)

PROFILES: Final[Mapping[Profile, frozenset[str]]] = {Profile.MINIMAL: _MINIMAL, Profile.STANDARD: _STANDARD}
"""Names of the metrics of each profile; ``full`` has all."""

LONGEST_WINDOW: Final = frozenset(
    {
        # rates
        "spec_decode_drafts_per_second",
        "spec_decode_draft_tokens_per_second",
        "spec_decode_accepted_tokens_per_second",
        # distribution
        "spec_decode_interval_acceptance_ratio_min",
        "spec_decode_interval_acceptance_ratio_max",
        "spec_decode_interval_acceptance_quantile_ratio",
        # acceptance
        "spec_decode_acceptance_length_tokens_lower",
        "spec_decode_acceptance_length_tokens_upper",
        "spec_decode_position_conditional_acceptance_ratio",
        "spec_decode_acceptance_decay_ratio",
        "spec_decode_draft_length_tokens",
        "spec_decode_draft_acceptance_ratio_lower",
        "spec_decode_draft_acceptance_ratio_upper",
        # sums
        "spec_decode_window_decode_seconds",
        # latency
        "spec_decode_step_seconds",
        "spec_decode_first_token_time_ratio",
        "spec_decode_time_per_output_token_seconds",
        "spec_decode_time_to_first_token_seconds",
        # load
        "spec_decode_kv_cache_usage_ratio",
        "spec_decode_prefix_cache_hit_ratio",
        "spec_decode_preemptions_per_second",
        # pay
        "spec_decode_speedup_ceiling_ratio",
        "spec_decode_estimated_speedup_ratio_lower",
        "spec_decode_estimated_speedup_ratio_upper",
        "spec_decode_end_to_end_speedup_ratio",
        "spec_decode_end_to_end_speedup_ratio_lower",
        "spec_decode_end_to_end_speedup_ratio_upper",
        "spec_decode_schedule_change_ratio",
        # experiments
        "spec_decode_experiment_speedup_ratio",
        "spec_decode_experiment_speedup_ratio_lower",
        "spec_decode_experiment_speedup_ratio_upper",
        "spec_decode_experiment_comparable",
        "spec_decode_experiment_acceptance_length_tokens",
        "spec_decode_experiment_requests",
        "spec_decode_experiment_engines",
        # requests
        "spec_decode_window_requests",
        "spec_decode_request_acceptance_quantile_ratio",
        "spec_decode_request_acceptance_length_quantile_tokens",
        "spec_decode_request_time_per_output_token_quantile_seconds",
        "spec_decode_requests_below_break_even_ratio",
        "spec_decode_window_evaluated_requests",
        "spec_decode_request_speedup_ratio",
        "spec_decode_request_speedup_ratio_lower",
        "spec_decode_request_speedup_ratio_upper",
        "spec_decode_request_effect",
        "spec_decode_pathological_requests",
        "spec_decode_mixed_workload",
    }
)
"""Metrics of which these profiles export the longest window alone; no rule or panel reads another."""

SHORTEST_WINDOW: Final = frozenset({"spec_decode_generation_tokens_per_second"})
"""Metrics of which they export the shortest window alone."""


def smallest_profile(name: str) -> Profile:
    """Return the smallest profile that contains a metric."""
    return next((profile for profile, names in PROFILES.items() if name in names), Profile.FULL)
