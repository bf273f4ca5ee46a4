"""Schedule that measures the cost of drafting: narrow bands of load in which the server drafts nothing.

Inside a band steps are plain, beside it they draft, so ``learned.step_cost`` sees both at like load. A band

- takes about ``SHARE`` of the time: that share of the drafts' gain is its price;
- is at least ``WIDTH`` of its load wide: load crosses a narrower one within a poll, and all polls look alike;
- ends below the median load of a peak. Steps without drafts are slower, so the load rises in a band.
  Below the median it rises with drafts too, and leaves the band sooner. Above it the load would fall back to
  the upper edge, and stay there: on the simulator a band with 7 % of the time then took 29 %;
- has drafts on both sides.

A second peak of loads has a band of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate, groupby
from math import ceil, log, sqrt
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.core.numbers import Amount, Seconds
from spec_decode_exporter.costs.cost import is_near

SHARE, LEAST_SHARE, MOST_SHARE = 0.05, 0.015, 0.25
"""Share of the time that a band should take, and its limits."""
WIDTH, WIDEST = 1.1, 1.5
"""Least and greatest ratio of a band's ends."""
REACH: Final = 1.3
"""Steps at loads up to this ratio from a band's middle show its cost (``learned.step_cost.REACHES``)."""
NEAR_SECONDS: Final = 150.0
"""Time near a band until its cost is known well: on simulated servers verdicts were sure in 20 to 135 s."""
MIN_SEEN_SECONDS: Final = 30.0
"""Time that the loads of an engine must cover."""
MAX_BANDS, OTHER_SHARE, APART = 2, 0.2, 4.0
"""A further band needs this share of the time at loads that differ by this ratio from the first band."""
MOST_REQUESTS, FINE = 4096.0, 64
"""Greatest load that counts. A band's ends are apart by 1/``FINE`` of it: few bands are possible."""
_SPREAD: Final = sqrt(3.0)
"""Half the width of a uniform distribution over its standard deviation."""


class LoadTime(NamedTuple):
    """Time of an engine near one load."""

    running_requests: Annotated[float, Field(ge=1, le=2**17)]
    """Mean number of decoding requests."""
    deviation: Annotated[float, Field(ge=0, le=1)]
    """Relative standard deviation of the load."""
    seconds: Seconds


class NoMeasuring(StrEnum):
    """Reason why no schedule can measure the cost; ``measuring_view`` has the texts."""

    KNOWN = "known"
    MEASURING = "measuring"
    """The schedule in force measures it."""
    NOT_VLLM = "not_vllm"
    DATA_PARALLEL = "data_parallel"
    ADAPTIVE = "adaptive"
    SEARCH = "search"
    """The method searches in every step."""
    NO_TOKENS = "no_tokens"
    """It does not draft, or K is unknown."""
    NO_STEPS = "no_steps"
    """Steps by load are known for too short a time, or are not counted."""
    CONSTANT_LOAD = "constant_load"
    """No range of loads takes a small part of the time."""


@dataclass(frozen=True, slots=True)
class MeasuringBand:
    """Running requests at which the schedule drafts nothing, both ends included, and their share of time."""

    first: int
    last: int
    share_ratio: Amount

    @property
    def middle(self) -> float:
        """Load in the middle."""
        return sqrt(self.first * self.last)


@dataclass(frozen=True, slots=True)
class MeasuringSchedule:
    """Schedule with bands without drafts."""

    bands: tuple[MeasuringBand, ...]
    schedule: BatchSchedule
    seconds: float
    """Time until the cost is known, if the loads stay as they are."""

    @property
    def share_ratio(self) -> float:
        """Share of the time without drafts."""
        return sum(band.share_ratio for band in self.bands)


@lru_cache(maxsize=64)
def measuring_schedule(
    times: tuple[LoadTime, ...], tokens: int, present: BatchSchedule
) -> MeasuringSchedule | NoMeasuring:
    """Return the schedule that measures the cost at the loads of an engine, or of several alike.

    Args:
        times: Loads that were seen.
        tokens: K.
        present: Schedule in force.
    """
    seen = [time for time in times if time.running_requests <= MOST_REQUESTS]
    if sum(time.seconds for time in seen) < MIN_SEEN_SECONDS:
        return NoMeasuring.NO_STEPS
    shares, bands, near = _shares(seen), list[MeasuringBand](), list[float]()
    known = {*range(1, max(shares) + 2), *present.firsts}
    drafted = {load: tokens if (k := present.at(load)) is None else k for load in sorted(known)}
    left, sums = dict(shares), _sums(shares)
    while len(bands) < MAX_BANDS and sum(left.values()) >= OTHER_SHARE:
        peak = _peak(left)
        band = _best_band(peak, drafted)
        if band is None:
            left = {load: share for load, share in left.items() if load not in peak}
            continue
        bands.append(band)
        near.append(_near(band.middle, sums))
        left = {load: share for load, share in left.items() if not 1 / APART < load / band.middle < APART}
    if not bands:
        return NoMeasuring.CONSTANT_LOAD
    for band in bands:
        drafted |= dict.fromkeys(range(band.first, band.last + 1), 0)
    steps = [next(same) for _, same in groupby(sorted(drafted.items()), key=lambda pair: pair[1])]
    firsts, numbers = zip(*steps, strict=True)
    return MeasuringSchedule(
        tuple(sorted(bands, key=lambda band: band.first)),
        BatchSchedule(firsts, numbers),
        NEAR_SECONDS / min(near),
    )


def _shares(times: Sequence[LoadTime]) -> dict[int, float]:
    """Return the share of the time by running requests: each load is spread evenly over its deviation."""
    whole, shares = sum(time.seconds for time in times), dict[int, float]()
    for load, deviation, seconds in times:
        half = max(_SPREAD * deviation * load, 0.5)
        begin, end = max(load - half, 0.5), load + half
        for number in range(max(1, round(begin)), round(end) + 1):
            inside = min(end, number + 0.5) - max(begin, number - 0.5)
            if inside > 0:
                shares[number] = shares.get(number, 0.0) + seconds / whole * inside / (end - begin)
    return dict(sorted(shares.items()))


def _median(shares: Mapping[int, float]) -> int:
    loads, sums = list(shares), list(accumulate(shares.values()))
    return loads[bisect_left(sums, sums[-1] / 2)]


def _peak(shares: Mapping[int, float]) -> dict[int, float]:
    """Return the loads around the median one, or around the most frequent ones if most are elsewhere."""

    def around(usual: int) -> dict[int, float]:
        return {load: share for load, share in shares.items() if is_near(usual, load)}

    found = around(_median(shares))
    if 2 * sum(found.values()) >= sum(shares.values()):
        return found
    sums = _sums(shares)
    return around(max(shares, key=lambda load: _near(load, sums)))


def _sums(shares: Mapping[int, float]) -> Sequence[float]:
    """Return the share of the time up to each load, from 0 on."""
    return list(accumulate(shares.get(load, 0.0) for load in range(max(shares) + 1)))


def _near(load: float, sums: Sequence[float]) -> float:
    """Return the share of the time near a load."""
    most = len(sums) - 1
    return sums[min(int(load * REACH), most)] - sums[min(ceil(load / REACH) - 1, most)]


def _best_band(shares: Mapping[int, float], drafted: Mapping[int, int]) -> MeasuringBand | None:
    """Return the band whose share is nearest to ``SHARE`` amid the most time; None if there is none."""
    usual, sums = _median(shares), _sums(shares)
    bands = _bands([load for load in shares if load < usual], sums, drafted)

    def rank(band: MeasuringBand) -> float:
        return 1.2 * log(band.share_ratio / SHARE) ** 2 - log(_near(band.middle, sums))

    return min(bands, key=rank, default=None)


def _bands(
    loads: Sequence[int], sums: Sequence[float], drafted: Mapping[int, int]
) -> Iterator[MeasuringBand]:
    """Yield the bands of these loads that are possible: wide enough, of a small share, with drafts around."""
    lasts = dict[int, int]()
    for load in reversed(loads):
        if drafted.get(load) and drafted.get(load + 1):
            lasts[load] = lasts.get(load + 1, load)
    for first in lasts:
        step = max(1, first // FINE)
        if first % step or not drafted.get(first - 1):
            continue
        least, most = ceil(WIDTH * (first - 0.5) - 0.5), min(lasts[first], int(WIDEST * first))
        for last in range(max(first, least), most + 1, step):
            if LEAST_SHARE <= (share := sums[last] - sums[first - 1]) <= MOST_SHARE:
                yield MeasuringBand(first, last, share)
