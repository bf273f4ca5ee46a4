"""State of a Prometheus histogram, and vLLM's bucket bounds."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

TTFT_BOUNDS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
STEP_BOUNDS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_BOUNDS: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
ITERATION_BOUNDS: Final = (1.0, *(float(2**power) for power in range(3, 15)))
SAMPLES_BOUNDS: Final = (1.0, 2.0, 5.0, 10.0, 20.0)
PREEMPTION_BOUNDS: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)


def token_bounds(maximum: int) -> tuple[float, ...]:
    """Return 1, 2, 5, 10, 20, 50 … up to ``maximum``, the length of the longest request."""
    series = (mantissa * 10.0**power for power in range(len(str(maximum))) for mantissa in (1, 2, 5))
    return tuple(bound for bound in series if bound <= maximum)


class SimulatedHistogram:
    """Observations by bucket."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.total: float = 0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Observe ``value`` ``times`` times; a value on a bound belongs to the bucket below."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Return the cumulative counts of the buckets, the last for +Inf."""
        return list(accumulate(self._counts))
