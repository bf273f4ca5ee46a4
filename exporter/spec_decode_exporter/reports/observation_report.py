"""Report of an observation: the rows of its tables. ``templates/observation.md`` has its sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import ceil, inf
from typing import Final, TypeVar

from markupsafe import Markup

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.figure_table import FIGURES, Unit
from spec_decode_exporter.analysis.verdict import WHOLE_WINDOW, Action, State, Verdict
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.figures.quantile import Edges
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.events import event_text
from spec_decode_exporter.reports.text import TextStyle, badge, bar, json_text, name, render
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.views.document import Estimated
from spec_decode_exporter.views.engine_view import (
    BucketView,
    DepthView,
    EngineView,
    SettingView,
    Standing,
    WindowView,
)
from spec_decode_exporter.views.fleet_view import ObservationView, TargetView
from spec_decode_exporter.views.headline import Headline, countdown, headline, time_saved
from spec_decode_exporter.views.verdict_text import BASES

Row = tuple[str, ...]
"""Cells of a row; of a figure its name, value, bounds and meaning."""

_Item = EngineView | RecordedEvent
_Document = TypeVar("_Document", EngineView, TargetView)
TONES: Final[Mapping[Standing, str]] = {
    Verdict.OPTIMAL: "good",
    Verdict.HEALTHY: "good",
    Verdict.MARGINAL: "unsure",
    Verdict.POOR: "unsure",
    Verdict.UNCLEAR: "unsure",
    Verdict.HARMFUL: "bad",
    State.STALLED: "bad",
    State.UNREACHABLE: "bad",
}
"""Tone of a verdict or a state; others are neutral."""

BAND: Final = ("running requests", "now", "speed", "verdict", "try", "speed")
"""Titles of the columns of ``bands``."""
_DOUBTS: Final = ("few_drafts", "few_requests", "wide_bounds")
"""Findings that explain why there is no verdict or advice: the report has them as missing data."""
_QUIET: Final = {"engine_found", "filtered_page_not_used", "verdict_changed", "recommendation_changed"}
"""Events of every observation, and events about another window: not shown."""
_LATENCIES: Final = {
    Latency.TIME_PER_OUTPUT_TOKEN: "the same, by request",
    Latency.TIME_TO_FIRST_TOKEN: "time to first token",
    Latency.DECODE_STEP: "decode step",
    Latency.END_TO_END: "end to end",
}
_SOURCES: Final = {
    CostSource.EXPERIMENT: "as measured against the baseline of its experiment",
    CostSource.MEASURED: "as measured on this engine, with drafts and without",
    CostSource.BASELINE: "as measured against an earlier time without speculation",
    CostSource.CONFIGURED: "as it was given",
    CostSource.SIZES: "estimated from the sizes of both models",
    CostSource.TYPICAL: "the method's typical cost",
}
_FORMATS: Final[Mapping[Unit, Callable[[float | None], str]]] = {
    Unit.SHARE: numbers.share,
    Unit.FACTOR: numbers.plain,
    Unit.NUMBER: numbers.plain,
    Unit.TOKENS: numbers.plain,
    Unit.SECONDS: numbers.duration,
    Unit.PER_SECOND: numbers.rate,
    Unit.REQUESTS: numbers.plain,
}
_ROUND: Final = 10
"""Estimated times are rounded up to a multiple, in seconds."""
_SPARE: Final = 1.1
"""Margin of an estimated time: the present rate varies."""
_MAX_SECONDS: Final = 86_400.0
"""Longest estimated time; beyond it the advice is more traffic."""


def report(view: ObservationView, style: TextStyle) -> str:
    """Return an observation as text. Engines and events that cannot be written are omitted."""
    errors = Isolation()

    def written(macro: Callable[..., Markup], items: Iterable[_Item]) -> dict[str, Markup]:
        texts = {each.id: errors.attempt("report", {"id": each.id}, partial(macro, each)) for each in items}
        return {id_: text for id_, text in texts.items() if text is not None}

    absent = {target.target for target in view.targets if not target.engines}
    events = [each for each in view.events if each.type not in _QUIET and each.target not in absent]
    context = {**{each.__name__: each for each in _FUNCTIONS}, **_WORDS}
    context |= {"view": view, "events": events, "written": written, "headline": answer(view)}
    return render("observation.md", style, **context)


def answer(view: ObservationView) -> Headline:
    """Return whether speculation pays and what to do, with untrusted names as code spans."""
    engines = [_quoted(each, "target", "model_name", "engine") for each in view.engines]
    found = headline(
        engines, [_quoted(each, "target", "error", "version") for each in view.targets], view.time
    )
    waiting = [each for each in view.engines if found.remedy and found.remedy == countdown(each, view.time)]
    return found._replace(remedy=_longest(waiting[0])) if waiting else found


def _quoted(document: _Document, *names: str) -> _Document:
    return document.model_copy(update={each: name(getattr(document, each)) for each in names})


def _longest(engine: EngineView) -> str:
    """Advise to observe an engine for longer: the observation has ended before its countdown."""
    for _, values in doubts(engine):
        if engine.longest is not None and "threshold" in values:
            return longer(
                values.get("counted", values.get("drafts", 0.0)), values["threshold"], engine.longest
            )
    return "Observe for longer."


def json_report(view: ObservationView, *, indented: bool = True) -> str:
    """Return an observation as ASCII JSON, on one line or indented, with a final newline."""
    return json_text(view.model_dump(mode="json"), indented=indented)


def standing(engine: EngineView) -> Standing:
    """Return the verdict; the state of an engine that did not draft at the end."""
    return engine.verdict if engine.state is State.ACTIVE else engine.state


def gist(engine: EngineView) -> str:
    """Return the figure behind the verdict in a few words."""
    window = engine.longest
    if window is None:
        return ""
    speedup = (window.end_to_end_speedup_ratio or window.estimated_speedup_ratio).value
    length = window.acceptance_length_tokens.value
    if speedup is None:
        return "" if length is None else f"length {length:.2f}"
    return f"speed-up {speedup:.2f}"


def overview(engines: Iterable[EngineView], style: TextStyle) -> list[Row]:
    """Return verdict, figure, target, model and engine of several engines."""
    return [
        (
            badge(standing(each).upper(), TONES.get(standing(each), ""), style),
            gist(each),
            *map(name, (each.target, each.model_name, each.engine)),
        )
        for each in engines
    ]


def title(target: TargetView) -> str:
    """Return the name of a target, with its address if that differs."""
    return target.target if target.target in target.address else f"{target.target} ({target.address})"


def failure(target: TargetView) -> str:
    """Return the failure of the newest poll, without the address; empty after a success."""
    return target.error.replace(f" {target.address.partition('/')[0]}: ", " ", 1)


def doubts(engine: EngineView) -> list[tuple[str, Mapping[str, float]]]:
    """Return name and values of the findings that explain why there is no verdict or advice."""
    found = {finding.name: finding.values for finding in engine.findings}
    return [(each, found[each]) for each in _DOUBTS if each in found]


def longer(present: float, enough: float, window: WindowView) -> str:
    """Advise a length of the observation, extrapolated at the present rate."""
    seconds = window.seconds * enough / present * _SPARE if present else _MAX_SECONDS
    if seconds >= _MAX_SECONDS:
        return "Observe while there is more traffic."
    return f"At this rate that takes --for {format_duration(ceil(seconds / _ROUND) * _ROUND)}."


def figures(engine: EngineView, window: WindowView, section: str) -> list[Row]:
    """Return the known figures of a section of the figure table."""
    meanings, rows = _meanings(engine, window), list[Row]()
    lines = [(each.report, each) for each in FIGURES if each.report and each.report.section == section]
    for line, figure in sorted(lines, key=lambda each: each[0].place):
        value = getattr(window, figure.key)
        meaning = meanings.get(figure.key) or line.meaning
        if isinstance(value, Estimated):
            span = numbers.bounds(value.lower, value.upper, 3 if figure.unit is Unit.SHARE else 2)
            rows.append((line.name, _FORMATS[figure.unit](value.value), span, meaning))
        elif value is not None:
            rows.append((line.name, _FORMATS[figure.unit](value), "", meaning))
    return rows


def _meanings(engine: EngineView, window: WindowView) -> Mapping[str, str]:
    """Return meanings that replace those of the figure table, by the keys of figures."""
    coverage, rate, baseline = window.coverage_ratio, window.draft_acceptance_ratio.value, engine.baseline
    before = None if baseline is None else baseline.time_to_first_token_seconds
    return {
        "effective_tokens_per_step": "" if coverage is None else f"{coverage:.3f} of steps drafted",
        "rejected_tokens_per_second": ""
        if rate is None
        else f"tokens a second, {max(1 - rate, 0.0):.3f} of the drafted",
        "time_to_first_token_seconds": ""
        if before is None
        else f"mean, by request; {numbers.duration(before)} without speculation",
    }


def speedups(engine: EngineView, window: WindowView) -> list[Row]:
    """Return the speed-up of a request and that of decoding; without the former, decode only."""
    request, decoding = window.end_to_end_speedup_ratio, window.estimated_speedup_ratio
    ceiling, rows = window.speedup_ceiling_ratio, list[Row]()
    at_most = "" if ceiling is None else f"{ceiling:.2f} if drafts were free"
    if request is not None:
        rows.append(("speed-up, request", *_estimate(request), BASES[request.basis]))
    if engine.cost is not None and decoding.value is not None:
        what = "speed-up, decode only" if request is None else "speed-up, decoding"
        rows.append((what, *_estimate(decoding), at_most))
    elif ceiling is not None:
        rows.append(("speed-up", "unknown", "", at_most))
    return rows


def _estimate(its: Estimated) -> tuple[str, str]:
    return numbers.plain(its.value), numbers.bounds(its.lower, its.upper)


def reported(engine: EngineView) -> list[Row]:
    """Return the figures that an engine without counters reports itself."""
    rate, length = engine.engine_reported_acceptance_ratio, engine.engine_reported_acceptance_length_tokens
    rows = ("acceptance rate", rate, numbers.share), ("acceptance length", length, numbers.plain)
    return [
        (what, write(value), "", "as the engine itself reports it")
        for what, value, write in rows
        if value is not None
    ]


def positions(window: WindowView, style: TextStyle) -> list[Row]:
    """Return number, share and conditional share of each draft position, and a bar."""
    pairs = zip(window.position_acceptance_ratio, window.position_conditional_acceptance_ratio, strict=True)
    return [
        (str(place), numbers.share(accepted), numbers.share(given), bar(accepted, style))
        for place, (accepted, given) in enumerate(pairs)
    ]


def depths(engine: EngineView, style: TextStyle) -> list[Row]:
    """Return a row for each number of draft tokens: speed-up, change, bar and remark."""
    present, keep = present_speedup(engine), engine.recommendation is Action.KEEP
    plain = DepthView(
        tokens=0,
        speedup_ratio=1.0,
        extrapolated=False,
        recommended=engine.recommended_tokens == 0,
        position_marginal_benefit_ratio=None,
    )
    shown, rows = (plain, *engine.depths), list[Row]()
    largest = max(depth.speedup_ratio for depth in shown)
    for each in shown:
        is_present = each.tokens == engine.configured_tokens
        remarks = {
            "no speculation": not each.tokens,
            "now": is_present,
            "recommended": each.recommended and not keep,
            "nearly as fast": each.recommended and keep and not is_present,
            "extrapolated": each.extrapolated,
        }
        rows.append(
            (
                f"**{each.tokens}**" if (is_present if keep else each.recommended) else str(each.tokens),
                numbers.plain(each.speedup_ratio),
                "" if is_present or present is None else numbers.change(each.speedup_ratio / present),
                bar(each.speedup_ratio / largest, style, guessed=each.extrapolated),
                ", ".join(remark for remark, holds in remarks.items() if holds),
            )
        )
    return rows


def present_speedup(engine: EngineView) -> float | None:
    """Return the expected speed-up of the configured number of draft tokens."""
    tokens = engine.configured_tokens
    return next((each.speedup_ratio for each in engine.depths if each.tokens == tokens), None)


def bands(setting: SettingView) -> list[Row]:
    """Return a row for each band of load; speeds are relative to no speculation."""
    return [
        (
            numbers.number_range(each.first, each.last),
            str(each.present_tokens),
            numbers.plain(each.present_speedup_ratio),
            numbers.ABSENT if each.verdict is None else str(each.verdict),
            str(each.tokens),
            numbers.plain(each.speedup_ratio),
        )
        for each in setting.bands
    ]


def times(engine: EngineView, window: WindowView) -> list[Row]:
    """Return times, the quantiles of the server's own histograms, and hits of the prefix cache."""
    rows = figures(engine, window, "Time")
    for latency, what in _LATENCIES.items():
        its = engine.latency_seconds.get(latency)
        if its is not None and its.p50 is not None:
            values = (("p50", its.p50), ("p95", its.p95), ("p99", its.p99))
            median, p95, p99 = (quantile(value, its.buckets.get(percentile)) for percentile, value in values)
            tail = f"p95 and p99 {p95}" if p95 == p99 else f"p95 {p95}, p99 {p99}"
            rows.append((what, median, "", f"p50; {tail}"))
    hits = window.prefix_cache_hit_ratio
    if hits is not None:
        before = None if engine.baseline is None else engine.baseline.prefix_cache_hit_ratio
        without = "" if before is None else f"; {numbers.share(before)} without speculation"
        rows.append(("prefix cache", numbers.share(hits), "", f"of the prompt tokens{without}"))
    return rows


def quantile(value: float | None, bucket: BucketView | None) -> str:
    """Write an interpolated quantile; the edges of its bucket if they are far apart."""
    if value is None or bucket is None:
        return numbers.duration(value)
    edges = Edges(bucket.lower, inf if bucket.upper is None else bucket.upper)
    if not edges.are_far_apart:
        return numbers.duration(value)
    in_seconds = (bucket.lower if bucket.upper is None else bucket.upper) >= 1
    return numbers.within(*edges, *((1.0, "s") if in_seconds else (1e-3, "ms")))


def costs(engine: EngineView, window: WindowView) -> list[Row]:
    """Return the cost of drafting, and the acceptance and the load at which it stops paying."""
    cost, threshold, crossover = (
        engine.cost,
        window.break_even_acceptance_ratio,
        engine.crossover_running_requests,
    )
    if cost is None:
        return []
    at = "" if cost.running_requests is None else f", at {cost.running_requests:.1f} running requests"
    rows: list[Row] = [("a draft token", f"{cost.draft_cost_ratio:.3g}", "", f"plain decode steps{at}")]
    if cost.fixed_cost_ratio:
        rows.append(("a draft", f"{cost.fixed_cost_ratio:.3g}", "", "besides, however many tokens it has"))
    if threshold is not None:
        rows.append(("break-even rate", numbers.share(threshold), "", "of the draft tokens must be accepted"))
    if crossover is not None:
        rows.append(("stops paying at", f"{crossover:.0f}", "", "running requests"))
    return rows


def cost_source(engine: EngineView) -> str:
    """Return the source of the cost, to follow "It is"."""
    if engine.cost is None:
        return "unknown"
    if engine.cost.source is CostSource.BASELINE and engine.baseline is not None:
        return f"as measured against {engine.baseline.name}"
    return _SOURCES[engine.cost.source]


_FUNCTIONS: Final = (
    bands, cost_source, costs, depths, doubts, event_text, failure, figures, format_duration, longer,
    overview, positions, present_speedup, reported, speedups, standing, time_saved, times, title,
    numbers.utc_time,
)  # fmt: skip
_WORDS: Final[Mapping[str, object]] = {
    "BAND": BAND,
    "DOUBTS": _DOUBTS,
    "FIGURE": ("figure", "value", "95 % bounds", "meaning"),
    "GIVE_COST": "Give what it costs, and the concurrent requests of the measurement: "
    "--cost.draft-cost-ratio 0.05 --cost.running-requests 8.",
    "TONES": TONES,
    "WHOLE_WINDOW": WHOLE_WINDOW,
}
"""Functions and texts of the template."""
