"""Pace of an arm, its speed-up over another one with bounds, and what their mixes of request types explain.

docs/explanation/comparisons.md has the formulas, by the delta method (Casella and Berger, *Statistical
Inference*, 2002, section 5.5.4). A load that both arms share makes the bounds too wide, never too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp, inf
from typing import Final, NamedTuple

from spec_decode_exporter.experiments.traffic import Ratios, Traffic, at_equal_traffic
from spec_decode_exporter.figures.estimate import Estimate, estimate_of
from spec_decode_exporter.figures.student_t import welch

MIN_COMMON_SHARE: Final = 0.9
"""Share of the tokens of each arm that common types must have; the rest is left out."""


class ArmSpeedup(NamedTuple):
    """Speed-up of an arm over another one."""

    value: float
    estimate: Estimate | None  # value with its 95 % bounds at equal traffic; None if unknown
    reason: Traffic | None = None
    """Part of the traffic without whose difference it would be significant, or would have bounds."""


class Pace(NamedTuple):
    """Time of an arm by one basis; less is faster. Each basis has its own unit."""

    value: float
    relative_error: float | None = None  # standard error over value; None if unknown
    degrees: int = 0  # degrees of freedom of that error

    @classmethod
    def of(cls, above: Sequence[float], below: Sequence[float], cosines: int) -> Pace:
        """Return Σ ``above`` / Σ ``below`` over cells of time; both sums are positive."""
        estimate = estimate_of(above, below, cosines, (0.0, inf))
        value = sum(above) / sum(below)
        if estimate is None:
            return cls(value)
        return cls(value, estimate.standard_error / value, estimate.degrees)

    def speedup_over(self, other: Pace, traffic: Ratios) -> ArmSpeedup:
        """Return the speed-up over another pace; ``traffic`` is the work of this side over the other's."""
        value = other.value / self.value
        if other.relative_error is None or self.relative_error is None:
            return ArmSpeedup(value, None)
        error, half = welch([other.relative_error, self.relative_error], [other.degrees, self.degrees])
        widening = exp(half)
        estimate = Estimate(value, value / widening, value * widening, value * error)
        return ArmSpeedup(value, *at_equal_traffic(estimate, traffic))


class TypeTimes(NamedTuple):
    """Requests of one type in one arm."""

    seconds: float  # time from the first token to the last
    tokens: float  # tokens after the first


ArmTypes = Mapping[str, TypeTimes]
TypeTimesOf = Callable[[float, float], ArmTypes]
"""Return the times by type of the requests that ended in an interval (begin and end, monotonic)."""


def added_types(parts: Iterable[ArmTypes]) -> ArmTypes:
    """Return the times of several engines."""
    total: dict[str, TypeTimes] = {}
    for name, times in ((name, times) for part in parts for name, times in part.items()):
        seconds, tokens = total.get(name, (0.0, 0.0))
        total[name] = TypeTimes(seconds + times.seconds, tokens + times.tokens)
    return total


def mix_ratio(arm: ArmTypes, other: ArmTypes) -> float | None:
    """Return the time per token that the arm's mix of types explains, over that of the other's.

    Each arm's time per token is compared with that at the mix of the tokens of both (direct standardisation;
    K. J. Rothman, *Modern Epidemiology*). None if their types have too little in common.
    """
    both = {name for name in arm.keys() & other.keys() if all([*arm[name], *other[name]])}
    weights = {name: arm[name].tokens + other[name].tokens for name in both}
    factors = []
    for own in (arm, other):
        tokens = sum(own[name].tokens for name in both)
        if not tokens or tokens < MIN_COMMON_SHARE * sum(times.tokens for times in own.values()):
            return None
        pace = sum(own[name].seconds for name in both) / tokens
        common = sum(weight * own[name].seconds / own[name].tokens for name, weight in weights.items())
        factors.append(pace * sum(weights.values()) / common)
    return factors[0] / factors[1]
