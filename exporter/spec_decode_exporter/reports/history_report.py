"""Report of a history: the observation of its newest time with drafts, and then each engine over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.resources import files
from itertools import groupby
from math import ceil
from operator import attrgetter
from typing import Any, Final, NamedTuple

from markdown_it import MarkdownIt
from markupsafe import Markup

from spec_decode_exporter.core.number_formats import bounds, long_time, plain, three_digits
from spec_decode_exporter.figures.estimate import Estimate, ratio
from spec_decode_exporter.history.baseline_reader import hidden_drafts
from spec_decode_exporter.history.history_reader import EngineHistory, PrometheusHistory, Slot, SlotOutcome
from spec_decode_exporter.monitor.events import EVENTS, event_text
from spec_decode_exporter.monitor.snapshot import EngineSnapshot, TargetStatus
from spec_decode_exporter.reports.exit_status import TONES, ExitStatus, worst
from spec_decode_exporter.reports.observation import observation_of
from spec_decode_exporter.reports.observation_report import report
from spec_decode_exporter.reports.observation_view import ObservationView
from spec_decode_exporter.reports.text import TextStyle, badge, json_text, moment, name, printable, render
from spec_decode_exporter.scrape.poll_record import PollRecord
from spec_decode_exporter.views.fleet_view import TargetView, target_view
from spec_decode_exporter.views.templating import environment

MAX_WHOLE: Final = 3  # engines up to which each has the whole observation in the text
MAX_SHOWN: Final = 5  # engines that a text of more has over time: the worst
MAX_ROWS: Final = 24
"""Rows of the table of one engine, whose neighbours are merged, and changes; a third with several engines."""
TOP: Final = 4.0  # greatest speed-up of a chart
WIDTH, HEIGHT = 1000, 200
_DAY: Final = 86_400.0
_HOUR: Final = 3600.0
_STATUS: Final = {
    SlotOutcome.PAID: ExitStatus.GOOD,
    SlotOutcome.HURT: ExitStatus.BAD,
    SlotOutcome.UNCLEAR: ExitStatus.UNKNOWN,
}
_TONES: Final = {outcome: TONES[status] for outcome, status in _STATUS.items()}
_SUMMED: Final = ("seconds", "drafts", "draft_tokens", "accepted_tokens", "generated")
_DROPS: Final = {"acceptance_dropped", "drafting_dropped"}
_HEADS: Final = ("from (UTC)", "to", "", "speed-up", "95 % bounds", "length", "running", "K", "time saved")


class Change(NamedTuple):
    """Event of an engine."""

    begin: float  # Unix time; a drop begins before it is found
    time: float
    type: str
    text: str


def sum_of(slots: Sequence[Slot]) -> Slot:
    """Return the sum of some slots, of one at least.

    The speed-up and its bounds are means by decode time, since the error of a cost does not cancel; the
    decode time is that of the slots with a speed-up, and the outcome of several is that of these bounds.
    """
    known = [(each.speedup, each.decode_seconds) for each in slots if each.speedup and each.decode_seconds]
    total = sum(seconds for _, seconds in known)
    value, lower, upper = (sum(each[place] * seconds for each, seconds in known) for place in range(3))
    speedup = Estimate(value / total, lower / total, upper / total, 0.0) if total else None
    outcomes = {each.outcome for each in slots}
    drafting = outcomes & _STATUS.keys()
    outcome = min(drafting or outcomes, key=[*SlotOutcome].index)
    drafted = [each for each in slots if each.drafts]
    loads = [each for each in drafted or slots if each.running_requests is not None]
    load = sum((each.running_requests or 0.0) * each.seconds for each in loads)
    return replace(
        slots[-1],
        begin=slots[0].begin,
        outcome=SlotOutcome.of(speedup) if len(drafting) > 1 else outcome,
        speedup=speedup,
        decode_seconds=total,
        **{name: sum(getattr(each, name) for each in slots) for name in _SUMMED},
        running_requests=ratio(load, sum(each.seconds for each in loads)),
        tokens=drafted[-1].tokens if drafted else 0,
    )


def rows(slots: Sequence[Slot], most: int = MAX_ROWS) -> list[Slot]:
    """Return the rows of a table: runs of one outcome and process, or days, or several days each."""
    if not slots:
        return []
    first = slots[0].begin
    seconds = _DAY * ceil((slots[-1].end - first) / _DAY / most)
    keys: Sequence[Callable[[Slot], object]] = (
        lambda slot: (slot.era, slot.process, slot.outcome),
        lambda slot: (slot.begin - first) // seconds,
    )
    found = list[Slot]()
    for key in keys:
        found = [sum_of(list(members)) for _, members in groupby(slots, key)]
        if len(found) <= most:
            break
    return found


def changes(engine: EngineHistory) -> list[Change]:
    """Return the restarts, changes of K, drops and faults of an engine, oldest first."""
    found = list[Change]()
    for time, event in engine.events:
        fields = {key: value for key, value in event.fields.items() if key != "since"}
        seconds = fields.get("seconds") if event.name in _DROPS else 0.0
        begin = time - seconds if isinstance(seconds, int | float) else time
        if event.name in EVENTS:
            found.append(Change(begin, time, event.name, event_text(event.name, fields)))
    return found


def history_status(history: PrometheusHistory) -> ExitStatus:
    """Return the worst status of all engines that drafted, by the bounds of their mean speed-up."""
    outcomes = (sum_of(engine.slots).outcome for engine in history.engines if engine.slots)
    statuses = {_STATUS[outcome] for outcome in outcomes if outcome in _STATUS}
    return worst(statuses | ({ExitStatus.FAILED} if history.incomplete else set()))


def observation(history: PrometheusHistory) -> ObservationView | None:
    """Return the observation of the newest times with drafts; without any, of the engines that worked."""
    known = [
        (engine, engine.snapshot)
        for engine in history.engines
        if engine.snapshot is not None and sum_of(engine.slots).outcome in {*_STATUS, SlotOutcome.PLAIN}
    ]
    drafted = [each for each in known if sum_of(each[0].slots).drafts] or known
    if not drafted:
        return None
    targets = groupby(drafted, lambda each: each[0].target)
    return observation_of(
        max(snapshot.evaluation.known.wall for _, snapshot in drafted),
        min(engine.reported_seconds for engine, _ in drafted),
        ((engine.labels, snapshot) for engine, snapshot in drafted),
        tuple(_target(list(members)) for _, members in targets),
    )


def _target(members: Sequence[tuple[EngineHistory, EngineSnapshot]]) -> TargetView:
    first, labels = members[0][0], [engine.labels for engine, _ in members]
    name, names = labels[0]["target"], tuple((each["model_name"], each["engine"]) for each in labels)
    record = PollRecord(polls=first.scrapes, up=True, engines=len(names))
    return target_view(TargetStatus(record, name=name, address=name, labels={"target": name}, engines=names))


def history_text(history: PrometheusHistory, style: TextStyle) -> str:
    """Return a history as text, which is Markdown too."""
    return "\n".join(text for text, _ in _parts(history, style))


def _parts(history: PrometheusHistory, style: TextStyle) -> Iterator[tuple[str, EngineHistory | None]]:
    """Yield the texts, each with the engine that it is about over time."""
    engines = [engine for engine in history.engines if engine.slots]
    view, are_many = observation(history), len(engines) > MAX_WHOLE
    ranked = sorted(engines, key=_badness)
    shown = ranked[:MAX_SHOWN] if len(engines) > MAX_SHOWN else engines
    every = sorted((slot for engine in engines for slot in engine.slots), key=attrgetter("begin"))

    def part(which: str, **more: object) -> str:
        known = {**_CONTEXT, "history": history, "engines": ranked, "shown": shown, **more}
        return render("history.md.jinja", style, part=which, **known)

    yield part("first", total=sum_of(every) if every else None), None
    if view is not None:
        yield report(view, style, sections=not are_many), None
    yield part("overview"), None
    for engine in shown:
        most = MAX_ROWS // 3 if are_many else MAX_ROWS
        cells = list(_cells(rows(engine.slots, most), style))
        told = changes(engine)[-most:]
        yield part("engine", engine=engine, whole=sum_of(engine.slots), rows=cells, changes=told), engine


def _badness(engine: EngineHistory) -> tuple[int, float]:
    row = sum_of(engine.slots)
    return [*SlotOutcome].index(row.outcome), row.speedup.value if row.speedup else 1.0


def history_html(history: PrometheusHistory) -> str:
    """Return a history as one self-contained file with charts, for a screen of any width and for paper."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    static = files("spec_decode_exporter.web") / "static"
    sheet = Markup((static / "style.css").read_text("utf-8"))  # noqa: S704
    parts = list(_parts(history, TextStyle()))
    charts = [chart(history, engine) if engine else None for _, engine in parts]
    if sum(each is not None for each in charts) == 1:  # it is the answer, so it comes first
        charts.sort(key=lambda each: each is None)
    texts = [Markup(markdown.render(text)) for text, _ in parts]  # noqa: S704
    shown = list(zip(texts, charts, strict=True))
    return _html.get_template("history.html").render(parts=shown, sheet=sheet) + "\n"


def chart(history: PrometheusHistory, engine: EngineHistory) -> Mapping[str, object] | None:
    """Return the chart of an engine's speed-up with its bounds and what changed; None without a speed-up.

    ``area`` is the path of the bounds, and ``marks`` have a place, a class of the style sheet, and a text.
    """
    known = [(slot, slot.speedup) for slot in engine.slots if slot.speedup]
    if not known:
        return None
    top = max(2.0, *(ceil(2 * min(TOP, speedup.upper)) / 2 for _, speedup in known))
    span = history.end - history.begin

    def x(time: float) -> float:
        return round(WIDTH * (time - history.begin) / span, 1)

    def y(value: float) -> float:
        return round(HEIGHT * (1 - min(max(value, 0.0), top) / top), 1)

    area = line = ""
    for slot, speedup in known:
        begin, end = x(slot.begin), x(slot.end)
        area += f"M{begin} {y(speedup.upper)}H{end}V{y(speedup.lower)}H{begin}Z"
        line += f"M{begin} {y(speedup.value)}H{end}"
    form = "%d %b" if span > 4 * _DAY else "%d %b %H:%M"
    times = (history.begin + span * step / 4 for step in range(5))
    labels = [f"{datetime.fromtimestamp(time, UTC):{form}}" for time in times]
    marks = [(x(each.begin), EVENTS[each.type].tone, str(printable(each.text))) for each in changes(engine)]
    return {"top": top, "labels": labels, "area": area, "line": line, "even": y(1.0), "marks": marks}


def history_json(history: PrometheusHistory) -> str:
    """Return the observation as ASCII JSON, with ``history``: slots and changes of every engine."""
    view = observation(history)
    names = ("source", "begin", "end", "slot_seconds", "incomplete")
    past: dict[str, Any] = {each: getattr(history, each) for each in names}
    past["notes"] = list(history.notes)
    past["engines"] = [_document(engine) for engine in history.engines if engine.slots]
    return json_text({**(view.model_dump(mode="json") if view else {"engines": []}), "history": past})


def _document(engine: EngineHistory) -> Mapping[str, Any]:
    baseline: dict[str, Any] | None = None
    if engine.baseline is not None:
        baseline = {each: getattr(engine.baseline, each) for each in ("name", "seconds", "end")}
        baseline["of"] = engine.baseline_of or engine.target.name
    return {
        **engine.labels,
        "labels": dict(engine.target.labels),
        "scrapes": engine.scrapes,
        "scrape_interval_seconds": engine.interval,
        "reported_seconds": engine.reported_seconds,
        "summary": _slot(sum_of(engine.slots)),
        "baseline": baseline,
        "changes": [each._asdict() for each in changes(engine)],
        "slots": [_slot(each) for each in engine.slots],
    }  # fmt: skip


def _slot(slot: Slot) -> dict[str, Any]:
    bounded = {each: _bounded(getattr(slot, each)) for each in ("speedup", "saved_decode_seconds")}
    return {**asdict(slot), "length": slot.length, **bounded}


def _bounded(values: Sequence[float] | None) -> Mapping[str, float] | None:
    return None if values is None else dict(zip(("value", "lower", "upper"), values, strict=False))


HISTORY_FORMATS: Final[Mapping[str, Callable[[PrometheusHistory, TextStyle], str]]] = {
    "text": history_text,
    "json": lambda history, _: history_json(history),
    "html": lambda history, _: history_html(history),
}
"""Writers by the value of ``--format``."""


def saved(row: Slot) -> str:
    """Write the decode-hours that speculation saved, with their bounds; negative if it cost time."""
    return "" if row.saved_decode_seconds is None else _hours(row.saved_decode_seconds)


def saved_text(row: Slot) -> str:
    """Write the same in words: saved, or lost."""
    times = row.saved_decode_seconds or (0.0, 0.0, 0.0)
    if times[0] >= 0:
        return f"{_hours(times)} of decoding saved"
    value, lower, upper = (-each for each in times)
    return f"{_hours((value, upper, lower))} of decoding lost"


def _hours(seconds: Iterable[float]) -> str:
    value, lower, upper = (three_digits(each / _HOUR, 2) for each in seconds)
    return f"{value} h ({lower} to {upper})"


def overview(engines: Iterable[EngineHistory], style: TextStyle) -> Iterator[Sequence[object]]:
    """Yield answer, speed-up, saved time and names of each engine."""
    for engine in engines:
        row, labels = sum_of(engine.slots), engine.labels
        names = [name(labels[each]) for each in ("target", "model_name", "engine")]
        speedup = f"{row.speedup[0]:.2f} ({bounds(*row.speedup[1:3])})" if row.speedup else ""
        yield _badge(row, style, str.upper), speedup, saved(row), *names


def _badge(row: Slot, style: TextStyle, written: Callable[[str], str] = str) -> Markup:
    return badge(written(row.outcome), _TONES.get(row.outcome, "off"), style)


def _cells(found: Iterable[Slot], style: TextStyle) -> Iterator[Sequence[object]]:
    for row in found:
        yield (
            moment(row.begin),
            moment(row.end)[11:] if row.end - row.begin < _DAY else moment(row.end),
            _badge(row, style) if row.outcome in _TONES else row.outcome,
            plain(row.speedup[0]) if row.speedup else "",
            bounds(*row.speedup[1:3]) if row.speedup else "",
            "" if row.length is None else plain(row.length),
            "" if row.running_requests is None else f"{row.running_requests:.1f}",
            row.tokens or "",
            saved(row),
        )


_CONTEXT: Final = {
    **{each.__name__: each for each in (hidden_drafts, long_time, moment, overview, saved_text)},
    "HEADS": _HEADS,
    "TONES": _TONES,
}
"""What the template uses besides the history."""
_html: Final = environment("spec_decode_exporter.reports", html=True)
