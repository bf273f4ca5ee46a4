"""Simulated requests of a speculating engine, counted every second as vLLM counts them.

Each request has its own acceptance, distributed as in real mixes, and is decoded at a constant rate. The
benchmarks of bounds draw requests one by one and give the exporter's own code the windows over them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from math import inf, log
from typing import Any, TypeAlias

import numpy as np

from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.engine_windows import NANO, Means, Window
from spec_decode_exporter.window.histograms import answers_of
from spec_decode_exporter.window.poll import Counters
from spec_decode_exporter.window.ring import Increments

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


def trace(random: np.random.Generator, mix: Mix, load: Load, seconds: int) -> Trace:
    """Return ``seconds`` of a load, begun so long before 0 that nothing is left of the start."""
    sample = draw(random, mix, load.tokens, 10_000).steps / mix.steps_per_second
    before = 3 * sample.max()
    number = (before + seconds) / sample.mean()
    if load.arrivals == "open":
        requests = draw(random, mix, load.tokens, random.poisson(load.concurrent * number))
        begins = random.uniform(-before, seconds, len(requests.steps))
        return counted(random, mix, requests, begins, seconds=seconds)
    each = int(number + 6 * np.sqrt(number) * sample.std() / sample.mean() + 10)
    requests = draw(random, mix, load.tokens, load.concurrent * each)
    lives = (requests.steps / mix.steps_per_second).reshape(load.concurrent, each)
    begins = lives.cumsum(axis=1) - lives - before + random.uniform(0, sample.mean(), (load.concurrent, 1))
    return counted(random, mix, requests, begins.ravel(), seconds=seconds)


@dataclass(frozen=True)
class Trace:
    """Running totals at every second's end, the first all 0."""

    totals: Array
    """Columns of ``window.engine_windows.row_of``, without the products of loads."""
    answers: Array
    """Finished requests by the bucket of their tokens, cumulative."""

    @property
    def total(self) -> Counters[int]:
        """Counters at the end."""
        return Counters(*self.totals[-1, _COUNTERS:_POSITIONS].tolist())

    def window(self, begin: int, length: int, longest: int | None = None) -> Window:
        """Return the window that covers the seconds from ``begin`` on.

        Its answers are those of the ``longest`` window, which ends with it.
        """
        end = begin + length
        sums = (self.totals[end] - self.totals[begin]).tolist()
        finished = self.answers[end] - self.answers[max(0, end - (longest or length))]
        return Window(
            length=float(length),
            seconds=float(length),
            polls=length,
            total=Counters(*sums[_COUNTERS:_POSITIONS]),
            positions=tuple(sums[_POSITIONS:]),
            mean=Means(*(value / NANO / length for value in sums[_GAUGES:_COUNTERS])),
            increments=Increments(self._columns, range(begin, end + 1), range(end)),
            answers=answers_of(Buckets(BOUNDS, tuple(finished.tolist()))),
        )

    @cached_property
    def _columns(self) -> list[array[int]]:
        """Columns of ``window.engine_windows.row_of``: the products of loads stand behind the load."""
        seconds = np.diff(self.totals, axis=0)
        counted = dict(zip(Counters._fields, seconds.T[_COUNTERS:], strict=False))
        by_drafted = seconds[:, 2] * counted["draft_tokens"]
        by_steps = counted["decode_steps"] * counted["decode_nanoseconds"]
        own, rest = self.totals.T[:_GAUGES], self.totals.T[_GAUGES:]
        return [array("q", column.tobytes()) for column in (*own, *totals([by_drafted, by_steps]).T, *rest)]


_GAUGES = 3
_COUNTERS = _GAUGES + len(Means._fields)
_POSITIONS = _COUNTERS + len(Counters._fields)
"""First columns of a trace."""


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
) -> Trace:
    """Count requests; ``draft_tokens`` limits the draft length by the load, as vLLM's schedule does."""
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
        "drafts": count(drafts),
        "draft_tokens": count(drafts * np.minimum(requests.lengths[which], limit)),
        "accepted_tokens": sum(accepted),
        "generation_tokens": count(steps) + sum(accepted) + started,
        "first_tokens": started,
        "decode_steps": count(steps),
        "decode_nanoseconds": count(np.round(decoding * NANO)),
        "finished_requests": at_end(np.ones(len(ends))),
        "end_to_end_nanoseconds": at_end(np.round((ends - begins) * NANO)),
    }
    nothing = np.zeros(seconds)
    buckets = [at_end((low < requests.tokens) & (requests.tokens <= high)) for low, high in BUCKETS]
    columns = [
        *(np.full(seconds, NANO), np.ones(seconds), running * NANO, running * NANO, nothing, nothing),
        *(counters.get(name, nothing) for name in Counters._fields),
        *accepted,
    ]
    return Trace(totals(columns), totals(np.cumsum(buckets, axis=0)))


def totals(columns: Array | list[Array]) -> Array:
    rows = np.stack([*columns], axis=1).astype(np.int64)
    return np.concatenate([np.zeros((1, rows.shape[1]), np.int64), rows.cumsum(axis=0)])
