"""Times of decode steps by load, as sums for a regression; ``measured_cost`` has the formula.

An observation is a poll. Its weight is S; it has

    y = itl / S                    mean time of a step
    f = D / S                      share of steps that draft
    ln L,  L = itl / seconds       mean number of decoding requests, by Little's law
    u                              uncached prompt tokens per second
    v = u·seconds·L / S            uncached prompt tokens of a step of the whole batch

with itl the decode time of all requests. u is that of this poll and the one before: tokens are often counted
a poll before the work. v contains y, and u does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import repeat
from math import exp2, inf, log, log2, sqrt
from operator import add, attrgetter, mul
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.core.numbers import Amount, UnixTime
from spec_decode_exporter.costs.regression import Matrix, gram_matrix, upper_triangle
from spec_decode_exporter.window.history import NANO
from spec_decode_exporter.window.poll import TORN_DRAFTS, Increment

HALF_LIFE_SECONDS: Final = 12 * 3600.0
"""Half-life of the weights: requests are longer at night."""
PER_DOUBLING: Final = 4
MAX_LOAD: Final = 2.0**16
MAX_PLACES: Final = 16 * PER_DOUBLING + 1
SHARE, LOAD, PROMPT, SHARE_LOAD, SHARE_PROMPT, RATE, SHARE_RATE, TIME = range(1, 9)
"""Places of f, ln L, v, f·ln L, f·v, u, f·u and y among the variables; the first is 1."""
SIZE: Final = 9
SLOW_DEVIATION: Final = 0.03
"""Relative standard deviation of step times by the contexts of the running requests: with 32 requests of
2,000 tokens, an 8B model reads a third as many bytes of the cache as of weights."""
SLOW_SECONDS: Final = 60.0
"""Time constant of this variation, the stay of requests."""
UNCOUNTED_SHARE: Final = 0.02
"""Tokens beyond one a decode step, as a share of the steps, that accepted drafts alone explain."""
_wall: Final = attrgetter("wall")
_TRIANGLE: Final = SIZE * (SIZE + 1) // 2
_MAX_STEPS, _MAX_STEP_SECONDS, _MAX_PROMPT, _MAX_RATE = 1e9, 3600.0, 1e6, 1e8
"""A poll with more steps, longer ones, or more uncached tokens a step or second is a fault of the server."""


def exceeds_steps(tokens: int, steps: int, running: float = 0.0) -> bool:
    """Return whether decode steps yielded more tokens than one each: drafts were accepted.

    ``running`` requests are counted while the page is rendered.
    """
    return tokens - steps > UNCOUNTED_SHARE * steps + TORN_DRAFTS + 2 * running


def faded(older: Sequence[float], age: float, newer: Sequence[float]) -> Iterable[float]:
    """Return sums of older and newer observations; the weights of the older fade for ``age`` seconds."""
    kept = exp2(-max(age, 0.0) / HALF_LIFE_SECONDS)
    return map(add, map(mul, repeat(kept), older), newer)


class Steps(NamedTuple):
    """Decode steps of an engine at one poll: S, their time summed over requests, and the poll's seconds."""

    number: float
    decode_seconds: float
    seconds: float
    load: float
    """L; at least 1, since an engine is partly idle below."""
    drafting: float
    """Steps that draft: D, or S if every step searches for a draft."""
    draft_tokens: float
    running: float
    """Running requests by the gauge; evaluations look a cost up by them."""
    uncached: float
    """u."""
    context: float
    """Σ over the admitted ``requests``: prompt tokens and half of the generation tokens."""
    requests: float

    @property
    def prompt(self) -> float:
        """Return v."""
        return self.uncached * self.seconds * self.load / self.number

    @property
    def is_plausible(self) -> bool:
        """False if numbers exceed what a server can do, and without a load."""
        is_possible = self.number <= _MAX_STEPS and self.decode_seconds <= _MAX_STEP_SECONDS * self.number
        has_load = 0 < self.running <= MAX_LOAD and self.decode_seconds > 0
        return has_load and is_possible and self.uncached <= _MAX_RATE and self.prompt <= _MAX_PROMPT


class StepReader:
    """Reads the decode steps of the successive polls of one engine."""

    def __init__(self) -> None:
        self._end, self._rate, self._preemptions = -inf, 0.0, 0

    def steps(self, increment: Increment, *, every_step_drafts: bool = False) -> Steps | None:
        """Return the steps of an increment; None without any, and if they are implausible."""
        its, seconds = increment.counters, increment.end - increment.begin
        if seconds <= 0:
            return None
        rate = max(0, its.prefix_cache_queries - its.prefix_cache_hits) / seconds
        before = self._rate if increment.begin == self._end else rate
        preemptions = its.preemptions + self._preemptions
        self._end, self._rate, self._preemptions = increment.end, rate, its.preemptions
        if not its.decode_steps or preemptions:  # the step of a resumed request contains its absence
            return None
        number, decode = its.decode_steps, its.decode_nanoseconds / NANO
        steps = Steps(
            number=number,
            decode_seconds=decode,
            seconds=seconds,
            load=min(max(decode / seconds, 1.0), MAX_LOAD),
            drafting=number if every_step_drafts else min(its.drafts, number),
            draft_tokens=its.draft_tokens,
            running=increment.load,
            uncached=(before + rate) / 2,
            context=its.prompt_tokens + its.generation_tokens / 2,
            requests=its.first_tokens,
        )
        return steps if steps.is_plausible else None


class StepSums(NamedTuple):
    """Sums over the steps near one load; older ones have less weight."""

    triangle: Annotated[tuple[Amount, ...], Field(min_length=_TRIANGLE, max_length=_TRIANGLE)]
    """Upper triangle of the Gram matrix."""
    polls: Amount
    seconds: Amount
    draft_tokens: Amount
    drafting_running: Amount
    """Σ over the steps that draft: running requests."""
    context: Amount
    requests: Amount
    wall: UnixTime
    """Unix time of the newest step."""

    @classmethod
    def of(cls, steps: Steps, wall: float) -> StepSums:
        """Return the sums of one poll."""
        number, prompt, rate = steps.number, steps.prompt, steps.uncached
        share, load, time = steps.drafting / number, log(steps.load), steps.decode_seconds / number
        row = (1.0, share, load, prompt, share * load, share * prompt, rate, share * rate, time)
        others = (steps.draft_tokens, steps.drafting * steps.running, steps.context, steps.requests)
        return cls(tuple(upper_triangle(row, number)), 1.0, steps.seconds, *others, wall)

    def plus(self, other: StepSums) -> StepSums:
        """Return the sums of both, with their weights at the later time."""
        older, newer = sorted((self, other), key=_wall)
        age = newer.wall - older.wall
        triangle = tuple(faded(older.triangle, age, newer.triangle))
        return StepSums._make((triangle, *faded(older[1:-1], age, newer[1:-1]), newer.wall))

    @property
    def gram(self) -> Matrix:
        """Gram matrix of the variables."""
        return gram_matrix(self.triangle, SIZE)

    @property
    def drafting(self) -> float:
        """Weighted number of steps that draft."""
        return self.triangle[SHARE]

    @property
    def tokens_of_draft(self) -> float:
        """Draft tokens of a step that drafts; there is at least one."""
        return self.draft_tokens / self.drafting

    @property
    def running(self) -> float:
        """Mean running requests of the steps that draft; there is at least one."""
        return self.drafting_running / self.drafting

    @property
    def slow_error(self) -> float:
        """Relative standard error by other contexts (Priestley, *Spectral Analysis*, 1981, section 5.3)."""
        return SLOW_DEVIATION * sqrt(min(1.0, 2 * SLOW_SECONDS / self.seconds))

    @property
    def mean_context(self) -> float | None:
        """Mean tokens of a request in the middle of its answer; None if unknown."""
        return self.context / self.requests if self.context and self.requests else None


def include(known: dict[int, StepSums], key: int, sums: StepSums) -> None:
    """Add sums to those that are known by the same key."""
    known[key] = known[key].plus(sums) if key in known else sums


Place = Annotated[int, Field(ge=0, lt=MAX_PLACES)]


@dataclass(slots=True)
class StepTimes:
    """Steps of an engine, or of a period, by load: a place is a quarter of a doubling. Persisted as it is."""

    places: Annotated[dict[Place, StepSums], Field(max_length=MAX_PLACES)] = field(default_factory=dict)

    def add(self, steps: Steps, wall: float) -> None:
        """Add the steps of a poll at a Unix time."""
        include(self.places, round(PER_DOUBLING * log2(steps.load)), StepSums.of(steps, wall))

    def near(self, place: int, reach: int = 1) -> StepSums | None:
        """Return the steps at a place and its neighbours; the nearest are loads from 0.77 to 1.3 times."""
        return total(self.places.get(each) for each in range(place - reach, place + reach + 1))


def total(sums: Iterable[StepSums | None]) -> StepSums | None:
    """Return the sums of all that are known; None without any."""
    known = [each for each in sums if each is not None]
    return reduce(StepSums.plus, known) if known else None
