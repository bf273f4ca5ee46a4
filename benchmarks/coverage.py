"""Coverage of the 95 % bounds by the effective requests of a window, and by the kind of traffic.

    python -m benchmarks.coverage [--windows 1000] [--uneven 500] [--seed 1] [--smoke]

Requests are drawn one by one and counted every second, as the exporter would count them, and the exporter's
own code estimates the bounds. The truth is the ratio of an endless run of the same mix. Requests of the kinds
of traffic are not alike: heavy tails, bursts of one job, regimes, and waves of load. Their truth is the ratio
of a run of some hundred windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, product, starmap
from math import sqrt
from typing import TypeAlias

import numpy as np

from benchmarks.console import parsed, parser, percent, print_table
from benchmarks.simulated_requests import (
    MIXES,
    Array,
    Load,
    Mix,
    Requests,
    Trace,
    counted,
    draw,
    even,
    first_positions,
    requests_of,
    trace,
)
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.costs.cost import CostRange, CostSource, StepCost
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, Estimate

Random: TypeAlias = np.random.Generator

TOKEN, STEP = 0.05, 0.02
COST = CostRange(StepCost(TOKEN, STEP), StepCost(TOKEN, STEP), StepCost(TOKEN, STEP), CostSource.CONFIGURED)
ESTIMATES: dict[str, Callable[[WindowEvaluation], Estimate | None]] = {
    "length": lambda its: its.acceptance_length_bounds,
    "rate": lambda its: its.draft_acceptance_bounds,
    "speed-up": lambda its: its.speedup_bounds,
}

TOKENS = ((50, 500), (500, 3000))
ARRIVALS = ("closed", "open")
CONCURRENT = (1, 4, 16, 64)
UNEVEN_CONCURRENT = (1, 4, 16)
LENGTHS = (15, 30, 300)
BANDS = ((MIN_BOUND_REQUESTS, 7), (7, 10), (10, 15), (15, 35), (35, 70), (70, 10**9))
"""Effective requests through a window; there are no bounds below the first."""
NORMAL = 1.96
"""The 0.975 quantile of the normal distribution."""
MIN_WINDOWS = 300
"""Windows for a share: with fewer it would be uncertain by more than two points."""
TRACE_WINDOWS = 25
"""Number of the longest windows that are drawn at a time, to limit memory."""
MANY = 10**6
"""Requests that stand for an endless run."""
TRUE_SECONDS = 400_000
"""Seconds times running requests of the run that stands for an endless one of uneven traffic."""

# Traffic whose requests are not alike: at random, at 30 decode steps a second, with three tokens a draft.
MIX = next(mix for mix in MIXES if mix.name == "EAGLE")
SPREAD = 0.15
"""Standard deviation of the acceptance among the requests of a kind."""
CHAT = (50, 500)
AGENT = (2000, 8000)
AGENTS = 0.05
"""Share of agents among the requests."""
PARETO, MAX_TOKENS = 1.5, 8192
"""Exponent of the tail, and longest answer: without it the variance is infinite."""
CHATS, JOB = 100, 20
"""Chats from one job to the next, and its requests, which begin together and have nearly one acceptance."""
JOB_TOKENS, JOB_SPREAD = (500, 1500), 0.03
REGIME = 200
"""Requests of a regime; each regime has its own mean acceptance."""
WAVE_SECONDS, WAVE_DEPTH = 90.0, 0.9
"""The rate of arrivals rises and falls by this share."""


def equal(random: Random, number: int) -> Requests:
    return _with_acceptance(random, np.full(number, 200.0), MIX.acceptance)


def alike(random: Random, number: int) -> Requests:
    return _with_acceptance(random, even(random, CHAT, number), MIX.acceptance)


def pareto(random: Random, number: int) -> Requests:
    tokens = np.minimum(CHAT[0] * (1 - random.random(number)) ** (-1 / PARETO), MAX_TOKENS)
    return _with_acceptance(random, tokens, MIX.acceptance)


def agents(random: Random, number: int) -> Requests:
    agent = random.random(number) < AGENTS
    tokens = np.where(agent, even(random, AGENT, number), even(random, CHAT, number))
    return _with_acceptance(random, tokens, np.where(agent, 0.80, 0.65))


def jobs(random: Random, number: int) -> Requests:
    """Draw chats, and after every 100 of them a job; see ``together``."""
    place = np.arange(number) % (CHATS + JOB)
    in_job = place >= CHATS
    job = np.arange(number) // (CHATS + JOB)
    own = first_positions(random, MIX.acceptance, SPREAD, job[-1] + 1)[job]
    tokens = np.where(in_job, even(random, JOB_TOKENS, number), even(random, CHAT, number))
    near = np.clip(own + random.normal(0, JOB_SPREAD, number), 0.02, 0.98)
    first = np.where(in_job, near, first_positions(random, MIX.acceptance, SPREAD, number))
    return requests_of(random, MIX, tokens, first)


def regimes(random: Random, number: int) -> Requests:
    """Draw chats whose mean acceptance changes after every ``REGIME`` of them."""
    regime = np.arange(number) // REGIME
    means = random.uniform(0.5, 0.9, regime[-1] + 1)[regime]
    return requests_of(random, MIX, even(random, CHAT, number), first_positions(random, means, 0.08, number))


def _with_acceptance(random: Random, tokens: Array, mean: float | Array) -> Requests:
    return requests_of(random, MIX, tokens, first_positions(random, mean, SPREAD, len(tokens)))


def at_random(random: Random, number: int, begin: float, end: float) -> Array:
    return np.sort(random.uniform(begin, end, number))


def together(random: Random, number: int, begin: float, end: float) -> Array:
    """Return begins at random, those of a job together."""
    begins = at_random(random, number, begin, end)
    place = np.arange(number)
    first = place - np.maximum(place % (CHATS + JOB) - CHATS, 0)
    return np.asarray(begins[first])


def in_waves(random: Random, number: int, begin: float, end: float) -> Array:
    grid = np.linspace(begin, end, round(end - begin) + 1)
    rate = 1 + WAVE_DEPTH * np.sin(2 * np.pi * grid / WAVE_SECONDS)
    reached = np.cumsum(rate) / rate.sum()
    return np.interp(np.sort(random.random(number)), reached, grid)


@dataclass(frozen=True)
class Traffic:
    """A kind of traffic."""

    name: str
    draw: Callable[[Random, int], Requests]
    arrivals: Callable[[Random, int, float, float], Array] = at_random
    """Begins of a number of requests, in order, from one second to another."""
    waves: bool = False
    """True if K depends on the load: three tokens up to the mean of running requests, one above."""

    def trace(self, random: Random, running: int, seconds: int) -> Trace:
        """Return ``seconds`` with ``running`` requests in the mean."""
        lives = self.draw(random, 24_000).steps / MIX.steps_per_second
        before = float(lives.max())
        number = round(running * (before + seconds) / float(lives.mean()))
        requests = self.draw(random, number)
        begins = self.arrivals(random, number, -before, float(seconds))

        def by_load(now: Array) -> Array:
            return np.where(now > running, 1, MIX.tokens)

        schedule = by_load if self.waves else None
        return counted(random, MIX, requests, begins, seconds=seconds, draft_tokens=schedule)


KINDS = (
    Traffic("answers of 200 tokens", equal),
    Traffic("answers of 50 to 500 tokens", alike),
    Traffic("Pareto lengths", pareto),
    Traffic("5 % agents among chats", agents),
    Traffic("chats and bursts of one job", jobs, together),
    Traffic("regimes of 200 requests", regimes),
    Traffic("waves of load, K by load", alike, in_waves, waves=True),
)


def truth(random: Random, mix: Mix, tokens: tuple[int, int]) -> dict[str, float]:
    requests = draw(random, mix, tokens, MANY)
    drafts = requests.steps * requests.drafting
    sums = (drafts, drafts * requests.lengths, drafts * requests.accepted, requests.steps)
    return _figures(*(float(each.sum()) for each in sums))


def _figures(drafts: float, drafted: float, accepted: float, steps: float) -> dict[str, float]:
    return {
        "length": 1 + accepted / drafts,
        "rate": accepted / drafted,
        "speed-up": (steps + accepted) / (steps + STEP * drafts + TOKEN * drafted),
    }


@dataclass(frozen=True)
class Outcome:
    """Estimates of one window."""

    length: int
    requests: float
    """Effective requests through the window."""
    estimates: dict[str, Estimate | None]
    independent: Estimate
    """Acceptance length with the bounds that it had if drafts were independent."""
    truth: dict[str, float]

    def holds(self, name: str) -> bool:
        """Return whether the bounds hold the truth; there must be some."""
        return _holds(self.estimates[name], self.truth[name])

    @property
    def holds_if_independent(self) -> bool:
        """True if bounds for independent drafts include the truth."""
        return _holds(self.independent, self.truth["length"])

    @property
    def bounded(self) -> bool:
        """True if it has bounds."""
        return all(self.estimates.values())

    @property
    def half_width(self) -> float:
        """Half the distance of the length's bounds, relative to the length."""
        found = self.estimates["length"]
        return 0.0 if found is None else (found.upper - found.lower) / 2 / found.value


def _holds(found: Estimate | None, truth: float) -> bool:
    return found is not None and found.lower <= truth <= found.upper


def outcomes(drawn: Callable[[int], Trace], true: dict[str, float], windows: int) -> Iterator[Outcome]:
    """Draw windows of both lengths, each pair apart from the others, and estimate.

    The first of a trace is left out: its histogram of answers would lack those that began before.
    """
    longest = max(LENGTHS)
    for done in range(0, windows, TRACE_WINDOWS):
        number = min(windows - done, TRACE_WINDOWS)
        its = drawn((number + 1) * longest)
        for place, length in product(range(2, number + 2), LENGTHS):
            yield _outcome(its, place * longest - length, length, true)


def _outcome(drawn: Trace, begin: int, length: int, true: dict[str, float]) -> Outcome:
    its = WindowEvaluation(drawn.window(begin, length, max(LENGTHS)), Knowledge())
    its.cost = COST
    estimates = {name: estimate(its) for name, estimate in ESTIMATES.items()}
    value = its.acceptance_length_tokens or 1.0
    error = sqrt((its.draft_variance or 0.0) / max(its.total.drafts or 0, 1))
    independent = Estimate(value, value - NORMAL * error, value + NORMAL * error, error)
    return Outcome(length, its.effective_requests or 0.0, estimates, independent, true)


def coverages(among: list[Outcome]) -> list[str]:
    """Return the share of windows whose bounds hold the truth, of each estimate; of few it says nothing."""
    if len(among) < MIN_WINDOWS:
        return ["-" for _ in ESTIMATES]
    return [percent(sum(each.holds(name) for each in among) / len(among)) for name in ESTIMATES]


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
                percent(sum(each.holds_if_independent for each in among) / len(among)),
            ]


def by_traffic(traffic: Traffic, running: int, drawn: list[Outcome]) -> Iterator[list[str]]:
    for length in LENGTHS:
        among = [each for each in drawn if each.length == length]
        bounded = [each for each in among if each.bounded]
        requests = f"{np.median([each.requests for each in among]):.0f}"
        share = percent(len(bounded) / len(among))
        yield [traffic.name, str(running), f"{length} s", requests, share, *coverages(bounded)]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--windows", type=int, default=1000, help="of each length, in each row")
    options.add_argument("--uneven", type=int, default=500, help="the same of uneven traffic")
    options.add_argument("--true-seconds", type=int, default=TRUE_SECONDS, help="seconds of a true run")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, windows=len(MIXES), uneven=1, true_seconds=1000)
    random = np.random.default_rng(arguments.seed)

    each = -(-arguments.windows // len(MIXES))
    truths = {(mix, tokens): truth(random, mix, tokens) for mix, tokens in product(MIXES, TOKENS)}
    found = [
        outcome
        for tokens, arrivals, concurrent, mix in product(TOKENS, ARRIVALS, CONCURRENT, MIXES)
        for outcome in outcomes(
            partial(trace, random, mix, Load(tokens, arrivals, concurrent)), truths[mix, tokens], each
        )
    ]
    print(f"{len(found)} windows; the share, in %, in which the 95 % bounds hold the truth:\n")
    heads = [f"{name} holds" for name in ESTIMATES]
    more = ["half-width of the length", "as if drafts were independent"]
    print_table(["window", "effective requests", "windows", *heads, *more], by_requests(found))
    random = np.random.default_rng([arguments.seed, 1])
    heads = ["traffic", "running", "window", "effective requests", "with bounds", *heads]

    def rows(traffic: Traffic, running: int) -> Iterator[list[str]]:
        total = traffic.trace(random, running, arguments.true_seconds // running).total
        true = _figures(total.drafts, total.draft_tokens, total.accepted_tokens, total.decode_steps)
        drawn = partial(traffic.trace, random, running)
        return by_traffic(traffic, running, list(outcomes(drawn, true, arguments.uneven)))

    print_table(heads, chain.from_iterable(starmap(rows, product(KINDS, UNEVEN_CONCURRENT))))


if __name__ == "__main__":
    main()
