"""Report of an observation: its parts, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import partial
from typing import Final

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.core.isolation import NO_ITEM, Isolation
from spec_decode_exporter.monitor.events import event_text
from spec_decode_exporter.reports.observe.engine_sections import engine_sections
from spec_decode_exporter.reports.observe.needs import needs
from spec_decode_exporter.reports.parts import EngineReport, Fact, Note, Report, ReportSection, Tone
from spec_decode_exporter.scrape.errors import NO_ENGINE_REMEDY
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import EventView, ObservationView, TargetView
from spec_decode_exporter.views.window_view import WindowView

_VERDICTS: Final[Mapping[Verdict, Tone]] = {
    Verdict.OPTIMAL: Tone.GOOD,
    Verdict.HEALTHY: Tone.GOOD,
    Verdict.MARGINAL: Tone.FAIR,
    Verdict.POOR: Tone.FAIR,
    Verdict.HARMFUL: Tone.BAD,
    Verdict.UNCLEAR: Tone.FAIR,
    Verdict.INSUFFICIENT: Tone.NEUTRAL,
}
_STATES: Final[Mapping[State, Tone]] = {
    State.DISABLED: Tone.NEUTRAL,
    State.UNKNOWN: Tone.NEUTRAL,
    State.IDLE: Tone.NEUTRAL,
    State.STALLED: Tone.BAD,
    State.UNREACHABLE: Tone.BAD,
}
"""States that replace the verdict as the badge of an engine."""
_QUIET: Final = frozenset(
    {"engine_found", "filtered_page_not_used", "verdict_changed", "recommendation_changed"}
)
"""Events of every observation, and events about another window: not shown."""

_DELETE: Final = "\x7f"
"""The only control character that ``json.dumps`` does not escape."""


def json_report(view: ObservationView, *, indented: bool = True) -> str:
    """Return an observation as ASCII JSON, on one line or indented, with a final newline."""
    written = json.dumps(view.model_dump(mode="json"), indent=2 if indented else None)
    return written.replace(_DELETE, "\\u007f") + "\n"


def report(view: ObservationView) -> Report:
    """Return an observation as a report."""
    errors = Isolation()
    without_engines = {target.target: target for target in view.targets if not target.engines}
    engines = {
        engine.id: shown
        for engine in view.engines
        if (shown := errors.attempt("report", engine.labels, partial(_engine, engine, view.seconds)))
    }
    events = [
        event for event in view.events if event.type not in _QUIET and event.target not in without_engines
    ]
    return Report(
        f"Speculative decoding, {format_duration(view.seconds)} until {_moment(view.time)}",
        (*map(_missing_target, without_engines.values()), *_omitted(view, engines.keys())),
        tuple(engines.values()),
        tuple(errors.each("report", events, lambda _: NO_ITEM, _event_note)),
    )


def _omitted(view: ObservationView, shown: AbstractSet[str]) -> Iterator[Note]:
    """Yield a note for each target with engines that could not be shown."""
    for target in view.targets:
        omitted = sum(engine not in shown for engine in target.engines)
        if omitted:
            engines = "an engine is" if omitted == 1 else f"{omitted} engines are"
            reason = f"{engines} not in this report: an internal error of this program"
            yield Note(reason, target.target, Tone.BAD, untrusted=True)


def _event_note(event: EventView) -> Note:
    """Return an event as a note: time, sentence, and engine or target."""
    engine = event.engine and f"engine {event.engine}"
    subject = " ".join(filter(None, [event.target, event.model_name, engine]))
    return Note(
        f"{event_text(event.type, event.fields)} ({subject})",
        f"{datetime.fromtimestamp(event.time, UTC):%H:%M:%S}",
        Tone.BAD if event.bad else Tone.NEUTRAL,
        untrusted=True,
    )


def _moment(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _missing_target(target: TargetView) -> Note:
    """Return the reason why no engine of a target is in the report."""
    name = target.target if target.target in target.address else f"{target.target} ({target.address})"
    if target.up is None:
        return Note("no answer yet", name, untrusted=True)
    origin = target.address.partition("/")[0]
    error = target.error and target.error.replace(f" {origin}: ", " ", 1)
    reason = error or f"no engine on its page: {NO_ENGINE_REMEDY}"
    return Note(reason, name, Tone.BAD, untrusted=True)


def _engine(engine: EngineView, seconds: float) -> EngineReport:
    word, tone = str(engine.verdict), _VERDICTS[engine.verdict]
    if engine.state in _STATES:
        word, tone = str(engine.state), _STATES[engine.state]
    sections = (ReportSection("Missing data", tuple(needs(engine, seconds))), *engine_sections(engine))
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
        speedup = (window.end_to_end_speedup_ratio or window.estimated_speedup_ratio).value
        length = window.acceptance_length_tokens.value
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
            untrusted=bool(engine.method),
        )
        yield Fact("draft tokens", drafts)
    if engine.baseline is not None:
        yield Fact("baseline", engine.baseline.name)
    for window in engine.windows[-1:]:
        yield Fact("seen", _load(window))


def _load(window: WindowView) -> str:
    """Return the window's length, its drafts and its mean load."""
    running, waiting = window.running_requests, window.waiting_requests
    words = [f"{window.seconds:.1f} s"]
    words += [] if window.counts.drafts is None else [f"{numbers.count(window.counts.drafts)} drafts"]
    words += [f"{running:.1f} requests running"] if running is not None else []
    words += [f"{waiting:.1f} waiting"] if waiting else []
    return ", ".join(words)
