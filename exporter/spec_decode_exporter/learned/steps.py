"""Times of decode steps by load, as sums for a regression; ``step_cost`` has the formula.

An observation is a poll. Its weight is S; it has

    y = itl / S                    mean time of a step
    f = D / S                      share of steps that draft
    ln L,  L = itl / seconds       mean number of decoding requests, by Little's law
    u                              uncached prompt tokens per second
    v = u·y                        uncached prompt tokens of a step of the whole batch

with itl the decode time of all requests. u is that of this poll and the one before: tokens are counted when a
request is admitted, often a poll before the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat
from math import exp2, inf, log, log2
from operator import add, mul
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field

from spec_decode_exporter.learned.regression import Matrix, gram_matrix, upper_triangle
from spec_decode_exporter.window.history import NANO
from spec_decode_exporter.window.poll import Increment

HALF_LIFE_SECONDS: Final = 12 * 3600.0
"""Half-life of the weights: requests are longer at night."""
PER_DOUBLING: Final = 4
"""Places of loads in a doubling."""
MAX_LOAD: Final = 2.0**16
MAX_PLACES: Final = 16 * PER_DOUBLING + 1
SHARE, LOAD, PROMPT, SHARE_LOAD, SHARE_PROMPT, RATE, SHARE_RATE, TIME = range(1, 9)
"""Places of f, ln L, v, f·ln L, f·v, u, f·u and y among the variables; the first is 1."""
SIZE: Final = 9
_TRIANGLE: Final = SIZE * (SIZE + 1) // 2
_SUMS: Final = _TRIANGLE + 6
_MAX_STEPS, _MAX_STEP_SECONDS, _MAX_PROMPT = 1e9, 3600.0, 1e6
"""A poll with more steps, longer steps, or more uncached tokens in a step is a fault of the server."""
_MAX_UNIX_TIME: Final = 253_402_300_799.0
"""Last second of the year 9999."""

Sum = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
UnixTime = Annotated[float, Field(ge=0, le=_MAX_UNIX_TIME, allow_inf_nan=False)]


class Steps(NamedTuple):
    """Decode steps of an engine at one poll."""

    number: float
    """S."""
    decode_seconds: float
    """Decode time, summed over requests."""
    seconds: float
    """Length of the poll."""
    drafting: float
    """Steps that draft: D, or S if every step searches for a draft."""
    draft_tokens: float
    running: float
    """Running requests by the gauge; evaluations look a cost up by them."""
    uncached: float
    """Uncached prompt tokens per second, over this poll and the one before."""
    context: float
    """Σ over the admitted requests: prompt tokens and half of the generation tokens."""
    requests: float
    """Admitted requests."""

    @property
    def time(self) -> float:
        """Y."""
        return self.decode_seconds / self.number

    @property
    def load(self) -> float:
        """L; at least 1, since an engine is partly idle below."""
        return min(max(self.decode_seconds / self.seconds, 1.0), MAX_LOAD)

    @property
    def is_plausible(self) -> bool:
        """False without steps, without a load, and if numbers exceed what a server can do."""
        return (
            0 < self.number <= _MAX_STEPS
            and 0 < self.decode_seconds <= _MAX_STEP_SECONDS * self.number
            and self.seconds > 0
            and 0 < self.running <= MAX_LOAD
            and self.uncached * self.seconds * self.load <= _MAX_PROMPT * self.number
        )


class StepReader:
    """Reads the decode steps of the successive polls of one engine."""

    def __init__(self) -> None:
        self._end, self._rate, self._preemptions = -inf, 0.0, 0

    def steps(self, increment: Increment, *, every_step_drafts: bool = False) -> Steps | None:
        """Return the steps of an increment; None without any, and if they are implausible."""
        counters, seconds = increment.counters, increment.end - increment.begin
        if seconds <= 0:
            return None
        rate = max(0, counters.prefix_cache_queries - counters.prefix_cache_hits) / seconds
        before = self._rate if increment.begin == self._end else rate
        preemptions = counters.preemptions + self._preemptions
        self._end, self._rate, self._preemptions = increment.end, rate, counters.preemptions
        if preemptions:
            return None  # the step of a resumed request contains its absence
        number = counters.decode_steps
        steps = Steps(
            number,
            counters.decode_nanoseconds / NANO,
            seconds,
            number if every_step_drafts else min(counters.drafts, number),
            counters.draft_tokens,
            increment.load,
            (before + rate) / 2,
            counters.prompt_tokens + counters.generation_tokens / 2,
            counters.first_tokens,
        )
        return steps if steps.is_plausible else None


def _checked(sums: tuple[float, ...]) -> tuple[float, ...]:
    """Return restored sums.

    Raises:
        ValueError: No polls can have them.
    """
    number, drafting, running = sums[0], sums[SHARE], sums[_TRIANGLE + 3]
    if not number or sums[LOAD] > number * log(2 * MAX_LOAD) or running > 2 * MAX_LOAD * drafting:
        raise ValueError("has sums that no steps have")
    return sums


class StepSums(NamedTuple):
    """Sums over the steps near one load; older ones have less weight."""

    sums: Annotated[tuple[Sum, ...], Field(min_length=_SUMS, max_length=_SUMS), AfterValidator(_checked)]
    """Upper triangle of the Gram matrix, then the sums of the properties below."""
    wall: UnixTime
    """Unix time of the newest step."""

    @classmethod
    def of(cls, steps: Steps, wall: float) -> StepSums:
        """Return the sums of one poll."""
        number, load = steps.number, steps.load
        share, logarithm = steps.drafting / number, log(load)
        rate, prompt = steps.uncached, steps.uncached * steps.seconds * load / number
        row = (
            1.0,
            share,
            logarithm,
            prompt,
            share * logarithm,
            share * prompt,
            rate,
            share * rate,
            steps.time,
        )
        others = (1.0, steps.seconds, steps.draft_tokens, steps.drafting * steps.running, steps.context)
        return cls((*upper_triangle(row, number), *others, steps.requests), wall)

    def plus(self, other: StepSums) -> StepSums:
        """Return the sums of both, with their weights at the later time."""
        older, newer = (self, other) if self.wall <= other.wall else (other, self)
        kept = exp2((older.wall - newer.wall) / HALF_LIFE_SECONDS)
        return StepSums(tuple(map(add, map(mul, repeat(kept), older.sums), newer.sums)), newer.wall)

    @property
    def gram(self) -> Matrix:
        """Gram matrix of the variables."""
        return gram_matrix(self.sums[:_TRIANGLE], SIZE)

    @property
    def number(self) -> float:
        """Weighted number of steps."""
        return self.sums[0]

    @property
    def drafting(self) -> float:
        """Weighted number of steps that draft."""
        return self.sums[SHARE]

    @property
    def polls(self) -> float:
        """Weighted number of polls."""
        return self.sums[_TRIANGLE]

    @property
    def seconds(self) -> float:
        """Weighted seconds of the polls."""
        return self.sums[_TRIANGLE + 1]

    @property
    def draft_tokens(self) -> float:
        """Weighted number of draft tokens."""
        return self.sums[_TRIANGLE + 2]

    @property
    def running(self) -> float:
        """Mean running requests of the steps that draft; there is at least one."""
        return self.sums[_TRIANGLE + 3] / self.drafting

    @property
    def context(self) -> float | None:
        """Mean tokens of a request in the middle of its answer; None if unknown."""
        tokens, requests = self.sums[_TRIANGLE + 4 :]
        return tokens / requests if tokens and requests else None


Place = Annotated[int, Field(ge=0, lt=MAX_PLACES)]
Places = Annotated[dict[Place, StepSums], Field(max_length=MAX_PLACES)]


@dataclass(slots=True)
class StepTimes:
    """Steps of an engine, or of a period, by load: a place is a quarter of a doubling. Persisted as it is."""

    places: Places = field(default_factory=dict)

    def add(self, steps: Steps, wall: float) -> None:
        """Add the steps of a poll at a Unix time."""
        place, added = round(PER_DOUBLING * log2(steps.load)), StepSums.of(steps, wall)
        known = self.places.get(place)
        self.places[place] = known.plus(added) if known else added

    def near(self, place: int) -> StepSums | None:
        """Return the steps at a place and its neighbours: loads from 0.77 to 1.3 times."""
        return total(self.places.get(each) for each in (place - 1, place, place + 1))

    def plus(self, other: StepTimes) -> StepTimes:
        """Return the steps of both."""
        places = dict(self.places)
        for place, its in other.places.items():
            places[place] = places[place].plus(its) if place in places else its
        return StepTimes(places)

    def copy(self) -> StepTimes:
        """Return the present steps, which later polls do not change."""
        return StepTimes(dict(self.places))


def total(sums: Iterable[StepSums | None]) -> StepSums | None:
    """Return the sums of all that are known; None without any."""
    found: StepSums | None = None
    for each in sums:
        if each is not None:
            found = each if found is None else found.plus(each)
    return found
