"""JSON model of an event, from its record."""

from __future__ import annotations

from functools import lru_cache

from spec_decode_exporter.monitor.event_log import MAX_EVENTS, RecordedEvent
from spec_decode_exporter.views.engine_view import engine_id
from spec_decode_exporter.views.models import EventView


@lru_cache(maxsize=MAX_EVENTS)
def event_view(event: RecordedEvent) -> EventView:
    """Return the JSON model of an event; each kept event is converted once for all readers."""
    return EventView(
        id=event.id,
        time=event.time,
        type=event.type,
        bad=event.bad,
        target=event.target,
        model_name=event.model_name,
        engine=event.engine,
        engine_id=_engine_id(event),
        fields=dict(event.fields),
    )


def _engine_id(event: RecordedEvent) -> str | None:
    if event.model_name is None or event.engine is None:
        return None
    return engine_id(event.target, event.model_name, event.engine)
