"""Situations in which no alert may fire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.prometheus.generate.case import EXPORTER, Counter, Gauge, Series, gauge, of
from config.prometheus.generate.cases.requests import asked
from config.prometheus.generate.cases.traffic import described, drafting, evaluated, watched

_MINUTES: Final = 150.0


@dataclass(frozen=True, slots=True)
class Situation:
    """Series, and no alert after some minutes."""

    title: str
    series: Series
    at: float
    but: frozenset[str] = frozenset()
    """Alerts that are about just this."""


def _windowed(**values: float | None) -> Series:
    return {
        of(f"spec_decode_{name}", window="5m"): gauge((_MINUTES, value))
        for name, value in values.items()
        if value is not None
    }


def _compared(minutes: float) -> Series:
    """Return the arm of an experiment that is 1.5 times as fast as its baseline."""
    arm = {**EXPORTER, "experiment": "drafter", "arm": "eagle", "baseline": "off", "window": "5m"}
    return {
        of(f"spec_decode_experiment_speedup_ratio{bound}", arm, basis="time_per_output_token"): gauge(
            (minutes, value), (_MINUTES, None)
        )
        for bound, value in (("", 1.5), ("_lower", 1.42), ("_upper", 1.58))
    }


_WELL: Final = {
    **_compared(_MINUTES),
    **asked((_MINUTES, 1.0)),
    **watched(_MINUTES),
    **drafting(_MINUTES),
    **described(_MINUTES),
    **evaluated(_MINUTES, state="active", verdict="optimal", action="keep"),
    **_windowed(
        estimated_speedup_ratio=2.357,
        estimated_speedup_ratio_lower=2.29,
        estimated_speedup_ratio_upper=2.42,
        acceptance_length_tokens=3.30,
        draft_acceptance_ratio=0.575,
        draft_acceptance_ratio_lower=0.56,
        draft_acceptance_ratio_upper=0.59,
        running_requests=6,
        waiting_requests=0,
        kv_cache_usage_ratio=0.42,
        preemptions_per_second=0,
        generation_tokens_per_second=665,
        schedule_change_ratio=0.05,
    ),
    of("spec_decode_break_even_acceptance_ratio"): gauge((_MINUTES, 0.1)),
    of("spec_decode_break_even_cost_ratio"): gauge((_MINUTES, 0.575)),
    of("spec_decode_draft_cost_ratio", source="configured"): gauge((_MINUTES, 0.1)),
    of("spec_decode_draft_cost_ratio_lower", source="configured"): gauge((_MINUTES, 0.075)),
    of("spec_decode_recommended_tokens", basis="measured"): gauge((_MINUTES, 4)),
    of("spec_decode_baseline_acceptance_length_tokens"): gauge((_MINUTES, 3.28)),
    of("spec_decode_reference_acceptance_ratio"): gauge((_MINUTES, 0.58)),
    of("spec_decode_time_per_output_token_quantile_seconds", window="5m", quantile="0.5"): gauge(
        (_MINUTES, 0.0091)
    ),
    of("spec_decode_time_per_output_token_quantile_seconds", window="5m", quantile="0.99"): gauge(
        (_MINUTES, 0.019)
    ),
}


def _stopped(name: str, values: Counter | Gauge) -> Counter | Gauge:
    """Return a counter of the server's that stands where it stood when traffic ended."""
    mine = name.startswith(("up", "spec_decode_exporter_"))
    if isinstance(values, Gauge) or mine:
        return values
    return Gauge(tuple((minutes, rate * 86_400) for minutes, rate in values.phases))


_IDLE: Final = {
    **_compared(_MINUTES - 30),
    **asked((_MINUTES - 30, 1.0), (30, None)),
    **watched(_MINUTES),
    **{name: _stopped(name, values) for name, values in drafting(_MINUTES).items()},
    **described(_MINUTES),
    # What is over a sum of nothing is absent: ratios, bounds, speed-up, break-even, quantiles.
    **evaluated(_MINUTES, state="idle", verdict="insufficient", action="collect"),
    **_windowed(
        running_requests=0,
        waiting_requests=0,
        kv_cache_usage_ratio=0,
        preemptions_per_second=0,
        generation_tokens_per_second=0,
    ),
    of("spec_decode_draft_cost_ratio", source="configured"): gauge((_MINUTES, 0.1)),
    of("spec_decode_baseline_acceptance_length_tokens"): gauge((_MINUTES, 3.28)),
    of("spec_decode_reference_acceptance_ratio"): gauge((_MINUTES, 0.58)),
}

SILENT: Final = (
    Situation("a busy engine in good health", _WELL, at=_MINUTES),
    Situation("an idle server", _IDLE, at=_MINUTES),
    Situation("no data", {}, at=30, but=frozenset({"SpecDecodeExporterAbsent"})),
)
