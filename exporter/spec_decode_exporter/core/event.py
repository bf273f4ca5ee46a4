"""Events of engines and targets: the same in the log, the API and on the page."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """A change of an engine or a target."""

    name: str
    fields: dict[str, object] = field(default_factory=dict)
    is_bad: bool = False
    """An operator should look at it; the log level is warning."""
