"""Arrivals of requests at one engine: closed-loop clients, or a Poisson process."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from spec_decode_exporter.simulator.scenario import Load


class Arrivals:
    """Share of the load for engine ``index`` of ``engines``."""

    def __init__(self, random: Random, index: int, engines: int) -> None:
        self._random = random
        self._index = index
        self._engines = engines
        self._clients = 0
        self._rate = 0.0
        self.next_at = math.inf
        """Time of the next Poisson arrival; infinite without a rate."""

    def change(self, load: Load, moment: float) -> None:
        """Use ``load`` from ``moment`` on."""
        clients = load.concurrency or 0
        self._clients = clients // self._engines + (self._index < clients % self._engines)
        self._rate = (load.rate or 0.0) / self._engines
        self.next_at = self._after(moment)

    def due(self, moment: float, present: int) -> list[float]:
        """Return the arrival times up to ``moment``, with ``present`` requests in the engine.

        A client sends its next request as soon as its response is complete: at ``moment``.
        """
        arrived = [moment] * max(0, self._clients - present)
        while self.next_at <= moment:
            arrived.append(self.next_at)
            self.next_at = self._after(self.next_at)
        return arrived

    def _after(self, moment: float) -> float:
        return moment + self._random.expovariate(self._rate) if self._rate else math.inf
