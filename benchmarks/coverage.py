"""Coverage of the 95 % bounds by the load of a window.

    python -m benchmarks.coverage [--windows 2000] [--seed 1]

Each request has its own acceptance, distributed as in real mixes, and is decoded at a constant rate. Requests
are drawn one by one and counted every second, as the exporter would count them, and the exporter's own code
estimates the bounds. The truth is the ratio of an endless run of the same mix.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import log, sqrt
from typing import Any, TypeAlias

import numpy as np

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.speedup import speedup_estimate
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    acceptance_length_estimate,
    acceptance_ratio_estimate,
    independent_variance,
    passing_requests,
)
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Increment
from spec_decode_exporter.window.ledger import MEAN_GAUGES, NANO, Increments, Window, rows_of
from spec_decode_exporter.window.ring import Rows

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

COST = Cost(0.05, 0.02, CostSource.CONFIGURED, None)
ESTIMATES: dict[str, Callable[[Window], Estimate | None]] = {
    "length": acceptance_length_estimate,
    "rate": acceptance_ratio_estimate,
    "speed-up": lambda window: speedup_estimate(window, COST),
}

TOKENS = ((50, 500), (500, 3000))
ARRIVALS = ("closed", "open")
CONCURRENT = (1, 4, 16, 64)
LENGTHS = (30, 300)
BANDS = ((7, 10), (10, 15), (15, 25), (25, 50), (50, 100), (100, 10**9))
"""Requests passing through a window; there are no bounds below the first."""
NORMAL = 1.96
"""The 0.975 quantile of the normal distribution."""
ENOUGH = 10
MIN_WINDOWS = 300
"""Windows for a share: with fewer it would be uncertain by more than two points."""
TRACE_WINDOWS = 25
"""Number of the longest windows that are drawn at a time, to limit memory."""
MANY = 10**6
"""Requests that stand for an endless run."""


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

    def __getitem__(self, chosen: Array) -> Requests:
        return Requests(
            self.conditional[chosen], self.drafting[chosen], self.lengths[chosen], self.steps[chosen]
        )

    @property
    def accepted(self) -> Array:
        """Tokens accepted of a draft, on average."""
        survival: Array = np.cumprod(self.conditional, axis=1)
        return np.asarray(survival.sum(axis=1))


def draw(random: np.random.Generator, mix: Mix, tokens: tuple[int, int], number: int) -> Requests:
    """Draw requests; how many tokens they have is spread evenly over the logarithm."""
    least, most = map(log, tokens)
    wanted = np.exp(random.uniform(least, most, number))
    certainty = mix.acceptance * (1 - mix.acceptance) / mix.spread**2 - 1
    first = random.beta(mix.acceptance * certainty, (1 - mix.acceptance) * certainty, number)
    lengths = random.integers(1, mix.tokens + 1, number) if mix.searches else np.full(number, mix.tokens)
    drafting = random.beta(2, 2, number) if mix.searches else np.ones(number)
    places = np.arange(mix.tokens)
    conditional = first[:, None] * POSITION_DECAY**places * (places < lengths[:, None])
    requests = Requests(conditional, drafting, lengths, np.ones(number))
    steps = np.maximum(np.round(wanted / (1 + drafting * requests.accepted)), 1).astype(int)
    return Requests(conditional, drafting, lengths, steps)


def truth(random: np.random.Generator, mix: Mix, tokens: tuple[int, int]) -> dict[str, float]:
    """Return what the estimates of an endless run would be."""
    requests = draw(random, mix, tokens, MANY)
    drafts = requests.steps * requests.drafting
    accepted, drafted, steps = (
        float(each.sum()) for each in (drafts * requests.accepted, drafts * requests.lengths, requests.steps)
    )
    time = steps * (1 + COST.fixed_cost_ratio) + COST.draft_cost_ratio * drafted
    return {
        "length": 1 + accepted / float(drafts.sum()),
        "rate": accepted / drafted,
        "speed-up": (steps + accepted) / time,
    }


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
    """Return running totals at every second's end, the first all 0.

    The columns are the time covered in nanoseconds, the counters, the gauges and the positions.
    """
    requests, begins = arrive(random, mix, load, seconds)
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

    steps = done(second + 1) - done(second)
    drafts = random.binomial(steps, requests.drafting[which])
    accepted, left = [], drafts
    for position in range(mix.tokens):
        left = random.binomial(left, requests.conditional[which, position])
        accepted.append(count(left))
    started = np.bincount(begins[begins >= 0].astype(int), minlength=seconds)
    decoding = np.minimum(ends[which], second + 1) - np.maximum(begins[which], second)
    done_at = np.ceil(ends).astype(int) - 1
    over = done_at < seconds

    def at_end(each: Array) -> Array:
        return np.bincount(done_at[over], each[over], seconds)

    counters = {
        Counter.DRAFTS: count(drafts),
        Counter.DRAFT_TOKENS: count(drafts * requests.lengths[which]),
        Counter.ACCEPTED_TOKENS: sum(accepted),
        Counter.GENERATION_TOKENS: count(steps) + sum(accepted) + started,
        Counter.FIRST_TOKENS: started,
        Counter.DECODE_STEPS: count(steps),
        Counter.DECODE_NANOSECONDS: count(np.round(decoding * NANO)),
        Counter.FINISHED_REQUESTS: at_end(np.ones(len(ends))),
        Counter.END_TO_END_NANOSECONDS: at_end(np.round((ends - begins) * NANO)),
    }
    nothing = np.zeros(seconds)
    running = count(ends[which] > second + 1)
    columns = [
        np.full(seconds, NANO),
        *(counters.get(counter, nothing) for counter in Counter),
        *(running if gauge is MEAN_GAUGES[0] else nothing for gauge in MEAN_GAUGES),
        *accepted,
    ]
    rows = np.stack(columns, axis=1).astype(np.int64)
    return np.concatenate([np.zeros((1, len(columns)), np.int64), rows.cumsum(axis=0)])


def window(totals: Array, begin: int, length: int) -> Window:
    """Return the window that covers the seconds from ``begin`` on."""
    rows = totals[begin : begin + length + 1].tolist()
    _, *sums = map(int.__sub__, rows[-1], rows[0])
    gauges = len(Counter) + len(MEAN_GAUGES)
    return Window(
        length=float(length),
        seconds=float(length),
        polls=length,
        counters=tuple(sums[: len(Counter)]),
        positions=tuple(sums[gauges:]),
        gauges=tuple(total / length for total in sums[len(Counter) : gauges]),
        increments=Increments(_totals(rows), [float(second) for second in range(begin, begin + length)]),
    )


def _totals(rows: list[list[int]]) -> list[Rows]:
    """Return running totals of ``trace`` in the groups of columns of ``Increments``."""
    gauges = 1 + len(Counter)
    positions = gauges + len(MEAN_GAUGES)
    groups = [
        rows_of(
            Increment(0.0, row[0] / NANO, tuple(row[1:gauges]), tuple(row[positions:])), row[gauges:positions]
        )
        for row in rows
    ]
    return [Rows.of(group) for group in zip(*groups, strict=True)]


def as_if_independent(seen: Window) -> Estimate:
    """Return the acceptance length with the bounds that it had if drafts were independent."""
    length = acceptance_length_tokens(seen) or 1.0
    error = sqrt((independent_variance(seen) or 0.0) / max(seen[Counter.DRAFTS] or 0, 1))
    return Estimate(length, length - NORMAL * error, length + NORMAL * error, error)


@dataclass(frozen=True)
class Outcome:
    """Estimates of one window."""

    load: Load
    length: int
    mix: Mix
    requests: float
    """Passing through the window."""
    estimates: dict[str, Estimate | None]
    independent: Estimate
    """Of the length."""
    truth: dict[str, float]

    def holds(self, name: str) -> bool:
        """Return whether the bounds hold the truth; there must be some."""
        found = self.estimates[name]
        return found is not None and found.lower <= self.truth[name] <= found.upper

    @property
    def holds_if_independent(self) -> bool:
        """True if bounds for independent drafts include the truth."""
        return self.independent.lower <= self.truth["length"] <= self.independent.upper

    @property
    def bounded(self) -> bool:
        """True if it has bounds."""
        return all(self.estimates.values())

    @property
    def half_width(self) -> float:
        """Half the distance of the length's bounds, relative to the length."""
        found = self.estimates["length"]
        return 0.0 if found is None else (found.upper - found.lower) / 2 / found.value


def outcomes(
    random: np.random.Generator, mix: Mix, load: Load, true: dict[str, float], windows: int
) -> Iterator[Outcome]:
    """Draw windows of both lengths, all of them apart, and estimate."""
    longest = max(LENGTHS)
    while windows > 0:
        number = min(windows, TRACE_WINDOWS)
        totals = trace(random, mix, load, number * longest)
        for begin, length in product(range(0, number * longest, longest), LENGTHS):
            seen = window(totals, begin, length)
            estimates = {name: estimate(seen) for name, estimate in ESTIMATES.items()}
            requests = passing_requests(seen) or 0.0
            yield Outcome(load, length, mix, requests, estimates, as_if_independent(seen), true)
        windows -= number


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}"


def coverages(among: list[Outcome]) -> list[str]:
    """Return the share of windows whose bounds hold the truth, of each estimate; of few it says nothing."""
    if len(among) < MIN_WINDOWS:
        return ["-" for _ in ESTIMATES]
    return [percent(sum(each.holds(name) for each in among), len(among)) for name in ESTIMATES]


def table(heads: list[str], rows: Iterable[list[str]]) -> None:
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(flush=True)


def by_load(all_of_them: list[Outcome]) -> Iterator[list[str]]:
    groups = defaultdict(list)
    for each in all_of_them:
        groups[each.load, each.length].append(each)
    for (load, length), among in groups.items():
        enough = [each for each in among if each.bounded and each.requests >= ENOUGH]
        yield [
            "{}-{}".format(*load.tokens),
            load.arrivals,
            str(load.concurrent),
            f"{length} s",
            percent(sum(each.bounded for each in among), len(among)),
            percent(len(enough), len(among)),
            *coverages(enough),
        ]


def by_requests(all_of_them: list[Outcome]) -> Iterator[list[str]]:
    for length, (least, most) in product(LENGTHS, BANDS):
        among = [each for each in all_of_them if each.length == length and least <= each.requests < most]
        among = [each for each in among if each.bounded]
        if len(among) >= MIN_WINDOWS:
            yield [
                f"{length} s",
                f"{least} to {most}" if most < MANY else f"from {least}",
                str(len(among)),
                *coverages(among),
                f"{100 * np.mean([each.half_width for each in among]):.0f} %",
                percent(sum(each.holds_if_independent for each in among), len(among)),
            ]


def by_mix(all_of_them: list[Outcome]) -> Iterator[list[str]]:
    for mix, length in product(MIXES, LENGTHS):
        among = [each for each in all_of_them if each.mix == mix and each.length == length]
        enough = [each for each in among if each.bounded and each.requests >= ENOUGH]
        yield [mix.name, f"{length} s", percent(len(enough), len(among)), *coverages(enough)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=2000, help="of each length, in each row")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)

    each = -(-options.windows // len(MIXES))
    truths = {(mix, tokens): truth(random, mix, tokens) for mix, tokens in product(MIXES, TOKENS)}
    found = [
        outcome
        for tokens, arrivals, concurrent, mix in product(TOKENS, ARRIVALS, CONCURRENT, MIXES)
        for outcome in outcomes(random, mix, Load(tokens, arrivals, concurrent), truths[mix, tokens], each)
    ]
    print(f"{len(found)} windows; the share, in %, in which the 95 % bounds hold the truth:\n")
    heads = [f"{name} holds" for name in ESTIMATES]
    table(
        ["tokens", "arrivals", "running", "window", "with bounds", f"{ENOUGH} requests or more", *heads],
        by_load(found),
    )
    more = ["half-width of the length", "as if drafts were independent"]
    table(["window", "requests passing", "windows", *heads, *more], by_requests(found))
    table(["speculation", "window", f"{ENOUGH} requests or more", *heads], by_mix(found))


if __name__ == "__main__":
    main()
