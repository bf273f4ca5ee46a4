"""Time saved by speculation: decode time of requests, beside that of the same tokens without speculation.

Polls whose speed-up S has bounds L and U took t seconds of decoding. At the same load, the same tokens would
have taken S·t seconds without speculation, and L·t to U·t by the bounds. The bounds of a sum are the sums of
the bounds: a wrong cost is wrong in each poll alike, so errors do not cancel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from spec_decode_exporter.core.numbers import Seconds, UnixTime
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.window.engine_windows import NANO

DAY_SECONDS: Final = 86_400


class DecodeTime(NamedTuple):
    """Seconds that requests decoded, and those of the same tokens without speculation."""

    actual: Seconds = 0.0
    plain: Seconds = 0.0  # without speculation, by the best guess of the cost
    plain_lower: Seconds = 0.0
    plain_upper: Seconds = 0.0

    def plus(self, other: DecodeTime) -> DecodeTime:
        """Return the sum of two times, with the sums of their bounds."""
        return DecodeTime(*(own + its for own, its in zip(self, other, strict=True)))

    @property
    def saved(self) -> tuple[float, float, float]:
        """Seconds that requests waited less, and their bounds; negative if they waited more."""
        return self.plain - self.actual, self.plain_lower - self.actual, self.plain_upper - self.actual


@dataclass(frozen=True, slots=True)
class DayTime:
    """Decode time of one day in UTC."""

    since: UnixTime = 0.0  # time of the first counted poll; 0 before it
    time: DecodeTime = field(default_factory=DecodeTime)
    source: CostSource | None = None
    """Source of the cost of the speed-ups: with another one the sum begins again."""

    def includes(self, wall: float) -> bool:
        """Return whether a Unix time is of this day."""
        return self.since // DAY_SECONDS == wall // DAY_SECONDS


class TimeSaved:
    """Sums of the decode time of an engine since its first poll, and since midnight in UTC."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.total = DecodeTime()  # since the exporter first saw the engine
        self.today = DayTime()
        self._counted = 0

    def add(
        self, decode_nanoseconds: int, speedup: Estimate | None, wall: float, source: CostSource | None = None
    ) -> None:
        """Count the decode time since the last call.

        Args:
            decode_nanoseconds: Decode time of all requests since the first poll.
            speedup: Speed-up of decoding with its bounds; None if they are unknown: the time is not counted.
            wall: Unix time of the newest poll.
            source: Source of the cost of the speed-up.
        """
        seconds, self._counted = (decode_nanoseconds - self._counted) / NANO, decode_nanoseconds
        if not self.today.includes(wall):
            self.today = DayTime()
        if speedup is None or seconds <= 0:
            return
        plain = (seconds * each for each in (speedup.value, speedup.lower, speedup.upper))
        time = DecodeTime(seconds, *plain)
        self.total = self.total.plus(time)
        today = self.today if source is self.today.source else DayTime()
        self.today = DayTime(today.since or wall, today.time.plus(time), source)
