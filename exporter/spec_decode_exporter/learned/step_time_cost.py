"""Cost of a draft token from step times with and without drafts, with 95 % bounds.

With t1 and t0 the mean times of a decode step with and without drafts at the same load,

    R = t1 / t0 = 1 + c0·D/S + c·T/S        and with c0 = f·c        c = (R - 1) / (f·D/S + T/S)

The bounds of R contain five errors.

- *Sampling.* t1 and t0 are ratios of sums over blocks of polls. The relative variances of independent ratios
  add up to that of their quotient (the delta method; Cochran, *Sampling Techniques*, 1977, section 6.3), with
  Welch's degrees of freedom.
- *Another load.* t0 is interpolated to the load of the steps with drafts. The time of a step does not fall
  with the load, and the requests that it serves per second do not fall either: for n0 < n,
  t0(n0) ≤ t0(n) ≤ t0(n0)·n/n0. So two loads bound the time between them without any model of its course; CUDA
  graphs, which are padded to certain batch sizes, make steps of it.
- *Another day*, for plain steps of an earlier period: t0 may differ by ``ANOTHER_DAY``, for example because
  contexts are longer.
- *Slow variation.* The contexts of the running requests change within minutes, and a minute of steps does not
  show it. With a relative standard deviation v and a correlation that decays with exp(-t/θ), the mean over L
  seconds has the variance v²·min(1, 2θ/L) (Priestley, *Spectral Analysis and Time Series*, 1981, section
  5.3). ``SLOW_DEVIATION`` is v: with 32 requests of 2,000 tokens, an 8B model reads a third as many bytes of
  the cache as of weights, and their sum varies by 1/√32.
- *Everything else*, such as requests that differ between the two sides: ``UNSEEN`` of R. The last two and the
  sampling error are added in quadrature.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, log2, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.cost import Point
from spec_decode_exporter.analysis.typical_costs import Range
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.student_t import degrees_of_sum, t_quantile

UNSEEN: Final = 0.02
"""Half-width of the bounds of t1/t0, relative, that no amount of data reduces."""
SLOW_DEVIATION: Final = 0.03
"""Relative standard deviation of step times by the contexts of the running requests."""
SLOW_SECONDS: Final = 60.0
"""Time constant of this variation: requests stay for seconds to minutes."""
ANOTHER_DAY: Final = 0.10
"""Relative difference of plain step times between two days at the same load."""
MIN_BATCHES: Final = 1000.0
"""Steps of the whole batch that either side needs: 20 s at 50 steps per second."""
MIN_BLOCKS: Final = 3
"""Blocks that either side needs for a standard error."""
_NORMAL: Final = 1.96
NEAR_DOUBLINGS: Final = 0.5
"""Maximum distance of a load with plain steps, in doublings: a factor of √2."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Mean time of a decode step at one load."""

    running_requests: float
    """Mean running requests over the steps."""
    time: float
    """Mean time in seconds."""
    error: float
    """Standard error of the time."""
    degrees: float
    """Degrees of freedom of the error."""
    batches: float
    """Weighted number of steps of the whole batch."""
    drafts: float = 0.0
    """D/S."""
    draft_tokens: float = 0.0
    """T/S."""

    @property
    def is_enough(self) -> bool:
        """Return whether there are enough steps for a cost and for its error."""
        return self.batches >= MIN_BATCHES and self.degrees >= MIN_BLOCKS - 1 and self.time > 0

    @property
    def slow_variance(self) -> float:
        """Relative variance of the time by slow variation, which its error may not contain."""
        return SLOW_DEVIATION**2 * min(1.0, 2 * SLOW_SECONDS / (self.batches * self.time))


class _PlainTime(NamedTuple):
    """Time of a plain step at the load of the steps with drafts."""

    time: float
    low: float
    """Least time at that load by the nearest loads, without the sampling error."""
    high: float
    error: float
    degrees: float
    slow_variance: float


def measured_cost(
    drafting: StepTime,
    plain: Sequence[StepTime],
    *,
    fixed_tokens: float = 0.0,
    every_step_pays: bool = False,
    another_day: bool = False,
) -> Point | None:
    """Return c with its 95 % bounds at the load of ``drafting``.

    None without enough steps at this load on both sides. c is 0 if steps with drafts take no longer than
    those without.

    Args:
        drafting: Steps with drafts at one load.
        plain: Steps without drafts, ascending by load.
        fixed_tokens: c0 in draft tokens; it splits the measured sum.
        every_step_pays: Whether steps without drafts pay c0 too.
        another_day: Whether the plain steps are of another day.
    """
    known = [each for each in plain if each.is_enough]
    drafted = fixed_tokens * (1.0 if every_step_pays else drafting.drafts) + drafting.draft_tokens
    at_load = _plain_at(known, drafting.running_requests) if drafting.is_enough and drafted > 0 else None
    if at_load is None:
        return None
    longer = drafting.time / at_load.time
    low, high = _longer_bounds(drafting, at_load, ANOTHER_DAY if another_day else 0.0)
    return Point(
        drafting.running_requests,
        Range(*(max(0.0, each - 1) / drafted for each in (low, longer, high))),
    )


def _longer_bounds(drafting: StepTime, plain: _PlainTime, day: float) -> tuple[float, float]:
    """Return the bounds of t1/t0."""
    variances = ((drafting.error / drafting.time) ** 2, (plain.error / plain.time) ** 2)
    degrees = degrees_of_sum(variances, (drafting.degrees, plain.degrees))
    sampling = t_quantile(degrees) * sqrt(sum(variances))
    slow = _NORMAL * sqrt(drafting.slow_variance + plain.slow_variance)
    half = drafting.time / plain.time * hypot(sampling, slow, UNSEEN)
    low = drafting.time / (max(plain.high, plain.time) * (1 + day))
    high = drafting.time / (min(plain.low, plain.time) * (1 - day))
    return low - half, high + half


def _plain_at(plain: Sequence[StepTime], load: float) -> _PlainTime | None:
    """Return the time of a plain step at a load; None without plain steps near it."""
    if not plain:
        return None
    nearest = min(plain, key=lambda each: _doublings(each.running_requests, load))
    if _doublings(nearest.running_requests, load) > NEAR_DOUBLINGS:
        return None
    place = bisect_left(plain, load, key=lambda each: each.running_requests)
    if 0 < place < len(plain):
        return _between(plain[place - 1], plain[place], load)
    return _beyond(nearest, plain, load)


def _between(below: StepTime, above: StepTime, load: float) -> _PlainTime:
    """Interpolate linearly between two loads; bound by both."""
    share = (load - below.running_requests) / (above.running_requests - below.running_requests)
    time = below.time + share * (above.time - below.time)
    limits = (
        max(below.time, above.time * load / above.running_requests),
        min(above.time, below.time * load / below.running_requests),
    )
    variances = (((1 - share) * below.error) ** 2, (share * above.error) ** 2)
    degrees = degrees_of_sum(variances, (below.degrees, above.degrees))
    slow = (1 - share) * below.slow_variance + share * above.slow_variance
    return _PlainTime(time, min(limits), max(limits), sqrt(sum(variances)), degrees, slow)


def _beyond(nearest: StepTime, plain: Sequence[StepTime], load: float) -> _PlainTime:
    """Extrapolate from the nearest load along the line to its neighbour; bound by the nearest alone."""
    low, high = sorted((nearest.time, nearest.time * load / nearest.running_requests))
    time = nearest.time
    other = plain[1 if nearest is plain[0] else -2] if len(plain) > 1 else nearest
    slope = ratio(other.time - nearest.time, other.running_requests - nearest.running_requests)
    if slope is not None:
        time = min(max(time + slope * (load - nearest.running_requests), low), high)
    return _PlainTime(
        time, low, high, nearest.error * time / nearest.time, nearest.degrees, nearest.slow_variance
    )


def _doublings(one: float, other: float) -> float:
    return abs(log2(one / other))
