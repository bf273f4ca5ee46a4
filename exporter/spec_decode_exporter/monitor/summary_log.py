"""Summary log: a line for each engine every ``log.summary_interval``, with the fields of vLLM's own line.

vLLM writes, every ten seconds with drafts, "SpecDecoding metrics: Mean acceptance length: 2.91, ..."
(``SpecDecodingLogging`` in vllm/v1/spec_decode/metrics.py). A line here has the same fields with the same
names, then figures with the names of the exporter's metrics, all of the longest window.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import structlog

from spec_decode_exporter.analysis.figure_table import FIGURE
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.snapshot import EngineSnapshot

_DIGITS: Final = 4
"""Decimals: a tenth of a millisecond, a hundredth of a percent."""
_FIGURES: Final = (
    "acceptance_length_tokens",
    "draft_acceptance_ratio",
    "estimated_speedup_ratio",
    "time_per_output_token_seconds",
    "time_to_first_token_seconds",
    "prefix_cache_hit_ratio",
)

_log = structlog.get_logger()


async def write_summaries(interval: float, fleet: Fleet) -> None:
    """Write a line for each engine every ``interval`` seconds, until cancelled."""
    clock = fleet.shared.clock
    due = clock.monotonic()
    while True:
        due = max(due + interval, clock.monotonic())
        await clock.sleep_until(due)
        for labels, snapshot in fleet.engines():
            work = partial(summary_line, labels, snapshot)
            line = fleet.shared.errors.attempt("summary", labels, work)
            if line:
                _log.info("engine_summary", **line)
            await yield_to_event_loop()


def summary_line(labels: Mapping[str, str], snapshot: EngineSnapshot) -> dict[str, object] | None:
    """Return the fields of an engine's line, without unknown ones; None without drafts in the window."""
    evaluation = snapshot.evaluation
    if not evaluation.windows or not evaluation.longest.total.drafts:
        return None
    longest, total = evaluation.longest, evaluation.longest.total
    seconds, positions = longest.window.seconds, longest.positions
    rates = [_rounded(rate) for rate in positions.acceptance]
    fields: dict[str, object] = {
        **{name: labels[name] for name in ("target", "model_name", "engine")},
        "window": longest.label,
        "seconds": seconds,
        "drafts": total.drafts,
        "mean_acceptance_length": longest.acceptance_length_tokens,
        "accepted_throughput": ratio(total.accepted_tokens, seconds),
        "drafted_throughput": ratio(total.draft_tokens, seconds),
        "accepted_tokens": total.accepted_tokens,
        "drafted_tokens": total.draft_tokens,
        "per_position_acceptance_rate": rates if positions.are_known else None,
        "avg_draft_acceptance_rate": longest.draft_acceptance_ratio,
        "state": str(evaluation.state),
        "verdict": str(evaluation.verdict),
        "recommendation": str(evaluation.action),
        "configured_tokens": snapshot.tokens or None,
        "recommended_tokens": evaluation.decision.advice.tokens,
    }
    for figure in map(FIGURE.__getitem__, _FIGURES):
        fields[figure.key] = figure.of(longest)
        if figure.bounds and (bounds := figure.bounds(longest)):
            fields |= {f"{figure.key}_lower": bounds.lower, f"{figure.key}_upper": bounds.upper}
    return {name: _rounded(value) for name, value in fields.items() if value is not None}


def _rounded(value: object) -> object:
    return round(value, _DIGITS) if isinstance(value, float) else value
