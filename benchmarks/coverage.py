"""Coverage of the 95 % bounds by the effective requests of a window, and by the kind of traffic.

    python -m benchmarks.coverage [--windows 1000] [--uneven 500] [--seed 1] [--smoke]

Requests are drawn one by one and counted every second, as the exporter would count them, and the exporter's
own code estimates the bounds. The truth is the ratio of an endless run of the same mix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, product, starmap
from math import sqrt

import numpy as np

from benchmarks.options import parsed, parser
from benchmarks.simulated_requests import MIXES, Array, Load, Mix, draw, trace, window
from benchmarks.table import percent, print_table
from benchmarks.uneven_traffic import KINDS, Traffic
from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.speedup import speedup_estimate
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    MIN_BOUND_REQUESTS,
    acceptance_length_estimate,
    acceptance_ratio_estimate,
    effective_requests,
    independent_variance,
)
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window

COST = Cost(0.05, 0.02, CostSource.CONFIGURED, None)
ESTIMATES: dict[str, Callable[[Window], Estimate | None]] = {
    "length": acceptance_length_estimate,
    "rate": acceptance_ratio_estimate,
    "speed-up": lambda window: speedup_estimate(window, COST),
}

TOKENS = ((50, 500), (500, 3000))
ARRIVALS = ("closed", "open")
CONCURRENT = (1, 4, 16, 64)
UNEVEN_CONCURRENT = (1, 4, 16)
LENGTHS = (30, 300)
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


def truth(random: np.random.Generator, mix: Mix, tokens: tuple[int, int]) -> dict[str, float]:
    requests = draw(random, mix, tokens, MANY)
    drafts = requests.steps * requests.drafting
    sums = (drafts, drafts * requests.lengths, drafts * requests.accepted, requests.steps)
    return _figures(*(float(each.sum()) for each in sums))


def _figures(drafts: float, drafted: float, accepted: float, steps: float) -> dict[str, float]:
    time = steps * (1 + COST.fixed_cost_ratio) + COST.draft_cost_ratio * drafted
    return {
        "length": 1 + accepted / drafts,
        "rate": accepted / drafted,
        "speed-up": (steps + accepted) / time,
    }


def as_if_independent(seen: Window) -> Estimate:
    """Return the acceptance length with the bounds that it had if drafts were independent."""
    length = acceptance_length_tokens(seen) or 1.0
    error = sqrt((independent_variance(seen) or 0.0) / max(seen[Counter.DRAFTS] or 0, 1))
    return Estimate(length, length - NORMAL * error, length + NORMAL * error, error)


def _holds(found: Estimate | None, truth: float) -> bool:
    return found is not None and found.lower <= truth <= found.upper


@dataclass(frozen=True)
class Outcome:
    """Estimates of one window."""

    length: int
    requests: float
    """Effective requests through the window."""
    estimates: dict[str, Estimate | None]
    independent: Estimate
    """Of the length, as the next one."""
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


def outcomes(drawn: Callable[[int], Array], true: dict[str, float], windows: int) -> Iterator[Outcome]:
    """Draw windows of both lengths, each pair apart from the others, and estimate."""
    for totals, begin in _traces(drawn, windows):
        for length in LENGTHS:
            yield Outcome(length, *_estimated(totals, begin, length), true)


def _truth_of(totals: Array) -> dict[str, float]:
    counted = totals[-1][1 : 1 + len(Counter)].astype(float)
    names = (Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS, Counter.DECODE_STEPS)
    return _figures(*(counted[counter] for counter in names))


def _traces(drawn: Callable[[int], Array], windows: int) -> Iterator[tuple[Array, int]]:
    """Yield a trace and the begin of each of its longest windows.

    The first of a trace is left out: its histogram of answers would lack those that began before.
    """
    longest = max(LENGTHS)
    for done in range(0, windows, TRACE_WINDOWS):
        number = min(windows - done, TRACE_WINDOWS)
        totals = drawn((number + 1) * longest)
        for place in range(1, number + 1):
            yield totals, place * longest


def _estimated(totals: Array, begin: int, length: int) -> tuple[float, dict[str, Estimate | None], Estimate]:
    longest = max(LENGTHS)
    seen = window(totals, begin + longest - length, length, longest)
    estimates = {name: estimate(seen) for name, estimate in ESTIMATES.items()}
    return effective_requests(seen) or 0.0, estimates, as_if_independent(seen)


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
        true = _truth_of(traffic.trace(random, running, arguments.true_seconds // running))
        drawn = partial(traffic.trace, random, running)
        return by_traffic(traffic, running, list(outcomes(drawn, true, arguments.uneven)))

    print_table(heads, chain.from_iterable(starmap(rows, product(KINDS, UNEVEN_CONCURRENT))))


if __name__ == "__main__":
    main()
