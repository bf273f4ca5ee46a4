"""What happened lately, in words: ONE table by the event's type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from exporter.export.models import EventView
from exporter.web.page.charts import Mark
from exporter.web.page.markup import Markup, joined, name, tag
from exporter.web.page.moments import moment
from exporter.web.page.numbers import DASH

_SHOWN: Final = 12


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
    "acceptance_baseline_learnt_anew": _Wording(
        "recovery", "It stayed so for so long that it is usual now: {acceptance_length} tokens a draft"
    ),
    "engine_reset": _Wording("reset", "The server's counters began anew: {cause}"),
    "configured_tokens_changed": _Wording("reset", "K is {configured_tokens}; it was {before}"),
    "verdict_changed": _Wording("told", "The verdict is {verdict}"),
    "recommendation_changed": _Wording("told", "The advice is {recommendation}"),
    "state_changed": _Wording("told", "It is {state}; it was {before}"),
    "drafting_stalled": _Wording("drop", "Drafting stalled"),
    "drafting_no_longer_stalled": _Wording("recovery", "No longer stalled: it is {state}"),
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
    "poll_crashed": _Wording("drop", "A defect of the exporter's in reading the page: see its log"),
}


class _Fields(dict[str, str]):
    """The fields of an event, written for people; one that is missing is a dash."""

    def __missing__(self, key: str) -> str:
        return DASH


def event_text(event: EventView) -> str:
    """Return what happened, in words."""
    wording = _WORDINGS.get(event.type)
    if wording is None:
        return event.type.replace("_", " ").capitalize()
    return wording.text.format_map(_Fields({key: _written(value) for key, value in event.fields.items()}))


def _written(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def marks(events: Iterable[EventView], engine: str, target: str, now: float) -> Iterator[Mark]:
    """Yield an engine's events, and those of its target, as marks on its time line."""
    for event in _of(events, engine, target):
        yield Mark(max(now - event.time, 0.0), _kind(event), event_text(event))


def engine_events(events: Iterable[EventView], engine: str, target: str, now: float) -> Markup:
    """List what happened to one engine and its target, the newest first."""
    found = list(_of(events, engine, target))
    return _listed(found, now, named=False)


def recent_events(events: Iterable[EventView], now: float) -> Markup:
    """List what happened to anything, the newest first."""
    return _listed(list(events), now, named=True)


def _of(events: Iterable[EventView], engine: str, target: str) -> Iterator[EventView]:
    return (
        event
        for event in events
        if event.engine_id == engine or (event.engine_id is None and event.target == target)
    )


def _listed(events: list[EventView], now: float, *, named: bool) -> Markup:
    if not events:
        return tag("p", "Nothing happened since the exporter started.", class_="empty")
    newest = reversed(events[-_SHOWN:])
    return tag("ol", *(_item(event, now, named=named) for event in newest), class_="events")


def _item(event: EventView, now: float, *, named: bool) -> Markup:
    who = tag("span", name(event.model_name or event.target), class_="who") if named else Markup("")
    parts = (moment(event.time, now), tag("span", event_text(event), class_="what"), who)
    return tag("li", joined(parts), class_=f"{_kind(event)}{' bad' if event.bad else ''}", data_key=event.id)


def _kind(event: EventView) -> str:
    wording = _WORDINGS.get(event.type)
    return wording.kind if wording else "told"
