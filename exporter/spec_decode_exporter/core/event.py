"""Something that happened and is worth a line: what the log, the API and the page tell alike."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an engine or a target."""

    name: str
    fields: dict[str, object] = field(default_factory=dict)
    is_bad: bool = False
    """Whether an operator should look at it."""
