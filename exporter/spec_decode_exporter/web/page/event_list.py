"""Recent events as text: one table by the event's type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import Action, State
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.views.fleet_view import EventView
from spec_decode_exporter.web.page.charts import ChartMark
from spec_decode_exporter.web.page.markup import Markup, joined, name, sentences, tag, text
from spec_decode_exporter.web.page.page_numbers import DASH, moment
from spec_decode_exporter.web.page.words import ACTIONS, STATES, VERDICTS
from spec_decode_exporter.window.poll import Check, Reset

_SHOWN: Final = 12

_Row = list[EventView]
"""Events that share one row, the newest last."""


class _Wording(NamedTuple):
    kind: str
    """Class of the style sheet."""
    text: str
    """Template of the event's fields."""


_WORDINGS: Final[Mapping[str, _Wording]] = {
    "acceptance_dropped": _Wording(
        "drop",
        "Acceptance dropped ({kind}): {acceptance_length} tokens a draft; "
        "the baseline is {baseline_acceptance_length}",
    ),
    "acceptance_recovered": _Wording("recovery", "Acceptance is back: {acceptance_length} tokens a draft"),
    "acceptance_baseline_reset": _Wording(
        "recovery", "The baseline was reset to {acceptance_length} tokens a draft"
    ),
    "drafting_dropped": _Wording(
        "drop",
        "Fewer steps have a draft: {tokens_per_step} tokens a step; "
        "the baseline is {baseline_tokens_per_step}",
    ),
    "drafting_recovered": _Wording("recovery", "Drafting is back: {tokens_per_step} tokens a step"),
    "drafting_baseline_reset": _Wording(
        "recovery", "The baseline was reset to {tokens_per_step} tokens a step"
    ),
    "engine_reset": _Wording("reset", "The server's counters were reset: {cause}"),
    "configured_tokens_changed": _Wording("reset", "K is {configured_tokens}; it was {before}"),
    "verdict_changed": _Wording("neutral", "Verdict: {verdict}"),
    "recommendation_changed": _Wording("neutral", "Advice: {recommendation}"),
    "state_changed": _Wording("neutral", "State: {state}; it was {before}"),
    "drafting_stalled": _Wording("drop", "Drafting stalled"),
    "drafting_no_longer_stalled": _Wording("recovery", "No longer stalled. State: {state}"),
    "engine_found": _Wording("neutral", "Seen for the first time"),
    "check_broken": _Wording("drop", "The counters contradict each other: {check}"),
    "check_holds_again": _Wording("recovery", "The counters agree again: {check}"),
    "analysis_failed": _Wording("drop", "Internal error of the exporter in its {part}: see its log"),
    "analysis_works_again": _Wording("recovery", "No internal error any more: {part}"),
    "target_failing": _Wording("drop", "Polls fail: {error}"),
    "target_recovered": _Wording("recovery", "Polls succeed again, after {failed_polls} that failed"),
    "no_engine_on_page": _Wording("drop", "No engine is on the page: {remedy}"),
    "filtered_page_not_used": _Wording("neutral", "The whole page is polled: there is no filtered one"),
    "engines_evicted": _Wording("drop", "Engines were evicted, the limit is {kept}: {remedy}"),
    "engines_not_monitored": _Wording(
        "drop", "{engines} engines are not watched, the limit is {kept}: {remedy}"
    ),
    "server_details_not_used": _Wording("drop", "Not used from {source}: {reason}"),
    "target_polled_less_often": _Wording("neutral", "Polled every {interval} s only: {cause}"),
    "baseline_read": _Wording("neutral", "Baseline of {model} from {source}: {period}"),
    "baseline_not_read": _Wording("drop", "No baseline from {source}: {reason}"),
    "events_omitted": _Wording("drop", "Too many events, some are left out: {example}"),
    "mixed_workload_began": _Wording(
        "drop", "Mixed workload: the mean of {requests} requests hides that they differ"
    ),
    "mixed_workload_ended": _Wording("recovery", "No mixed workload any more, or too few requests"),
    "requests_below_break_even": _Wording(
        "drop",
        "Requests below break-even: {request_type}, temperature {temperature}, {speedup_ratio} as fast",
    ),
    "requests_below_break_even_ended": _Wording(
        "recovery",
        "Requests no longer below break-even, or too few: {request_type}, temperature {temperature}",
    ),
    "poll_crashed": _Wording(
        "drop", "Internal error of the exporter: the page could not be read, see its log"
    ),
}


_STATE_WORDS: Final = {str(state): word.text for state, word in STATES.items()}
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "verdict": {str(verdict): word.text for verdict, word in VERDICTS.items()},
    "state": _STATE_WORDS,
    "before": _STATE_WORDS,
    "recommendation": {str(action): words for action, words in ACTIONS.items()},
    "cause": {
        Reset.RESTART: "it was restarted",
        Reset.DECREASE: "they decreased for an unknown reason",
        "answers": "the server responds slowly",
        "processing": "the exporter needs long to process its page",
    },
    "check": {check: check.replace("_", " ") for check in Check},
}
"""Text of field values, by field."""
_OF_TOKENS: Final = frozenset((Action.INCREASE, Action.DECREASE))


class _Fields(dict[str, str]):
    """Fields of an event as text; a missing field is a dash."""

    def __missing__(self, key: str) -> str:
        return DASH


def event_text(event: EventView) -> str:
    """Return an event as text."""
    wording = _WORDINGS.get(event.type)
    if wording is None:
        return event.type.replace("_", " ").capitalize()
    written = {key: _written(key, value) for key, value in event.fields.items()}
    if event.type == "recommendation_changed":
        written["recommendation"] = _advice(event)
    return wording.text.format_map(_Fields(written))


def _written(key: str, value: object) -> str:
    words = _WORDS.get(key, {})
    return f"{value:.2f}" if isinstance(value, float) else words.get(str(value), str(value))


def _advice(event: EventView) -> str:
    """Write advice, with the recommended number of draft tokens if there is one."""
    action, tokens = event.fields.get("recommendation"), event.fields.get("recommended_tokens")
    if action not in _OF_TOKENS or not isinstance(tokens, int):
        return _WORDS["recommendation"].get(str(action), str(action))
    if not tokens:
        return "try without speculation"
    return f"try {plural(tokens, 'token')}"


def marks(events: Iterable[EventView], now: float) -> Iterator[ChartMark]:
    """Yield events as marks on a time axis."""
    for event in events:
        yield ChartMark(max(now - event.time, 0.0), _kind(event), event_text(event))


def engine_events(events: Iterable[EventView], engine: str, now: float) -> Markup:
    """List the events of an engine, by its id, and of its target, the newest first."""
    rows = [[event] for event in events]
    if not rows:
        return tag("p", "No recent events of this engine.", class_="empty")
    return _listed((_item(row, now) for row in _selected(rows)), f"./api/v1/events?engine_id={engine}")


def recent_events(
    events: Iterable[EventView], now: float, empty: str = "No events since the exporter started."
) -> Markup:
    """List the events of the fleet, the newest first; ``empty`` is the text if there are none."""
    rows = _grouped(events)
    if not rows:
        return tag("p", empty, class_="empty")
    return _listed((_item(row, now, _subject(row)) for row in _selected(rows)), "./api/v1/events")


def _grouped(events: Iterable[EventView]) -> list[_Row]:
    """Group equal events of the same minute; important events get their own row."""
    rows: dict[object, _Row] = {}
    for event in events:
        group = (event.type, event_text(event), event.time // 60)
        key = event.id if _is_important(event) else group
        row = rows.pop(key, [])
        row.append(event)
        rows[key] = row
    return list(rows.values())


def _selected(rows: Sequence[_Row]) -> list[_Row]:
    """Return the newest important rows, then the newest others, in order of time."""
    places = sorted(range(len(rows)), key=lambda place: (not _is_important(rows[place][-1]), -place))
    return [rows[place] for place in sorted(places[:_SHOWN], reverse=True)]


def _is_important(event: EventView) -> bool:
    """Return whether an event is an alarm, its end, or a reset."""
    return event.bad or _kind(event) != "neutral" or event.fields.get("before") == State.UNREACHABLE


def _listed(items: Iterable[Markup], href: str) -> Markup:
    link = tag("a", "All events", href=href)
    note = tag("p", f"Shows at most {_SHOWN}, alarms and their ends first. ", link, class_="note")
    return joined((tag("ol", *items, class_="events"), note))


def _item(row: _Row, now: float, subject: Markup | None = None) -> Markup:
    newest = row[-1]
    parts = [moment(newest.time, now), tag("span", sentences(event_text(newest)), class_="text")]
    if subject is not None:
        parts.append(tag("span", subject, class_="subject"))
    kind = f"{_kind(newest)}{' bad' if newest.bad else ''}"
    return tag("li", *parts, class_=kind, data_key=row[0].id)


def _subject(row: _Row) -> Markup:
    """Return the engine or target, or the number of several."""
    number = len({(event.target, event.engine_id) for event in row})
    if number > 1:
        return text(plural(number, "target" if row[0].engine_id is None else "engine"))
    return _link(row[0])


def _link(event: EventView) -> Markup:
    if event.engine_id is None:
        return name(event.target or event.model_name or "")
    of_engine = (name(event.model_name or ""), " · ", name(event.target), f" · engine {event.engine}")
    return tag("a", *of_engine, href=f"./?engine={event.engine_id}#e-{event.engine_id}")


def _kind(event: EventView) -> str:
    wording = _WORDINGS.get(event.type)
    return wording.kind if wording else "neutral"
