"""Keeps a defect of ours in one part of the analysis from ending the others, and tells it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from spec_decode_exporter.core.event import Event

T = TypeVar("T")

WORKS_AFTER: Final = 60.0
"""Seconds without a failure after which a part works again: it may fail for some polls and not for others."""


class Containment:
    """What failed in the analysis of one engine."""

    def __init__(self) -> None:
        self._failed_at: dict[str, float] = {}
        self._untold: list[Event] = []

    def attempt(self, part: str, moment: float, work: Callable[[], T]) -> T | None:
        """Return what ``work`` returns, or None if it raises; ``moment`` is monotonic, in seconds."""
        try:
            found = work()
        except Exception as error:  # noqa: BLE001  # whatever it is, the engine is watched on
            self._fails(part, moment, error)
            return None
        if moment - self._failed_at.get(part, moment) > WORKS_AFTER:
            del self._failed_at[part]
            self._untold.append(Event("analysis_works_again", {"part": part}))
        return found

    def failed(self, part: str, moment: float) -> bool:
        """Return whether a part failed at that moment."""
        return self._failed_at.get(part) == moment

    def events(self) -> list[Event]:
        """Return what was not told yet."""
        told, self._untold = self._untold, []
        return told

    def _fails(self, part: str, moment: float, error: Exception) -> None:
        if part not in self._failed_at:
            fields: dict[str, object] = {"part": part, "error": repr(error), "exc_info": error}
            self._untold.append(Event("analysis_failed", fields, is_bad=True))
        self._failed_at[part] = moment
