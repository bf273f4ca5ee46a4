"""Mix of request kinds: draw the kind of the next request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from spec_decode_exporter.simulator.scenario import RequestKind
    from spec_decode_exporter.simulator.timeline import Conditions


class RequestMix:
    """Present kinds of requests.

    It draws only from ``random``: a scenario without kinds draws the same requests as one whose kinds differ
    only in their names.
    """

    def __init__(self, conditions: Conditions, random: Random) -> None:
        self._random = random
        self.change(conditions)

    def change(self, conditions: Conditions) -> None:
        """Use ``conditions`` from now on."""
        self._kinds: list[RequestKind | None] = [*conditions.mix] or [None]
        self._conditions = [conditions if kind is None else conditions.of(kind) for kind in self._kinds]
        self._shares = [1.0 if kind is None else kind.share for kind in self._kinds]

    def draw(self) -> tuple[RequestKind | None, Conditions]:
        """Return the next request's kind and its conditions."""
        (index,) = self._random.choices(range(len(self._kinds)), self._shares)
        return self._kinds[index], self._conditions[index]
