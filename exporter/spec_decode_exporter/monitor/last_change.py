"""The last detected change of an engine's acceptance or drafting: a verdict is about the time since then."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from spec_decode_exporter.drops.drop import DropChange
from spec_decode_exporter.analysis.evaluated_window import Change
from spec_decode_exporter.window.engine_history import EngineHistory


class LastChange:
    """Moment of the last change, and the number of changes."""

    def __init__(self) -> None:
        self.number = 0
        self._moment = -inf

    def note(self, changes: Sequence[DropChange], moment: float) -> None:
        """Note the drops that began or ended with the poll of ``moment`` (monotonic).

        Slow drops, changes of traffic and reset baselines have no moment.
        """
        ages = [each.age for each in changes if each.age is not None]
        if ages:
            self._moment = max(self._moment, moment - min(ages))
            self.number += 1

    def within(self, history: EngineHistory, seconds: float, wall: float) -> Change | None:
        """Return the last change; None if it is ``seconds`` old. ``wall`` is the time of the newest poll."""
        age = history.last_seen - self._moment
        return None if age >= seconds else Change(history.window(age), wall - age)
