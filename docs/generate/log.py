"""Generator of the lists of events in docs/reference/log.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spec_decode_exporter.monitor.events import EVENTS, SUBJECTS, EventType

_BEGIN: Final = (
    "<!-- Generated from exporter/spec_decode_exporter/monitor/events.py by `make generate`. "
    "Change the rows there. -->\n"
)
_END: Final = "<!-- End of what is generated. -->\n"

_COMMON_FIELDS = {
    "Engines": ("event_id", "target", "model_name", "engine"),
    "Targets": ("event_id", "target"),
}
"""Fields of all rows of a subject, besides ``timestamp``, ``level`` and ``event``."""


def markdown() -> str:
    """Return the lists of docs/reference/log.md."""
    return "\n".join(map(_list, SUBJECTS))


def _list(about: str) -> str:
    common = _COMMON_FIELDS.get(about, ())
    introduction = f"Each has {_written(common)}.\n\n" if common else ""
    rows = [_row(event) for event in EVENTS.values() if event.about == about]
    return f"### {about}\n\n{introduction}" + "\n".join([*rows, ""])


def _row(event: EventType) -> str:
    fields = _written(event.fields.split())
    return f"- `{event.name}` ({event.level}{fields and '; '}{fields}): {event.meaning}"


def _written(names: Iterable[str]) -> str:
    return ", ".join(name if name == "…" else f"`{name}`" for name in names)


def with_lists(text: str) -> str:
    """Return a document with new lists."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{markdown()}\n{_END}{after}"
