"""Which kind the next request of an engine is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from spec_decode_exporter.simulator.scenario import RequestKind
    from spec_decode_exporter.simulator.timeline import Conditions


class Mix:
    """The kinds of requests that hold now.

    It draws from ``random`` alone: what a scenario without kinds draws is the same as with kinds that are
    alike in all but their names.
    """

    def __init__(self, conditions: Conditions, random: Random) -> None:
        self._random = random
        self.change(conditions)

    def change(self, conditions: Conditions) -> None:
        """Let ``conditions`` hold."""
        self._kinds: list[RequestKind | None] = [*conditions.mix] or [None]
        self._conditions = [conditions if kind is None else conditions.of(kind) for kind in self._kinds]
        self._shares = [1.0 if kind is None else kind.share for kind in self._kinds]

    def draw(self) -> tuple[RequestKind | None, Conditions]:
        """Return the next request's kind and what it meets."""
        (place,) = self._random.choices(range(len(self._kinds)), self._shares)
        return self._kinds[place], self._conditions[place]
