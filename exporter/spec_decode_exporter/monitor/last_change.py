"""The last detected change of an engine's acceptance or drafting: a verdict is about the time since then."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from spec_decode_exporter.drops.sums import Drop


class LastChange:
    """Moment of the last change, and the number of changes."""

    def __init__(self) -> None:
        self.number = 0
        self._moment = -inf

    def note(self, drops: Sequence[Drop], moment: float) -> None:
        """Note the drops that began or ended with the poll of ``moment`` (monotonic).

        Slow drops and reset baselines have no moment.
        """
        ages = [each.age for each in drops if each.age is not None]
        if ages:
            self._moment = max(self._moment, moment - min(ages))
            self.number += 1

    def age(self, now: float) -> float:
        """Return the seconds since the last change at ``now`` (monotonic); infinite without one."""
        return now - self._moment
