"""Conditions of findings about whole requests. Each returns the finding's numbers, or None."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.findings.finding_context import FindingContext, Values
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.figures.request_time import time_to_first_token_seconds
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window

MIN_LOOKED_UP: Final = 10_000
"""Prompt tokens that are many enough for at least one hit: several blocks of any size."""
MIN_REQUESTS: Final = 20
"""Requests that are many enough for at least one common beginning, such as a system prompt."""
MIN_HITS: Final = 0.01
"""Share of prompt tokens from the cache below which a baseline had no hits to lose."""


def prefix_cache_lost(context: FindingContext) -> Values | None:
    """Condition: many look-ups in the prefix cache and no hit, and a baseline, if known, had hits.

    vLLM counts no look-ups if the prefix cache is disabled.
    """
    window, baseline = context.window, context.request_baseline
    queries, requests = window[Counter.PREFIX_CACHE_QUERIES], window[Counter.FIRST_TOKENS]
    if window[Counter.PREFIX_CACHE_HITS] != 0 or queries is None or requests is None:
        return None
    if queries < MIN_LOOKED_UP or requests < MIN_REQUESTS or _had_no_hits(baseline):
        return None
    return {
        "requests": requests,
        "queries": queries,
        "seconds": window.seconds,
        **({} if baseline is None else _before(window, baseline)),
    }


def _had_no_hits(baseline: RequestBaseline | None) -> bool:
    hits = None if baseline is None else baseline.prefix_hit_ratio
    return hits is not None and hits < MIN_HITS


def _before(window: Window, baseline: RequestBaseline) -> Values:
    """Return the numbers that make a loss more certain: hits and time to first token of the baseline."""
    values = {} if baseline.prefix_hit_ratio is None else {"hits_without": baseline.prefix_hit_ratio}
    first_token = time_to_first_token_seconds(window)
    if first_token is None:
        return values
    return {**values, "first_token": first_token, "first_token_without": baseline.first_token_seconds}
