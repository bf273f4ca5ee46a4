"""Alerts about latency, memory and errors of servers that speculate."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.rule import WHERE, WHOLE, Alert, now

SERVER: Final = (
    Alert(
        "SpecDecodeTailLatencyWidening",
        summary="The slowest requests are slower than before, relative to the median.",
        action="Lower --max-num-seqs or add replicas if requests wait.",
        description=f"{WHERE}: "
        'p99 of the time per output token was {{ printf "%.1f" $value }} times p50 in the last 30 minutes, more '
        "than @widening times what it was over the day before.",
        expr="""
        avg_over_time(engine:spec_decode_time_per_output_token_tail:ratio[30m])
          > @widening * avg_over_time(engine:spec_decode_time_per_output_token_tail:ratio[1d] offset 1h)
        and avg_over_time(engine:spec_decode_time_per_output_token_tail:ratio[30m]) > @least
        and increase(spec_decode_first_tokens_total[30m]) >= @requests
        # Not in the first hours of a new engine.
        and last_over_time(engine:spec_decode_time_per_output_token_tail:ratio[2h] offset 4h)
        """,
    ),
    Alert(
        "SpecDecodeKvCachePressure",
        summary="The KV cache of an engine that speculates is nearly full.",
        action=f"Lower --max-num-seqs or num_speculative_tokens (now {now('spec_decode_configured_tokens', WHOLE)}), or add replicas.",
        description=f"{WHERE}: "
        "{{ $value | humanizePercentage }} of the KV cache was in use over the last 10 minutes; "
        f"{now('spec_decode_waiting_requests', WHOLE, window='@long')} requests wait. Draft tokens and "
        "a draft model's cache use part of it.",
        expr="""
        avg_over_time(spec_decode_kv_cache_usage_ratio{window="@long"}[10m]) > @usage
        and ignoring (window) rate(spec_decode_drafts_total[10m]) > 0
        """,
    ),
    Alert(
        "SpecDecodePrefixCacheLost",
        summary="An engine that speculates finds no prompt token in its prefix cache; this model had hits.",
        action="Restart with prefix caching, or without --speculative-config if the method excludes it.",
        description=f"{WHERE}: "
        "no prompt token was found in the prefix cache for at least @for. Engines of this model found more than "
        "{{ @hits | humanizePercentage }} within the last day. The mean time to first token is "
        f"{now('spec_decode_time_to_first_token_seconds', 'humanizeDuration', window='@long')}.",
        expr="""
        max_over_time(spec_decode_prefix_cache_hit_ratio{window="@long"}[15m]) == 0
        and ignoring (window) increase(spec_decode_first_tokens_total[15m]) >= @requests
        and ignoring (window) rate(spec_decode_drafts_total[15m]) > 0
        # This engine before, or another one now: prompts of this model have common beginnings.
        and on (@model)
          max by (@model) (max_over_time(spec_decode_prefix_cache_hit_ratio{window="@long"}[1d])) > @hits
        """,
    ),
    Alert(
        "SpecDecodePreemptionStorm",
        summary="An engine that speculates preempts running requests for lack of KV cache.",
        action="Lower --max-num-seqs, or raise --gpu-memory-utilization.",
        description=f"{WHERE}: "
        '{{ printf "%.2f" $value }} preemptions a second over up to 10 minutes; each computes a request again from scratch.',
        expr="""
        avg_over_time(spec_decode_preemptions_per_second{window="@long"}[10m]) > @per_second
        and ignoring (window) (
          sum without (window) (avg_over_time(spec_decode_preemptions_per_second{window="@long"}[10m]))
            > @per_request * rate(spec_decode_first_tokens_total[10m])
        )
        and ignoring (window) rate(spec_decode_drafts_total[10m]) > 0
        """,
    ),
    Alert(
        "SpecDecodeServerErrorsRising",
        summary="More requests of a model that speculates end in errors, aborts or repetition.",
        action="Read vLLM's log for the cause, and roll back the last change.",
        description="{{ $labels.model_name }}: "
        "{{ $value | humanizePercentage }} of the requests of up to 15 minutes ended with {{ "
        "$labels.finished_reason }}, more than @rise times what it was a day before, where that is known.",
        expr="""
        (
          model:vllm_finished_requests:ratio_rate15m{finished_reason="error"} > @error
          or model:vllm_finished_requests:ratio_rate15m{finished_reason="abort"} > @abort
          or model:vllm_finished_requests:ratio_rate15m{finished_reason="repetition"} > @repetition
        )
        unless (
          model:vllm_finished_requests:ratio_rate15m
            <= @rise * (model:vllm_finished_requests:ratio_rate15m offset 1d)
        )
        and on (@model) model:vllm_requests:rate15m * 900 >= @requests
        # vLLM and the exporter are different jobs of Prometheus: only the model's name is the same.
        and on (model_name) sum by (model_name) (rate(spec_decode_drafts_total[1h])) > 0
        """,
        dashboard="spec-decode-overview",
        variables=("model_name",),
    ),
)
