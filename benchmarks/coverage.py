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
