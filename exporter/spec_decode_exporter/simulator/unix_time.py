"""Conversion of simulated seconds to Unix time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnixTime:
    """Second ``moment`` of the simulation is Unix time ``wall``; it runs ``speed`` times as fast."""

    wall: float = 1_800_000_000.0
    moment: float = 0.0
    speed: float = 1.0

    def of(self, moment: float) -> float:
        """Return the Unix time of second ``moment`` of the simulation."""
        return self.wall + (moment - self.moment) / self.speed
