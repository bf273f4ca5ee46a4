"""Alerts about whether speculation pays."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.rule import WHERE, WHOLE, Alert, now, set_tokens

# The counters of positions that are no longer drafted stay on the page and do not grow. Windows restart when K changes,
# so their positions are the current ones. Within an hour after a change of K, the hour contains both.
_LAST: Final = """
        min without (position) (
          rate(spec_decode_position_accepted_tokens_total[1h])
          and ignoring (window) last_over_time(spec_decode_position_acceptance_ratio{window="@long"}[15m])
        )
          / rate(spec_decode_drafts_total[1h])"""

_SAME_K: Final = "and changes(spec_decode_configured_tokens[1h]) == 0"

_OF_ARM: Final = '{basis="time_per_output_token", window="@long"}'
_LOWER: Final = f"spec_decode_experiment_speedup_ratio_lower{_OF_ARM}"
_UPPER: Final = f"spec_decode_experiment_speedup_ratio_upper{_OF_ARM}"

PAY: Final = (
    Alert(
        "SpecDecodeNetSlowdown",
        summary="Speculative decoding makes an engine slower than plain decoding.",
        action=set_tokens(
            f"Lower num_speculative_tokens (now {now('spec_decode_configured_tokens', WHOLE)}), or restart without --speculative-config"
        ),
        description=f"{WHERE}: for at least @for the speed-up was at most "
        '{{ printf "%.2f" $value }} even at its upper 95 % bound; the estimate is '
        f"{now('spec_decode_estimated_speedup_ratio', window='@long')} at "
        f"{now('spec_decode_running_requests', WHOLE, window='@long')} running requests.",
        expr="""
        max_over_time(spec_decode_estimated_speedup_ratio_upper{window="@long"}[10m]) < @speedup
        # The verdict covers the time since the last change alone; five minutes may contain other traffic.
        and ignoring (window, verdict) last_over_time(spec_decode_verdict{verdict="harmful"}[5m]) == 1
        and ignoring (window) increase(spec_decode_drafts_total[10m]) >= @drafts
        """,
    ),
    Alert(
        "SpecDecodeAcceptanceBelowBreakEven",
        summary="The acceptance ratio of an engine is below break-even.",
        action=set_tokens(
            f"Lower num_speculative_tokens (now {now('spec_decode_configured_tokens', WHOLE)}), or restart without --speculative-config"
        ),
        description=f"{WHERE}: "
        "{{ $value | humanizePercentage }} of the draft tokens of the last 30 minutes were accepted; break-even is "
        f"{now('spec_decode_break_even_acceptance_ratio', 'humanizePercentage')}.",
        expr="""
        rate(spec_decode_accepted_tokens_total[30m]) / rate(spec_decode_draft_tokens_total[30m])
          < @margin * avg_over_time(spec_decode_break_even_acceptance_ratio[30m])
        and increase(spec_decode_drafts_total[30m]) >= @drafts
        # At the lowest possible cost too. One that is only typical, or by sizes, is a guess: it never fires the alert.
        and avg_over_time(spec_decode_break_even_cost_ratio[30m])
          < min without (source) (avg_over_time(spec_decode_draft_cost_ratio_lower{source!~"typical|sizes"}[30m]))
        """,
    ),
    Alert(
        "SpecDecodeAcceptanceLengthLow",
        summary="A draft yields barely more than the one token of a plain decoding step.",
        action=set_tokens(
            f"Lower num_speculative_tokens (now {now('spec_decode_configured_tokens', WHOLE)}), or restart without --speculative-config"
        ),
        description=f"{WHERE}: "
        'a draft gave {{ printf "%.2f" $value }} tokens on average over up to 30 minutes, including the '
        "bonus token; below @length speculation rarely pays.",
        expr="""
        1 + rate(spec_decode_accepted_tokens_total[30m]) / rate(spec_decode_drafts_total[30m]) < @length
        and increase(spec_decode_drafts_total[30m]) >= @drafts
        # Not if drafting is cheap enough to pay even then, at every possible cost.
        unless ignoring (window) min_over_time(spec_decode_estimated_speedup_ratio_lower{window="@long"}[10m]) > 1
        """,
    ),
    Alert(
        "SpecDecodeArmSlower",
        summary="An arm of a comparison is slower than its baseline at comparable load.",
        action="Send the requests of arm {{ $labels.@arm }} to arm @baseline.",
        description="{{ $labels.model_name }}: arm {{ $labels.@arm }} gives output tokens at "
        "{{ $value | humanizePercentage }} of the speed of arm @baseline, over up to 30 minutes.",
        expr="""
        arm:spec_decode_speedup:to_baseline_rate30m < @speedup
        and arm:spec_decode_first_tokens:rate30m * 1800 >= @requests
        and ignoring (@arm) arm:spec_decode_first_tokens:rate30m{@arm="@baseline"} * 1800 >= @requests
        """,
        dashboard="spec-decode-experiments",
        variables=("model_name",),
    ),
    Alert(
        "SpecDecodeExperimentArmLostItsGain",
        summary="An arm of an experiment is no longer significantly faster than its baseline (95 %).",
        action="Send the requests of arm {{ $labels.arm }} to {{ $labels.baseline }}, or look for what changed in the arm.",
        description="Experiment {{ $labels.experiment }} ({{ $labels.instance }}): for 15 minutes arm "
        '{{ $labels.arm }} was at most {{ printf "%.2f" $value }} times as fast as {{ $labels.baseline }}, by the '
        "time per output token and even at its upper 95 % bound; on the day before it was faster than that even at "
        "its lower one.",
        expr=f"""
        max_over_time({_UPPER}[15m])
          < (quantile_over_time(0.5, {_LOWER}[1d] offset 30m) > @gain)
        # It had a gain for hours, and has none now that is statistically significant.
        and last_over_time({_LOWER}[30m] offset 2h) > @gain
        and max_over_time({_LOWER}[15m]) <= @gain
        # It is compared now.
        and last_over_time({_LOWER}[5m])
        """,
        dashboard="spec-decode-experiments",
        variables=("instance", "experiment"),
    ),
    Alert(
        "SpecDecodeLastPositionWasted",
        summary="The last draft positions are hardly ever accepted; fewer draft tokens would do.",
        action=set_tokens(
            f"Set num_speculative_tokens one lower (now {now('spec_decode_configured_tokens', WHOLE)})"
        ),
        description=f"{WHERE}: "
        "the last position was accepted in {{ $value | humanizePercentage }} of the drafts of up to an hour.",
        expr=f"""{_LAST}
          < @acceptance
        {_SAME_K}
        and increase(spec_decode_drafts_total[1h]) >= @drafts
        # With one token there is none to remove.
        and last_over_time(spec_decode_configured_tokens[15m]) > 1
        # If the draft cost is known, only if the exporter recommends a change: an equally good smaller number is not
        # worth a restart.
        unless (
          max without (basis) (last_over_time(spec_decode_recommended_tokens[15m]))
          unless sum without (action) (
            avg_over_time(spec_decode_recommendation{{action=~"decrease|disable"}}[1h])
          ) >= @share
        )
        """,
    ),
    Alert(
        "SpecDecodeLongerDraftWorthTrying",
        summary="The last draft position is accepted often; more draft tokens may be faster.",
        action=set_tokens(
            f"Try num_speculative_tokens one higher (now {now('spec_decode_configured_tokens', WHOLE)})"
        ),
        description=f"{WHERE}: "
        "the last position was accepted in {{ $value | humanizePercentage }} of the drafts of up to an hour.",
        expr=f"""{_LAST}
          > @acceptance
        {_SAME_K}
        and ignoring (action) avg_over_time(spec_decode_recommendation{{action="increase"}}[1h]) >= @share
        and increase(spec_decode_drafts_total[1h]) >= @drafts
        """,
    ),
    Alert(
        "SpecDecodeScheduleFlips",
        summary="The load of an engine lies at a boundary of its schedule, so the number of draft tokens flips.",
        action="Move the boundary of num_speculative_tokens_per_batch_size away from this load; `spec-decode-exporter "
        "recommend` chooses boundaries.",
        description=f"{WHERE}: "
        "the number of draft tokens changed in {{ $value | humanizePercentage }} of the polls of the last 15 minutes, at "
        f"{now('spec_decode_running_requests', WHOLE, window='@long')} running requests.",
        expr="""
        avg_over_time(spec_decode_schedule_change_ratio{window="@long"}[15m]) >= @share
        # Absent without a schedule: one that was removed does not keep it firing.
        and last_over_time(spec_decode_schedule_change_ratio{window="@long"}[5m])
        """,
    ),
)
