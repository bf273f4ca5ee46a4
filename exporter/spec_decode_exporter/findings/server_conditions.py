"""Conditions of findings about the server. Each returns the finding's numbers, or None."""

from __future__ import annotations

from collections.abc import Callable

from spec_decode_exporter.findings.finding_context import FindingContext, Values, above, below
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.speculation_state import State, drafts_what_it_finds
from spec_decode_exporter.figures.acceptance import (
    acceptance_length_tokens,
    coverage_ratio,
    effective_tokens_per_step,
)
from spec_decode_exporter.figures.latency import decoded_tokens, quantile
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency

TRIMMED = 0.05
"""Share of discarded tokens above which the acceptance length misleads."""
LOSSY_REJECTION = frozenset({"fly"})
"""vLLM's rejection methods that accept tokens which the target model would not generate.

``standard`` and ``block`` are exact. ``synthetic`` is for benchmarks: it fixes the acceptance.
"""
TAIL_OBSERVATIONS = 100
"""Observations that a 99th percentile needs; of fewer it is only the slowest one."""


def is_broken(check: Check) -> Callable[[FindingContext], Values | None]:
    """Return the condition of a broken identity of the counters; the log has the numbers."""
    return lambda context: {} if check in context.broken else None


def stalled(context: FindingContext) -> Values | None:
    """Condition: the engine drafted before, and does not now."""
    if context.state is not State.STALLED:
        return None
    return {"seconds": context.window.seconds, "least_steps": context.policy.min_drafts}


def low_coverage(context: FindingContext) -> Values | None:
    """Condition: many steps without a draft, with a method that searches for repeated text."""
    return None if _should_always_draft(context) else _coverage(context)


def drafting_paused(context: FindingContext) -> Values | None:
    """Condition: many steps without a draft, with a method that drafts in every step."""
    return _coverage(context) if _should_always_draft(context) else None


def _should_always_draft(context: FindingContext) -> bool:
    """Return whether the method drafts in every step; False for an unknown method."""
    method = context.speculation.method
    return bool(method) and not drafts_what_it_finds(method)


def _coverage(context: FindingContext) -> Values | None:
    """Return the share of steps with a draft if it is low; None if a schedule pauses drafting."""
    if context.speculation.schedule.pauses:
        return None
    window = context.window
    length, effective = acceptance_length_tokens(window), effective_tokens_per_step(window)
    values = below("coverage", coverage_ratio(window), context.policy.findings.low_coverage)
    if values is None or length is None or effective is None:
        return None
    return {**values, "length": length, "effective_tokens": effective}


def lossy_rejection(context: FindingContext) -> Values | None:
    """Condition: the server accepts draft tokens that exact rejection sampling would reject."""
    return {} if context.speculation.rejection_method in LOSSY_REJECTION else None


def trimmed_tokens(context: FindingContext) -> Values | None:
    """Condition: many accepted tokens were discarded.

    A step yields one token and the accepted ones of its draft. Fewer tokens were generated.
    """
    steps, accepted = context.window[Counter.DECODE_STEPS], context.window[Counter.ACCEPTED_TOKENS]
    decoded = decoded_tokens(context.window)
    if steps is None or accepted is None or decoded is None:
        return None
    lost = steps + accepted - decoded
    share = ratio(lost, steps + accepted)
    return {"lost": lost, "counted": steps + accepted, "share": share} if share and share > TRIMMED else None


def token_time_tail(context: FindingContext) -> Values | None:
    """Condition: the 99th percentile of the time per output token is far above the median."""
    return _tail(context, Latency.TIME_PER_OUTPUT_TOKEN)


def decode_step_tail(context: FindingContext) -> Values | None:
    """Condition: the 99th percentile of the time of a decode step is far above the median."""
    return _tail(context, Latency.DECODE_STEP)


def _tail(context: FindingContext, latency: Latency) -> Values | None:
    buckets = context.latencies.get(latency)
    if buckets is None or not buckets.counts or buckets.counts[-1] < TAIL_OBSERVATIONS:
        return None
    median, slow = quantile(0.5, buckets), quantile(0.99, buckets)
    times = ratio(slow, median)
    if slow is None or median is None or times is None or times <= context.policy.findings.tail_ratio:
        return None
    return {"p50": median, "p99": slow, "ratio": times}


def kv_pressure(context: FindingContext) -> Values | None:
    """Condition: the KV cache is full, and requests are preempted."""
    preemptions, threshold = context.window[Counter.PREEMPTIONS], context.policy.findings.kv_cache_usage
    values = above("usage", mean(context.window, Gauge.KV_CACHE_USAGE), threshold)
    if values is None or not preemptions:
        return None
    return {**values, "preemptions": preemptions, "seconds": context.window.seconds}
