"""Internal errors in the analysis of one engine: they end one part, and become two events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.internal_errors import RECOVERED_AFTER

T = TypeVar("T")


class AnalysisErrors:
    """Runs the parts of an engine's analysis, and collects events about those that fail.

    ``InternalErrors`` writes log lines. These failures are events of the engine instead: with an identifier,
    in the API and on the page.
    """

    def __init__(self) -> None:
        self._failed_at: dict[str, float] = {}
        self._events: list[Event] = []

    def attempt(self, part: str, moment: float, work: Callable[[], T]) -> T | None:
        """Return the result of ``work``, or None if it raises; ``moment`` is monotonic, in seconds."""
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  # the engine is monitored on, whatever it is
            self._add_failure(part, moment, error)
            return None
        if moment - self._failed_at.get(part, moment) > RECOVERED_AFTER:
            del self._failed_at[part]
            self._events.append(Event("analysis_works_again", {"part": part}))
        return result

    def failed(self, part: str, moment: float) -> bool:
        """Return whether a part failed at that moment."""
        return self._failed_at.get(part) == moment

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def _add_failure(self, part: str, moment: float, error: Exception) -> None:
        if part not in self._failed_at:
            fields: dict[str, object] = {"part": part, "error": repr(error), "exc_info": error}
            self._events.append(Event("analysis_failed", fields, is_bad=True))
        self._failed_at[part] = moment
