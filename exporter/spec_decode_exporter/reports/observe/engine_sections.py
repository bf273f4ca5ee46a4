"""Sections of the report about one engine: one table of their titles and builders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.figures.quantile import Edges
from spec_decode_exporter.findings.finding import Severity
from spec_decode_exporter.reports.band_table import band_table
from spec_decode_exporter.reports.observe.depth_chart import GIVE_COST, depths
from spec_decode_exporter.reports.observe.figure_lines import figure_lines
from spec_decode_exporter.reports.observe.needs import DOUBTS
from spec_decode_exporter.reports.parts import Bar, Chart, Figure, Note, Part, ReportSection, Tone
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.views.engine_view import BucketView, EngineView, FindingView
from spec_decode_exporter.views.verdict_text import BASES
from spec_decode_exporter.views.window_view import WindowView

_LATENCIES: Final[Mapping[Latency, str]] = {
    Latency.TIME_PER_OUTPUT_TOKEN: "the same, by request",
    Latency.TIME_TO_FIRST_TOKEN: "time to first token",
    Latency.DECODE_STEP: "decode step",
    Latency.END_TO_END: "end to end",
}
_SOURCES: Final[Mapping[CostSource, str]] = {
    CostSource.EXPERIMENT: "as measured against the baseline of its experiment",
    CostSource.MEASURED: "as measured on this engine, with drafts and without",
    CostSource.BASELINE: "as measured against an earlier time without speculation",
    CostSource.CONFIGURED: "as it was given",
    CostSource.SIZES: "estimated from the sizes of both models",
    CostSource.TYPICAL: "the method's typical cost",
}
_SHOWN_ELSEWHERE: Final = frozenset({*DOUBTS, "typical_cost"})


def engine_sections(engine: EngineView) -> Iterator[ReportSection]:
    """Yield the sections of the engine's longest window."""
    for window in engine.windows[-1:]:
        for title, parts in _SECTIONS.items():
            yield ReportSection(title, tuple(parts(engine, window)))


def quantile(value: float | None, bucket: BucketView | None) -> str:
    """Write an interpolated quantile; the edges of its bucket if they are far apart."""
    if value is None or bucket is None:
        return numbers.duration(value)
    edges = Edges(bucket.lower, inf if bucket.upper is None else bucket.upper)
    if not edges.are_far_apart:
        return numbers.duration(value)
    in_seconds = (bucket.lower if bucket.upper is None else bucket.upper) >= 1
    return numbers.within(*edges, *((1.0, "s") if in_seconds else (1e-3, "ms")))


def _acceptance(engine: EngineView, window: WindowView) -> Iterator[Figure]:
    yield from _engine_reported(engine)
    if not window.counts.drafts:
        return
    coverage = "" if window.coverage_ratio is None else f"{window.coverage_ratio:.3f} of steps drafted"
    yield from figure_lines("Acceptance", window, {"effective_tokens_per_step": coverage})
    yield from _speedup(engine, window)


def _engine_reported(engine: EngineView) -> Iterator[Figure]:
    """Yield the figures that an engine without counters reports itself."""
    rate, length = engine.engine_reported_acceptance_ratio, engine.engine_reported_acceptance_length_tokens
    if rate is not None:
        yield Figure("acceptance rate", numbers.share(rate), "", "as the engine itself reports it")
    if length is not None:
        yield Figure("acceptance length", numbers.plain(length), "", "as the engine itself reports it")


def _speedup(engine: EngineView, window: WindowView) -> Iterator[Figure]:
    """Yield the speed-up of a request and that of decoding; without the former, decode only."""
    speedup, ceiling = window.estimated_speedup_ratio, window.speedup_ceiling_ratio
    request = window.end_to_end_speedup_ratio
    at_most = "" if ceiling is None else f"{ceiling:.2f} if drafts were free"
    if request is not None:
        span = numbers.bounds(request.lower, request.upper)
        yield Figure("speed-up, request", numbers.plain(request.value), span, BASES[request.basis])
    if engine.cost is not None and speedup.value is not None:
        span = numbers.bounds(speedup.lower, speedup.upper)
        name = "speed-up, decode only" if request is None else "speed-up, decoding"
        yield Figure(name, numbers.plain(speedup.value), span, at_most)
    elif ceiling is not None:
        yield Figure("speed-up", "unknown", "", at_most)


def _positions(_: EngineView, window: WindowView) -> Iterator[Part]:
    accepted, conditional = window.position_acceptance_ratio, window.position_conditional_acceptance_ratio
    if not window.counts.drafts or not accepted:
        return
    bars = tuple(
        Bar(str(position), value or 0.0, (numbers.share(value), numbers.share(given_previous)))
        for position, (value, given_previous) in enumerate(zip(accepted, conditional, strict=True))
    )
    yield Chart("position", ("accepted", "conditional"), bars)
    if len(bars) > 1:
        yield Note("Conditional: of the drafts that were accepted up to the position before.")


def _times(engine: EngineView, window: WindowView) -> Iterator[Figure]:
    yield from figure_lines("Time", window, _first_token(engine))
    for latency, name in _LATENCIES.items():
        quantiles = engine.latency_seconds.get(latency)
        if quantiles is not None and quantiles.p50 is not None:
            median, p95, p99 = (
                quantile(value, quantiles.buckets.get(percentile))
                for percentile, value in (
                    ("p50", quantiles.p50),
                    ("p95", quantiles.p95),
                    ("p99", quantiles.p99),
                )
            )
            tail = f"p95 and p99 {p95}" if p95 == p99 else f"p95 {p95}, p99 {p99}"
            yield Figure(name, median, "", f"p50; {tail}")
    yield from _prefix_cache(engine, window)


def _first_token(engine: EngineView) -> Mapping[str, str]:
    """Return the meaning of the time to first token if it is known without speculation too."""
    baseline = engine.baseline
    if baseline is None or baseline.time_to_first_token_seconds is None:
        return {}
    without = numbers.duration(baseline.time_to_first_token_seconds)
    return {"time_to_first_token_seconds": f"mean, by request; {without} without speculation"}


def _prefix_cache(engine: EngineView, window: WindowView) -> Iterator[Figure]:
    if window.prefix_cache_hit_ratio is None:
        return
    baseline = engine.baseline
    before = None if baseline is None else baseline.prefix_cache_hit_ratio
    without = "" if before is None else f"; {numbers.share(before)} without speculation"
    yield Figure(
        "prefix cache", numbers.share(window.prefix_cache_hit_ratio), "", f"of the prompt tokens{without}"
    )


def _waste(_: EngineView, window: WindowView) -> Iterator[Figure]:
    rate = window.draft_acceptance_ratio.value
    if not window.counts.draft_tokens or rate is None:
        return
    wasted = f"tokens a second, {max(1 - rate, 0.0):.3f} of the drafted"
    yield from figure_lines("Waste", window, {"rejected_tokens_per_second": wasted})


def _cost(engine: EngineView, window: WindowView) -> Iterator[Part]:
    cost = engine.cost
    if cost is None or not window.counts.drafts:
        return
    at = "" if cost.running_requests is None else f", at {cost.running_requests:.1f} running requests"
    yield Figure("a draft token", f"{cost.draft_cost_ratio:.3g}", "", f"plain decode steps{at}")
    if cost.fixed_cost_ratio:
        yield Figure("a draft", f"{cost.fixed_cost_ratio:.3g}", "", "besides, however many tokens it has")
    if window.break_even_acceptance_ratio is not None:
        break_even = numbers.share(window.break_even_acceptance_ratio)
        yield Figure("break-even rate", break_even, "", "of the draft tokens must be accepted")
    if engine.crossover_running_requests is not None:
        requests = f"{engine.crossover_running_requests:.0f}"
        yield Figure("stops paying at", requests, "", "running requests")
    advice = "" if cost.source is CostSource.CONFIGURED else f" {GIVE_COST}"
    yield Note(f"It is {_source(engine, cost.source)}.{advice}")


def _source(engine: EngineView, source: CostSource) -> str:
    if source is CostSource.BASELINE and engine.baseline is not None:
        return f"as measured against {engine.baseline.name}"
    return _SOURCES[source]


def _loads(engine: EngineView, _: WindowView) -> Iterator[Part]:
    """Yield the setting by load; during a pause of drafting without known acceptance, what to measure."""
    setting = engine.setting
    if setting.bands:
        yield band_table(setting.bands)
        yield Note(setting.text)
    if setting.measure and (setting.bands or setting.paused_from is not None):
        yield Note(setting.measure)


def _findings(engine: EngineView, _: WindowView) -> Iterator[Note]:
    return (_finding(finding) for finding in engine.findings if finding.name not in _SHOWN_ELSEWHERE)


def _finding(finding: FindingView) -> Note:
    tone = Tone.BAD if finding.severity is Severity.WARNING else Tone.NEUTRAL
    return Note(finding.text, finding.name, tone)


_SECTIONS: Final[Mapping[str, Callable[[EngineView, WindowView], Iterator[Part]]]] = {
    "Acceptance": _acceptance,
    "Positions": _positions,
    "Speed-up by number of draft tokens": depths,
    "Speed-up by load": _loads,
    "Findings": _findings,
    "Time": _times,
    "Waste": _waste,
    "Cost assumed": _cost,
}
"""Title and builder of each section, in the order of the report."""
