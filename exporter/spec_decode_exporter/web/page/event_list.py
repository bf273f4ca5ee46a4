"""Recent events as a list, and as marks of charts: grouped, alarms and their ends first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.monitor.events import EVENTS, event_text
from spec_decode_exporter.views.fleet_view import EventView
from spec_decode_exporter.web.page.charts import ChartMark
from spec_decode_exporter.web.page.markup import Markup, joined, name, sentences, tag, text
from spec_decode_exporter.web.page.page_numbers import moment

_SHOWN: Final = 12

_Row = list[EventView]
"""Events that share one row, the newest last."""


def marks(events: Iterable[EventView], now: float) -> Iterator[ChartMark]:
    """Yield events as marks on a time axis."""
    for event in events:
        yield ChartMark(max(now - event.time, 0.0), EVENTS[event.type].tone, _text(event))


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
        group = (event.type, _text(event), event.time // 60)
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
    is_neutral = EVENTS[event.type].tone == "neutral"
    return event.bad or not is_neutral or event.fields.get("before") == State.UNREACHABLE


def _listed(items: Iterable[Markup], href: str) -> Markup:
    link = tag("a", "All events", href=href)
    note = tag("p", f"Shows at most {_SHOWN}, alarms and their ends first. ", link, class_="note")
    return joined((tag("ol", *items, class_="events"), note))


def _item(row: _Row, now: float, subject: Markup | None = None) -> Markup:
    newest = row[-1]
    parts = [moment(newest.time, now), tag("span", sentences(_text(newest)), class_="text")]
    if subject is not None:
        parts.append(tag("span", subject, class_="subject"))
    kind = f"{EVENTS[newest.type].tone}{' bad' if newest.bad else ''}"
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


def _text(event: EventView) -> str:
    return event_text(event.type, event.fields)
