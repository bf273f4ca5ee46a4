"""Simulated requests of a speculating engine, counted every second as vLLM counts them.

Each request has its own acceptance, distributed as in real mixes, and is decoded at a constant rate. The
benchmarks of bounds draw requests one by one and give the exporter's own code the windows over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from math import inf, log
from typing import Any, TypeAlias

import numpy as np

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.answer_lengths import AnswerLengths, answer_lengths
from spec_decode_exporter.window.increments import Increment
from spec_decode_exporter.window.ledger import MEAN_GAUGES, NANO, Increments, Window, rows_of
from spec_decode_exporter.window.ring import Rows

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Mix:
    """The requests of one engine, and how it speculates."""

    name: str
    tokens: int
    """K."""
    acceptance: float
    """The mean over requests of the share of first positions that is accepted."""
    spread: float
    """The standard deviation of that share over requests."""
    steps_per_second: float
    """Decode steps of a request."""
    searches: bool = False
    """Whether drafts are searched for, as n-gram does: then a request has its own share of steps in which
    there is one, and its own length of draft."""


MIXES = (
    Mix("draft model", 5, 0.75, 0.15, 15),
    Mix("EAGLE", 3, 0.70, 0.20, 30),
    Mix("MTP", 1, 0.85, 0.10, 40),
    Mix("parallel drafter", 8, 0.80, 0.12, 50),
    Mix("n-gram", 4, 0.60, 0.20, 25, searches=True),
)
BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, inf)
"""Buckets of vLLM's histogram of generation tokens, with a context of 32,768."""
BUCKETS = tuple(pairwise((0, *BOUNDS)))
POSITION_DECAY = 0.97
"""A position is so much less likely to be accepted than the one before it, given that that one was."""


@dataclass(frozen=True)
class Requests:
    """Requests drawn from a mix; every array has one row a request."""

    conditional: Array
    """How likely each position is accepted, given that the one before it was; 0 beyond the draft."""
    drafting: Array
    """How likely a step has a draft."""
    lengths: Array
    """Tokens of a draft."""
    steps: Array
    """Decode steps until the request has its tokens."""
    tokens: Array
    """Tokens of the answer."""

    def __getitem__(self, chosen: Array) -> Requests:
        return Requests(*(getattr(self, each.name)[chosen] for each in fields(self)))

    @property
    def accepted(self) -> Array:
        """Tokens accepted of a draft, on average."""
        survival: Array = np.cumprod(self.conditional, axis=1)
        return np.asarray(survival.sum(axis=1))


def draw(random: np.random.Generator, mix: Mix, tokens: tuple[int, int], number: int) -> Requests:
    return requests_of(
        random, mix, even(random, tokens, number), first_positions(random, mix.acceptance, mix.spread, number)
    )


def even(random: np.random.Generator, tokens: tuple[int, int], number: int) -> Array:
    return np.exp(random.uniform(*map(log, tokens), number))


def first_positions(random: np.random.Generator, mean: float | Array, spread: float, number: int) -> Array:
    """Draw how likely the first position is accepted, from a beta distribution of ``mean`` and ``spread``."""
    certainty = np.asarray(mean * (1 - mean) / spread**2 - 1)
    return np.asarray(random.beta(mean * certainty, (1 - mean) * certainty, number))


def requests_of(random: np.random.Generator, mix: Mix, tokens: Array, first: Array) -> Requests:
    """Return requests of known answer lengths and acceptance of the first position."""
    number = len(tokens)
    lengths = random.integers(1, mix.tokens + 1, number) if mix.searches else np.full(number, mix.tokens)
    drafting = random.beta(2, 2, number) if mix.searches else np.ones(number)
    places = np.arange(mix.tokens)
    conditional = first[:, None] * POSITION_DECAY**places * (places < lengths[:, None])
    accepted = np.cumprod(conditional, axis=1).sum(axis=1)
    steps = np.maximum(np.round(tokens / (1 + drafting * accepted)), 1).astype(int)
    return Requests(conditional, drafting, lengths, steps, np.maximum(np.round(tokens), 1))


@dataclass(frozen=True)
class Load:
    """Arrival of requests."""

    tokens: tuple[int, int]
    arrivals: str
    """Closed: another one begins as soon as one ends. Open: they come at random, whatever is running."""
    concurrent: int
    """How many run at once, in the mean."""


def arrive(random: np.random.Generator, mix: Mix, load: Load, seconds: float) -> tuple[Requests, Array]:
    """Draw requests and when they begin: from so long before 0 that nothing is left of the start."""
    sample = draw(random, mix, load.tokens, 10_000).steps / mix.steps_per_second
    before = 3 * sample.max()
    number = (before + seconds) / sample.mean()
    if load.arrivals == "open":
        requests = draw(random, mix, load.tokens, random.poisson(load.concurrent * number))
        return requests, random.uniform(-before, seconds, len(requests.steps))
    each = int(number + 6 * np.sqrt(number) * sample.std() / sample.mean() + 10)
    requests = draw(random, mix, load.tokens, load.concurrent * each)
    lives = (requests.steps / mix.steps_per_second).reshape(load.concurrent, each)
    begins = lives.cumsum(axis=1) - lives - before + random.uniform(0, sample.mean(), (load.concurrent, 1))
    return requests, begins.ravel()


def trace(random: np.random.Generator, mix: Mix, load: Load, seconds: int) -> Array:
    """Return running totals at every second's end of ``seconds`` of a load, as ``counted``."""
    return counted(random, mix, *arrive(random, mix, load, seconds), seconds=seconds)


DraftTokens: TypeAlias = Callable[[Array], Array]
"""Draft tokens of each second by the running requests of that second."""


def counted(
    random: np.random.Generator,
    mix: Mix,
    requests: Requests,
    begins: Array,
    *,
    seconds: int,
    draft_tokens: DraftTokens | None = None,
) -> Array:
    """Return running totals at every second's end, the first all 0.

    The columns are the time covered in nanoseconds, the counters, the gauges, the answers and the positions.
    ``draft_tokens`` limits the draft length by the load, as vLLM's schedule does.
    """
    ends = begins + requests.steps / mix.steps_per_second
    seen = (ends > 0) & (begins < seconds)
    requests, begins, ends = requests[seen], begins[seen], ends[seen]
    first = np.maximum(begins, 0).astype(int)
    lasting = np.minimum(np.ceil(ends), seconds).astype(int) - first
    # One entry for each second of each request.
    which = np.repeat(np.arange(len(begins)), lasting)
    second = np.arange(len(which)) - np.repeat(lasting.cumsum() - lasting, lasting) + first[which]

    def done(moment: Array) -> Array:
        steps = np.floor((moment - begins[which]) * mix.steps_per_second)
        return np.clip(steps, 0, requests.steps[which]).astype(int)

    def count(each: Array) -> Array:
        return np.bincount(second, each, seconds)

    running = count(ends[which] > second + 1)
    limit = np.full(seconds, mix.tokens) if draft_tokens is None else draft_tokens(running)
    limit = limit[second]
    steps = done(second + 1) - done(second)
    drafts = np.where(limit > 0, random.binomial(steps, requests.drafting[which]), 0)
    accepted, left = [], drafts
    for position in range(mix.tokens):
        left = np.where(position < limit, random.binomial(left, requests.conditional[which, position]), 0)
        accepted.append(count(left))
    started = np.bincount(begins[begins >= 0].astype(int), minlength=seconds)
    decoding = np.minimum(ends[which], second + 1) - np.maximum(begins[which], second)
    done_at = np.ceil(ends).astype(int) - 1
    over = done_at < seconds

    def at_end(each: Array) -> Array:
        return np.bincount(done_at[over], each[over], seconds)

    counters = {
        Counter.DRAFTS: count(drafts),
        Counter.DRAFT_TOKENS: count(drafts * np.minimum(requests.lengths[which], limit)),
        Counter.ACCEPTED_TOKENS: sum(accepted),
        Counter.GENERATION_TOKENS: count(steps) + sum(accepted) + started,
        Counter.FIRST_TOKENS: started,
        Counter.DECODE_STEPS: count(steps),
        Counter.DECODE_NANOSECONDS: count(np.round(decoding * NANO)),
        Counter.FINISHED_REQUESTS: at_end(np.ones(len(ends))),
        Counter.END_TO_END_NANOSECONDS: at_end(np.round((ends - begins) * NANO)),
    }
    nothing = np.zeros(seconds)
    buckets = [at_end((low < requests.tokens) & (requests.tokens <= high)) for low, high in BUCKETS]
    columns = [
        np.full(seconds, NANO),
        *(counters.get(counter, nothing) for counter in Counter),
        *(running if gauge is MEAN_GAUGES[0] else nothing for gauge in MEAN_GAUGES),
        *np.cumsum(buckets, axis=0),
        *accepted,
    ]
    rows = np.stack(columns, axis=1).astype(np.int64)
    return np.concatenate([np.zeros((1, len(columns)), np.int64), rows.cumsum(axis=0)])


def window(totals: Array, begin: int, length: int, longest: int | None = None) -> Window:
    """Return the window that covers the seconds from ``begin`` on.

    The histogram of answers covers the ``longest`` window, which ends with it.
    """
    rows = totals[begin : begin + length + 1].tolist()
    first = max(0, begin + length - (longest or length))
    _, *sums = map(int.__sub__, rows[-1], rows[0])
    return Window(
        length=float(length),
        seconds=float(length),
        polls=length,
        counters=tuple(sums[: len(Counter)]),
        positions=tuple(sums[_POSITIONS - 1 :]),
        gauges=tuple(total / length for total in sums[len(Counter) : _ANSWERS - 1]),
        increments=Increments(_totals(rows), [float(second) for second in range(begin, begin + length)]),
        answers=_answers(totals[begin + length] - totals[first]),
    )


_GAUGES = 1 + len(Counter)
_ANSWERS = _GAUGES + len(MEAN_GAUGES)
_POSITIONS = _ANSWERS + len(BUCKETS)
"""First columns of a trace."""


def _answers(difference: Array) -> AnswerLengths:
    return answer_lengths(Buckets(BOUNDS, tuple(map(int, difference[_ANSWERS:_POSITIONS]))))


def _totals(rows: list[list[int]]) -> list[Rows]:
    groups = [
        rows_of(
            Increment(0.0, row[0] / NANO, tuple(row[1:_GAUGES]), tuple(row[_POSITIONS:])),
            row[_GAUGES:_ANSWERS],
        )
        for row in rows
    ]
    return [Rows.of(group) for group in zip(*groups, strict=True)]
