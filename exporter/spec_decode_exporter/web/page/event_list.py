"""What happened lately, in words: ONE table by the event's type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.views.models import EventView
from spec_decode_exporter.web.page.charts import ChartMark
from spec_decode_exporter.web.page.markup import Markup, joined, name, tag, text
from spec_decode_exporter.web.page.moments import moment
from spec_decode_exporter.web.page.page_numbers import DASH
from spec_decode_exporter.web.page.words import ACTIONS, STATES, VERDICTS
from spec_decode_exporter.window.increments import Reset

_SHOWN: Final = 12

_Row = list[EventView]
"""Events that are told as one, the newest last."""


class _Wording(NamedTuple):
    kind: str
    """A class of the style sheet."""
    text: str
    """A format of the event's fields."""


_WORDINGS: Final[Mapping[str, _Wording]] = {
    "acceptance_dropped": _Wording(
        "drop",
        "Acceptance dropped ({kind}): {acceptance_length} tokens a draft; "
        "{baseline_acceptance_length} is usual",
    ),
    "acceptance_recovered": _Wording("recovery", "Acceptance is back: {acceptance_length} tokens a draft"),
    "acceptance_baseline_reset": _Wording(
        "recovery", "It stayed so for so long that it is usual now: {acceptance_length} tokens a draft"
    ),
    "engine_reset": _Wording("reset", "The server's counters began anew: {cause}"),
    "configured_tokens_changed": _Wording("reset", "K is {configured_tokens}; it was {before}"),
    "verdict_changed": _Wording("told", "Verdict: {verdict}"),
    "recommendation_changed": _Wording("told", "Advice: {recommendation}"),
    "state_changed": _Wording("told", "State: {state}; it was {before}"),
    "drafting_stalled": _Wording("drop", "Drafting stalled"),
    "drafting_no_longer_stalled": _Wording("recovery", "No longer stalled. State: {state}"),
    "engine_found": _Wording("told", "Seen for the first time"),
    "check_broken": _Wording("drop", "The counters contradict each other: {check}"),
    "check_holds_again": _Wording("recovery", "The counters agree again: {check}"),
    "analysis_failed": _Wording("drop", "A defect of the exporter's in its {part}: see its log"),
    "analysis_works_again": _Wording("recovery", "Works again: {part}"),
    "target_failing": _Wording("drop", "Polls fail: {error}"),
    "target_recovered": _Wording("recovery", "Polls succeed again, after {failed_polls} that failed"),
    "no_engine_on_page": _Wording("drop", "No engine is on the page: {remedy}"),
    "filtered_page_not_used": _Wording("told", "The whole page is polled: there is no filtered one"),
    "engines_forgotten": _Wording("drop", "Engines are forgotten, {kept} are kept: {remedy}"),
    "engines_not_watched": _Wording("drop", "{engines} engines are not watched, {kept} are: {remedy}"),
    "server_details_not_used": _Wording("drop", "Not used from {source}: {reason}"),
    "target_polled_less_often": _Wording("told", "Polled every {interval} s only: {cause}"),
    "events_omitted": _Wording("drop", "Too many events, some are left out: {example}"),
    "mixed_workload_began": _Wording(
        "drop", "A mixed workload: {requests} requests, of which the mean hides that they differ"
    ),
    "mixed_workload_ended": _Wording("recovery", "No mixed workload any more, or too few requests to say"),
    "requests_below_break_even": _Wording(
        "drop",
        "Requests lose by speculation: {request_type}, temperature {temperature}, {speedup_ratio} as fast",
    ),
    "requests_below_break_even_ended": _Wording(
        "recovery", "Requests lose no longer, or are too few: {request_type}, temperature {temperature}"
    ),
    "poll_crashed": _Wording("drop", "A defect of the exporter's in reading the page: see its log"),
}


_STATE_WORDS: Final = {str(state): word.text for state, word in STATES.items()}
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "verdict": {str(verdict): word.text for verdict, word in VERDICTS.items()},
    "state": _STATE_WORDS,
    "before": _STATE_WORDS,
    "recommendation": {str(action): words for action, words in ACTIONS.items()},
    "cause": {
        Reset.RESTART: "it was restarted",
        Reset.DECREASE: "they decreased, and nothing explains it",
        "answers": "the answers take the server long",
        "processing": "its pages take the exporter long",
    },
    "check": {check: check.replace("_", " ") for check in Check},
}
"""What the values of fields are called on the page."""
_OF_TOKENS: Final = frozenset((Action.INCREASE, Action.DECREASE))


class _Fields(dict[str, str]):
    """The fields of an event, written for people; one that is missing is a dash."""

    def __missing__(self, key: str) -> str:
        return DASH


def event_text(event: EventView) -> str:
    """Return what happened, in words."""
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
    """Write advice: another number of tokens is named, where one is recommended."""
    action, tokens = event.fields.get("recommendation"), event.fields.get("recommended_tokens")
    if action not in _OF_TOKENS or tokens is None:
        return _WORDS["recommendation"].get(str(action), str(action))
    if not tokens:
        return "try without speculation"
    return f"try {tokens} {'token' if tokens == 1 else 'tokens'}"


def marks(events: Iterable[EventView], now: float) -> Iterator[ChartMark]:
    """Yield events as marks on a time line."""
    for event in events:
        yield ChartMark(max(now - event.time, 0.0), _kind(event), event_text(event))


def engine_events(events: Iterable[EventView], engine: str, now: float) -> Markup:
    """List what happened to one engine, by its id, and to its target, the newest first."""
    rows = [[event] for event in events]
    if not rows:
        return tag("p", "Nothing is kept of what happened to it.", class_="empty")
    return _listed((_item(row, now) for row in _chosen(rows)), f"./api/v1/events?engine_id={engine}")


def recent_events(events: Iterable[EventView], now: float) -> Markup:
    """List what happened to anything, the newest first."""
    rows = _gathered(events)
    if not rows:
        return tag("p", "Nothing happened since the exporter started.", class_="empty")
    return _listed((_item(row, now, _who(row)) for row in _chosen(rows)), "./api/v1/events")


def _gathered(events: Iterable[EventView]) -> list[_Row]:
    """Gather news that are alike and of the same minute; what matters stands for itself."""
    rows: dict[object, _Row] = {}
    for event in events:
        alike = (event.type, event_text(event), event.time // 60)
        key = event.id if _matters(event) else alike
        row = rows.pop(key, [])
        row.append(event)
        rows[key] = row
    return list(rows.values())


def _chosen(rows: Sequence[_Row]) -> list[_Row]:
    """Return the newest rows of those that matter, then of the others; all of them the newest first."""
    places = sorted(range(len(rows)), key=lambda place: (not _matters(rows[place][-1]), -place))
    return [rows[place] for place in sorted(places[:_SHOWN], reverse=True)]


def _matters(event: EventView) -> bool:
    """Return whether it is an alarm, the end of one, or a new beginning."""
    return event.bad or _kind(event) != "told" or event.fields.get("before") == State.UNREACHABLE


def _listed(items: Iterable[Markup], all_of_them: str) -> Markup:
    link = tag("a", "All events that are kept", href=all_of_them)
    note = tag("p", f"At most {_SHOWN} are shown, alarms and their ends first. ", link, class_="note")
    return joined((tag("ol", *items, class_="events"), note))


def _item(row: _Row, now: float, who: Markup | None = None) -> Markup:
    newest = row[-1]
    parts = [moment(newest.time, now), tag("span", event_text(newest), class_="what")]
    if who is not None:
        parts.append(tag("span", who, class_="who"))
    kind = f"{_kind(newest)}{' bad' if newest.bad else ''}"
    return tag("li", *parts, class_=kind, data_key=row[0].id)


def _who(row: _Row) -> Markup:
    """Name the engine or target; where there are several, say how many."""
    several = len({(event.target, event.engine_id) for event in row})
    if several > 1:
        return text(f"{several} {'targets' if row[0].engine_id is None else 'engines'}")
    return _whose(row[0])


def _whose(event: EventView) -> Markup:
    if event.engine_id is None:
        return name(event.target or event.model_name or "")
    of_engine = (name(event.model_name or ""), " · ", name(event.target), f" · engine {event.engine}")
    return tag("a", *of_engine, href=f"./?engine={event.engine_id}#e-{event.engine_id}")


def _kind(event: EventView) -> str:
    wording = _WORDINGS.get(event.type)
    return wording.kind if wording else "told"
