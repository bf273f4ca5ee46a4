"""Events of engines, targets and requests: the same in the log, the API, on the page and in reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Fields = Mapping[str, bool | int | float | str | Sequence[bool | int | float | str | None] | None]
"""Values that JSON can represent, by name."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change, without its subject; ``monitor.events.EVENTS`` describes every name."""

    name: str
    fields: Fields = field(default_factory=dict)
    bad: bool | None = None  # True if an operator should read it; None: by its row in the table
    error: Exception | None = None
    """Internal error; only the log shows it, since its text may be confidential."""
