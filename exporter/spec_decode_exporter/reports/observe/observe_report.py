"""What a report says, however it is written: ONE table of the sections that an engine has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import partial
from typing import Final

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.finding import FindingName, Severity
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.core.internal_errors import NO_ITEM, InternalErrors
from spec_decode_exporter.reports import numbers
from spec_decode_exporter.reports.observe.depth_chart import GIVE_COST, depths
from spec_decode_exporter.reports.observe.event_text import QUIET, happening
from spec_decode_exporter.reports.observe.needs import DOUBTS, needs
from spec_decode_exporter.reports.observe.request_sections import requests
from spec_decode_exporter.reports.parts import (
    Bar,
    Chart,
    EngineReport,
    Fact,
    Figure,
    Note,
    Part,
    Report,
    ReportSection,
    Tone,
)
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.views.models import (
    EngineView,
    FindingView,
    ObservationView,
    TargetView,
    WindowView,
)
from spec_decode_exporter.views.request_models import RequestsView

_VERDICTS: Final[Mapping[Verdict, tuple[str, Tone]]] = {
    Verdict.OPTIMAL: ("optimal", Tone.GOOD),
    Verdict.HEALTHY: ("healthy", Tone.GOOD),
    Verdict.MARGINAL: ("marginal", Tone.FAIR),
    Verdict.POOR: ("poor", Tone.FAIR),
    Verdict.HARMFUL: ("harmful", Tone.BAD),
    Verdict.INSUFFICIENT: ("insufficient", Tone.NEUTRAL),
}
_STATES: Final[Mapping[State, Tone]] = {
    State.DISABLED: Tone.NEUTRAL,
    State.IDLE: Tone.NEUTRAL,
    State.STALLED: Tone.BAD,
    State.UNREACHABLE: Tone.BAD,
}
"""The states that say more than a verdict."""

_LATENCIES: Final[Mapping[Latency, str]] = {
    Latency.TIME_PER_OUTPUT_TOKEN: "the same, by request",
    Latency.TIME_TO_FIRST_TOKEN: "time to first token",
    Latency.DECODE_STEP: "decode step",
    Latency.END_TO_END: "end to end",
}
_SOURCES: Final[Mapping[CostSource, str]] = {
    CostSource.CONFIGURED: "as it was given",
    CostSource.MEASURED: "as this engine was seen to need with drafts and without",
    CostSource.DEFAULT: "what the method usually costs",
}
_TOLD_ELSEWHERE: Final = frozenset({*DOUBTS, FindingName.DEFAULT_COST})


def report(view: ObservationView) -> Report:
    """Return what is to be said of an observation."""
    errors = InternalErrors()
    unseen = {target.target: target for target in view.targets if not target.engines}
    engines = {
        engine.id: found
        for engine in view.engines
        if (found := errors.attempt("report", engine.labels, partial(_engine, engine, view.seconds)))
    }
    told = [event for event in view.events if event.type not in QUIET and event.target not in unseen]
    return Report(
        f"Speculative decoding, {format_duration(view.seconds)} until {_moment(view.time)}",
        (*map(_unseen, unseen.values()), *_omitted(view, engines.keys())),
        tuple(engines.values()),
        tuple(errors.each("report", told, lambda _: NO_ITEM, happening)),
        errors.attempt("report", NO_ITEM, partial(_requests, view.requests)) or (),
    )


def _requests(view: RequestsView | None) -> tuple[ReportSection, ...]:
    return tuple(requests(view)) if view else ()


def _omitted(view: ObservationView, shown: AbstractSet[str]) -> Iterator[Note]:
    """Yield a note for each target of which an engine is not in the report."""
    for target in view.targets:
        omitted = sum(engine not in shown for engine in target.engines)
        if omitted:
            engines = "an engine is" if omitted == 1 else f"{omitted} engines are"
            reason = f"{engines} not in this report: an internal error of this program"
            yield Note(reason, target.target, Tone.BAD, foreign=True)


def _moment(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _unseen(target: TargetView) -> Note:
    name = target.target if target.target in target.address else f"{target.target} ({target.address})"
    if target.up is None:
        return Note("no answer yet", name, foreign=True)
    origin = target.address.partition("/")[0]
    error = target.error and target.error.replace(f" {origin}: ", " ", 1)
    reason = error or "no engine on its page: check the path; vLLM needs its log stats on"
    return Note(reason, name, Tone.BAD, foreign=True)


def _engine(engine: EngineView, seconds: float) -> EngineReport:
    word, tone = _VERDICTS[engine.verdict]
    if engine.state in _STATES:
        word, tone = str(engine.state), _STATES[engine.state]
    sections = [ReportSection("What is missing", tuple(needs(engine, seconds)))]
    for window in engine.windows[-1:]:
        sections += [ReportSection(title, tuple(parts(engine, window))) for title, parts in _SECTIONS.items()]
    return EngineReport(
        name=f"{engine.model_name}, engine {engine.engine}",
        place=engine.target,
        word=word,
        tone=tone,
        gist=_gist(engine),
        verdict=engine.verdict_text,
        advice=engine.recommendation_text,
        facts=tuple(_facts(engine)),
        sections=tuple(section for section in sections if section.parts),
    )


def _gist(engine: EngineView) -> str:
    for window in engine.windows[-1:]:
        speedup, length = window.estimated_speedup_ratio.value, window.acceptance_length_tokens.value
        if speedup is not None:
            return f"speed-up {speedup:.2f}"
        return "" if length is None else f"length {length:.2f}"
    return ""


def _facts(engine: EngineView) -> Iterator[Fact]:
    tokens = engine.configured_tokens
    if engine.state is not State.DISABLED:
        method = engine.method or "unknown (--speculative.method says it)"
        drafts = f"{tokens} at a time" if tokens else "unknown"
        yield Fact(
            "method",
            f"{method}, {engine.draft_model}" if engine.draft_model else method,
            foreign=bool(engine.method),
        )
        yield Fact("draft tokens", drafts)
    for window in engine.windows[-1:]:
        yield Fact("seen", _seen(window))


def _seen(window: WindowView) -> str:
    running, waiting = window.running_requests, window.waiting_requests
    words = [f"{window.seconds:.1f} s"]
    words += [] if window.counts.drafts is None else [f"{numbers.count(window.counts.drafts)} drafts"]
    words += [f"{running:.1f} requests running"] if running is not None else []
    words += [f"{waiting:.1f} waiting"] if waiting else []
    return ", ".join(words)


def _acceptance(engine: EngineView, window: WindowView) -> Iterator[Figure]:
    yield from _reported(engine)
    if not window.counts.drafts:
        return
    rate, length = window.draft_acceptance_ratio, window.acceptance_length_tokens
    yield Figure("acceptance rate", numbers.share(rate.value), numbers.bounds(rate, 3), "of the draft tokens")
    yield Figure(
        "acceptance length", numbers.plain(length.value), numbers.bounds(length, 2), "tokens, bonus included"
    )
    if window.effective_tokens_per_step is not None:
        coverage = "" if window.coverage_ratio is None else f"{window.coverage_ratio:.3f} of steps drafted"
        yield Figure("tokens per step", numbers.plain(window.effective_tokens_per_step), "", coverage)
    yield from _speedup(engine, window)


def _reported(engine: EngineView) -> Iterator[Figure]:
    """Yield what an engine says of itself that has no counters to judge by."""
    rate, length = engine.engine_reported_acceptance_ratio, engine.engine_reported_acceptance_length_tokens
    if rate is not None:
        yield Figure("acceptance rate", numbers.share(rate), "", "as the engine itself reports it")
    if length is not None:
        yield Figure("acceptance length", numbers.plain(length), "", "as the engine itself reports it")


def _speedup(engine: EngineView, window: WindowView) -> Iterator[Figure]:
    speedup, ceiling = window.estimated_speedup_ratio, window.speedup_ceiling_ratio
    at_most = "" if ceiling is None else f"{ceiling:.2f} if drafts were free"
    if engine.cost is not None and speedup.value is not None:
        yield Figure("speed-up", numbers.plain(speedup.value), numbers.bounds(speedup, 2), at_most)
    elif ceiling is not None:
        yield Figure("speed-up", "unknown", "", at_most)


def _positions(_: EngineView, window: WindowView) -> Iterator[Part]:
    accepted, conditional = window.position_acceptance_ratio, window.position_conditional_acceptance_ratio
    if not window.counts.drafts or not accepted:
        return
    bars = tuple(
        Bar(str(position), value or 0.0, (numbers.share(value), numbers.share(of_those)))
        for position, (value, of_those) in enumerate(zip(accepted, conditional, strict=True))
    )
    yield Chart("position", ("accepted", "conditional"), bars)
    if len(bars) > 1:
        yield Note("Conditional: of the drafts that were accepted up to the position before.")


def _times(engine: EngineView, window: WindowView) -> Iterator[Figure]:
    if window.time_per_output_token_seconds is not None:
        yield Figure(
            "time per output token", numbers.time(window.time_per_output_token_seconds), "", "mean, by token"
        )
    for latency, meaning in _LATENCIES.items():
        found = engine.latency_seconds.get(latency)
        if found is not None and found.p50 is not None:
            median, p95, p99 = (
                numbers.quantile(value, found.buckets.get(name))
                for name, value in (("p50", found.p50), ("p95", found.p95), ("p99", found.p99))
            )
            slow = f"p95 and p99 {p95}" if p95 == p99 else f"p95 {p95}, p99 {p99}"
            yield Figure(meaning, median, "", f"p50; {slow}")


def _waste(_: EngineView, window: WindowView) -> Iterator[Figure]:
    drafted, accepted = window.draft_tokens_per_second, window.accepted_tokens_per_second
    wasted, rate = window.rejected_tokens_per_second, window.draft_acceptance_ratio.value
    if not window.counts.draft_tokens or rate is None:
        return
    yield Figure("drafted", numbers.rate(drafted), "", "tokens a second")
    yield Figure("accepted", numbers.rate(accepted), "", "tokens a second")
    yield Figure(
        "wasted", numbers.rate(wasted), "", f"tokens a second, {max(1 - rate, 0.0):.3f} of the drafted"
    )


def _cost(engine: EngineView, window: WindowView) -> Iterator[Part]:
    cost = engine.cost
    if cost is None or not window.counts.drafts:
        return
    at = "" if cost.running_requests is None else f", at {cost.running_requests:.1f} running requests"
    yield Figure("a draft token", f"{cost.draft_cost_ratio:.3g}", "", f"plain decode steps{at}")
    if cost.fixed_cost_ratio:
        yield Figure("a draft", f"{cost.fixed_cost_ratio:.3g}", "", "besides, however many tokens it has")
    if window.break_even_acceptance_ratio is not None:
        least = numbers.share(window.break_even_acceptance_ratio)
        yield Figure("break-even rate", least, "", "of the draft tokens must be accepted")
    if engine.crossover_running_requests is not None:
        requests = f"{engine.crossover_running_requests:.0f}"
        yield Figure("stops paying at", requests, "", "running requests")
    advice = "" if cost.source is CostSource.CONFIGURED else f" {GIVE_COST}"
    yield Note(f"It is {_SOURCES[cost.source]}.{advice}")


def _findings(engine: EngineView, _: WindowView) -> Iterator[Note]:
    return (_finding(finding) for finding in engine.findings if finding.name not in _TOLD_ELSEWHERE)


def _finding(finding: FindingView) -> Note:
    return Note(
        finding.text, finding.name, Tone.BAD if finding.severity is Severity.WARNING else Tone.NEUTRAL
    )


_SECTIONS: Final[Mapping[str, Callable[[EngineView, WindowView], Iterator[Part]]]] = {
    "Acceptance": _acceptance,
    "Positions": _positions,
    "Another number of draft tokens": depths,
    "Findings": _findings,
    "Time": _times,
    "Waste": _waste,
    "Cost assumed": _cost,
}
"""The sections in their order, each with what makes its parts from an engine and its longest window."""
