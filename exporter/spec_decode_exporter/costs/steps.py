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
from operator import add, mul
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.core.numbers import Amount, UnixTime
from spec_decode_exporter.costs.regression import Matrix, gram_matrix, upper_triangle
from spec_decode_exporter.window.engine_windows import NANO
from spec_decode_exporter.window.poll import TORN_DRAFTS, Increment

HALF_LIFE_SECONDS: Final = 12 * 3600.0  # half-life of the weights: requests are longer at night
PER_DOUBLING: Final = 4
MAX_LOAD: Final = 2.0**16
SHARE, LOAD, PROMPT, SHARE_LOAD, SHARE_PROMPT, RATE, SHARE_RATE, TIME = range(1, 9)
"""Places of f, ln L, v, f·ln L, f·v, u, f·u and y among the variables; the first is 1."""
SIZE: Final = 9
SLOW_DEVIATION: Final = 0.03
"""Relative standard deviation of step times by the contexts of the running requests: with 32 requests of
2,000 tokens, an 8B model reads a third as many bytes of the cache as of weights."""
SLOW_SECONDS: Final = 60.0  # time constant of this variation, the stay of requests
UNCOUNTED_SHARE: Final = 0.02
"""Tokens beyond one a decode step, as a share of the steps, that accepted drafts alone explain."""
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


class StepSums(NamedTuple):
    """Sums over the steps near one load; older ones have less weight."""

    triangle: Annotated[tuple[Amount, ...], Field(min_length=_TRIANGLE, max_length=_TRIANGLE)]
    """Upper triangle of the Gram matrix."""
    polls: Amount
    seconds: Amount
    draft_tokens: Amount
    drafting_running: Amount  # Σ over the steps that draft: running requests
    context: Amount  # Σ over the admitted ``requests``: prompt tokens and half of the generation tokens
    requests: Amount
    wall: UnixTime  # Unix time of the newest step

    @classmethod
    def of(
        cls, increment: Increment, uncached: float, wall: float, *, every_step_drafts: bool = False
    ) -> StepSums | None:
        """Return the sums of a poll with decode steps; None without a load, or if a server cannot do as much.

        Args:
            increment: The poll.
            uncached: u.
            wall: Its Unix time.
            every_step_drafts: True if every step searches for a draft, and pays for it.
        """
        its, seconds, running = increment.counters, increment.end - increment.begin, increment.load
        number, decode = its.decode_steps, its.decode_nanoseconds / NANO
        load = min(max(decode / seconds, 1.0), MAX_LOAD)  # an engine is partly idle below 1
        drafting = number if every_step_drafts else min(its.drafts, number)
        share, level, time = drafting / number, log(load), decode / number
        prompt = uncached * seconds * load / number
        is_possible = number <= _MAX_STEPS and time <= _MAX_STEP_SECONDS and prompt <= _MAX_PROMPT
        if not is_possible or uncached > _MAX_RATE or not (0 < running <= MAX_LOAD and decode > 0):
            return None
        row = (1.0, share, level, prompt, share * level, share * prompt, uncached, share * uncached, time)
        context = its.prompt_tokens + its.generation_tokens / 2
        # Evaluations look a cost up by the running requests of the gauge.
        others = (its.draft_tokens, drafting * running, context, its.first_tokens)
        return cls(tuple(upper_triangle(row, number)), 1.0, seconds, *others, wall)

    def plus(self, other: StepSums) -> StepSums:
        """Return the sums of both, with their weights at the later time."""
        older, newer = (self, other) if self.wall <= other.wall else (other, self)
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


class StepReader:
    """Reads the decode steps of the successive polls of one engine."""

    def __init__(self) -> None:
        self._end, self._rate, self._preemptions = -inf, 0.0, 0

    def read(self, increment: Increment, wall: float, *, every_step_drafts: bool = False) -> StepSums | None:
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
        return StepSums.of(increment, (before + rate) / 2, wall, every_step_drafts=every_step_drafts)


def include(known: dict[int, StepSums], key: int, sums: StepSums) -> None:
    """Add sums to those that are known by the same key."""
    known[key] = known[key].plus(sums) if key in known else sums


Place = Annotated[int, Field(ge=0, le=round(PER_DOUBLING * log2(MAX_LOAD)))]


@dataclass(slots=True)
class StepTimes:
    """Steps of an engine, or of a period, by load: a place is a quarter of a doubling. Persisted as it is."""

    places: dict[Place, StepSums] = field(default_factory=dict)

    def add(self, sums: StepSums) -> None:
        """Add the steps of a poll."""
        doublings = sums.triangle[LOAD] / sums.triangle[0] / log(2)
        include(self.places, round(PER_DOUBLING * doublings), sums)

    def near(self, place: int, reach: int = 1) -> StepSums | None:
        """Return the steps at a place and its neighbours; the nearest are loads from 0.77 to 1.3 times."""
        return total(self.places.get(each) for each in range(place - reach, place + reach + 1))


def total(sums: Iterable[StepSums | None]) -> StepSums | None:
    """Return the sums of all that are known; None without any."""
    known = [each for each in sums if each is not None]
    return reduce(StepSums.plus, known) if known else None
