"""Coverage of the bounds of experiments, and the rate of false winners between equal arms.

    python -m benchmarks.experiments [--pairs 200] [--hours 20] [--seed 1] [--smoke]

Two arms are drawn as in ``benchmarks.coverage``, one of them faster by a factor; the exporter's own code
compares five minutes of each. Equal arms are compared every five seconds for hours, as the exporter does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.options import parsed, parser
from benchmarks.simulated_requests import MIXES, Load, Trace, trace
from benchmarks.table import percent, print_table
from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.experiment import Claims, Experiment, Member, compare

SECONDS = 300
HOUR = 3600
LOOK_SECONDS = 5
TOKENS = (50, 500)
LOADS = (Load(TOKENS, "closed", 1), Load(TOKENS, "closed", 4), Load(TOKENS, "open", 16))
ENGINES = (1, 3)
FASTER = (1.0, 1.3)
ARMS = ("off", "on")
MIX = next(mix for mix in MIXES if mix.name == "EAGLE")
SETTINGS = ExperimentSettings.model_validate(
    {"name": "x", "arms": {arm: {"match": {"method": arm}} for arm in ARMS}, "baseline": "off"}
)


def traces(
    random: np.random.Generator, load: Load, engines: int, faster: float, seconds: int
) -> dict[str, list[Trace]]:
    """Draw the engines of both arms; those of the second are ``faster`` times as fast."""
    factors = dict(zip(ARMS, (1.0, faster), strict=True))
    return {
        arm: [
            trace(random, replace(MIX, steps_per_second=MIX.steps_per_second * factor), load, seconds)
            for _ in range(engines)
        ]
        for arm, factor in factors.items()
    }


def members(drawn: dict[str, list[Trace]], begin: int) -> list[Member]:
    return [
        Member({"model_name": "m", "method": arm}, (its.window(begin, SECONDS),))
        for arm, engines in drawn.items()
        for its in engines
    ]


def winner_of(found: Experiment) -> str | None:
    return next(
        (name for name, arm in found.arms.items() if arm.wins[SpeedupBasis.TIME_PER_OUTPUT_TOKEN]), None
    )


def row(random: np.random.Generator, load: Load, engines: int, faster: float, pairs: int) -> list[str]:
    drawn = traces(random, load, engines, faster, pairs * SECONDS)
    bounded: Counter[SpeedupBasis] = Counter()
    holds: Counter[SpeedupBasis] = Counter()
    winners: Counter[str | None] = Counter()
    for begin in range(0, pairs * SECONDS, SECONDS):
        found = compare(SETTINGS, members(drawn, begin), (float(SECONDS),), float(begin + SECONDS))
        winners[winner_of(found)] += 1
        for basis, speedup in found.arms["on"].windows[-1].speedups.items():
            if speedup.estimate is not None:
                bounded[basis] += 1
                holds[basis] += speedup.estimate.lower <= faster <= speedup.estimate.upper
    shares = [percent(holds[basis] / bounded[basis]) if bounded[basis] else "-" for basis in SpeedupBasis]
    wrong = winners["off"] + (winners["on"] if faster == 1 else 0)
    few = f"{bounded[SpeedupBasis.TIME_PER_OUTPUT_TOKEN]} of {pairs}"
    head = [f"{load.arrivals}, {load.concurrent}", str(engines), f"{faster:g}", few]
    return [*head, *shares, percent(winners["on"] / pairs), percent(wrong / pairs)]


def hour(random: np.random.Generator, load: Load) -> tuple[bool, bool]:
    """Look at equal arms for an hour; return whether a look shows a winner, and whether one is named."""
    drawn, claims = traces(random, load, 1, 1.0, HOUR + SECONDS), Claims()
    shown = named = False
    for begin in range(0, HOUR, LOOK_SECONDS):
        seen, now = members(drawn, begin), float(begin + SECONDS)
        shown |= winner_of(compare(SETTINGS, seen, (float(SECONDS),), now)) is not None
        named |= winner_of(compare(SETTINGS, seen, (float(SECONDS),), now, claims)) is not None
    return shown, named


def equal_arms(random: np.random.Generator, load: Load, hours: int) -> list[str]:
    found = [hour(random, load) for _ in range(hours)]
    return [
        f"{load.arrivals}, {load.concurrent}",
        *(f"{sum(each)} of {hours}" for each in zip(*found, strict=True)),
    ]


def rows(random: np.random.Generator, pairs: int) -> Iterator[list[str]]:
    for load in LOADS:
        for engines in ENGINES:
            for faster in FASTER:
                yield row(random, load, engines, faster, pairs)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--pairs", type=int, default=200, help="of windows, in each row")
    options.add_argument("--hours", type=int, default=20, help="of equal arms, in each row")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, pairs=1, hours=1)
    random = np.random.default_rng(arguments.seed)
    heads = ["arrivals, running", "engines", "times as fast", "bounded"]
    shares = [f"holds: {basis}" for basis in SpeedupBasis]
    print_table([*heads, *shares, "faster one wins", "wrong winner"], rows(random, arguments.pairs))
    loads = LOADS[1 : 2 if arguments.smoke else None]
    hours = (equal_arms(random, load, arguments.hours) for load in loads)
    print_table(["equal arms", "hours with a winner in a look", "hours that name one"], hours)


if __name__ == "__main__":
    main()
