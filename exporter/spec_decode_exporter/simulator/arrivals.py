"""When requests come to one engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from spec_decode_exporter.simulator.scenario import Load


class Arrivals:
    """The share of the load that engine ``index`` of ``engines`` gets."""

    def __init__(self, random: Random, index: int, engines: int) -> None:
        self._random = random
        self._index = index
        self._engines = engines
        self._clients = 0
        self._rate = 0.0
        self.next_at = math.inf
        """When the next request comes by itself; infinite if requests only follow on others."""

    def change(self, load: Load, moment: float) -> None:
        """Let ``load`` hold from ``moment`` on."""
        clients = load.concurrency or 0
        self._clients = clients // self._engines + (self._index < clients % self._engines)
        self._rate = (load.rate or 0.0) / self._engines
        self.next_at = self._after(moment)

    def due(self, moment: float, present: int) -> list[float]:
        """Return the times of all requests that have come by ``moment``, when ``present`` are in the engine.

        A client sends its next request as soon as it has its answer; that is, at ``moment``.
        """
        arrived = [moment] * max(0, self._clients - present)
        while self.next_at <= moment:
            arrived.append(self.next_at)
            self.next_at = self._after(self.next_at)
        return arrived

    def _after(self, moment: float) -> float:
        return moment + self._random.expovariate(self._rate) if self._rate else math.inf
