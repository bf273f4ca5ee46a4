"""Winners of experiments whose arms serve different requests.

    python -m benchmarks.arm_traffic [--trials 6] [--seed 1] [--smoke]

Arms of two or three equal servers each, which are drawn for each trial: arm a has another load, other
requests, uneven or late ones, or is faster. The truth is 1 except in the last rows. Requests arrive at
random, or each of a fixed number of clients sends the next one at once. The exit status is 1 if a goal is
missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from benchmarks.console import end, parsed, parser, percent, print_table
from benchmarks.truth.fleet import Fleet, Machine, Work
from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.experiment import Experiment, Member, compare

SECONDS: Final = 300
SETTINGS: Final = ExperimentSettings.model_validate(
    {"name": "x", "arms": {arm: {"match": {"name": arm}} for arm in "ab"}, "baseline": "b"}
)


class Difference(NamedTuple):
    """Traffic of arm a, relative to arm b."""

    load: float = 1.0
    easier: float = 0.0
    """Added to the acceptance of the first position."""
    factors: Mapping[str, float] = MappingProxyType({})
    """Factors of fields of ``Work``."""
    uneven: float = 0.0
    """Its engines have by turns so much less and more load."""
    begin: float = 0.0
    """Second at which its requests begin to arrive; the window has 300."""
    gain: float = 1.0
    """Speed of its steps."""
    places: float | None = None
    """Places over the requests that run in the mean: other requests wait."""

    def work(self, work: Work, engine: int) -> Work:
        """Return the requests of an engine of arm a."""
        load = self.load * (1 + self.uneven * (-1) ** engine)
        changed = replace(work, acceptance=work.acceptance + self.easier)
        changed = replace(
            changed, **{name: getattr(work, name) * factor for name, factor in self.factors.items()}
        )
        if work.rate:
            return replace(changed, rate=work.rate * load)
        return replace(changed, running=max(2, round(work.running * load)))


DIFFERENCES: Final = {
    "none": Difference(),
    "0.7 times the load": Difference(0.7),
    "1.4 times the load": Difference(1.4),
    "easier requests": Difference(easier=0.1),
    "0.7 times the load, easier requests": Difference(0.7, 0.1),
    "1.4 times the load, harder requests": Difference(1.4, -0.1),
    "prompts 1.5 times as long": Difference(factors={"prompt": 1.5}),
    "answers 0.6 times as long": Difference(factors={"answer": 0.6}),
    "answers 1.5 times as long": Difference(factors={"answer": 1.5}),
    "more prefix hits": Difference(factors={"hits": 1.4}),
    "half and 1.5 times the load by turns": Difference(uneven=0.5),
    "1.4 times the load, begun 200 s later": Difference(1.4, begin=240.0),
    "a queue, 0.7 times the load": Difference(0.7, places=1.2),
    "a queue, easier requests": Difference(easier=0.1, places=1.2),
    "1.09 times as fast": Difference(gain=1.09),
    "1.21 times as fast": Difference(gain=1.21),
    "1.8 times as fast": Difference(gain=1.8),
}
SETTLING: Final = 40
MAX_FALSE, MIN_INSIDE, MIN_NAMED = 0.03, 0.9, 0.8
"""Goals: one look at equal arms shows a winner by chance in 2.5 % for each basis."""


def compared(random: np.random.Generator, its: Difference, trials: int) -> Iterator[Experiment]:
    """Serve both arms, and compare five minutes of them."""
    fleet, arms = Fleet(random), []
    for trial in range(trials):
        running = float(np.exp(random.uniform(np.log(4), np.log(40))))
        machine = replace(Machine.draw(random), tokens=3, drafter=random.uniform(0.05, 0.15))
        answer, prompt = np.exp(random.uniform(np.log((120, 200)), np.log((500, 4000)))).tolist()
        work = Work(answer, prompt, random.uniform(0.3, 0.68), random.uniform(0.5, 0.8))
        if trial % 2 == 0 or its.places:
            work = replace(work, rate=machine.rate(work, running) * (1.3 if its.places else 1.0))
            machine = replace(machine, places=round(running * its.places) + 1 if its.places else 96)
        work, fast = replace(work, running=round(running)), replace(machine, factor=1 / its.gain)
        a = [fleet.add(fast, its.work(work, engine), its.begin) for engine in range(2 + trial % 3 // 2)]
        arms.append({"a": a, "b": [fleet.add(machine, work) for _ in range(2)]})
    traces = fleet.traces(SECONDS, SETTLING)
    for engines in arms:
        labels = {arm: {"name": arm, "model_name": "m", "method": "eagle"} for arm in "ab"}
        windows = [(arm, traces[each].window(0, SECONDS)) for arm, own in engines.items() for each in own]
        members = [Member(labels[arm], (window,)) for arm, window in windows]
        yield compare(SETTINGS, members, (float(SECONDS),), float(SECONDS))


class Tally:
    """Comparisons of arms: bounds that hold 1, and winners, by whether the arms are equal."""

    def __init__(self, random: np.random.Generator, trials: int) -> None:
        self._random, self._trials = random, trials
        self.counts: Counter[tuple[str, SpeedupBasis, bool]] = Counter()

    def rows(self, differences: Mapping[str, Difference]) -> Iterator[list[str]]:
        """Yield a row for each difference: by each basis the bounded, those that hold 1, the winners."""
        for name, its in differences.items():
            found, cells = list(compared(self._random, its, self._trials)), []
            for basis in SpeedupBasis:
                seen = [each.arms["a"].windows[-1].speedups[basis].estimate for each in found]
                bounds = [each for each in seen if each is not None]
                holds = sum(each.lower <= 1 <= each.upper for each in bounds)
                a, b = (sum(each.arms[arm].wins[basis] for each in found) for arm in "ab")
                cells.append(f"{holds} of {len(bounds)}; {a}, {b}")
                counts = {"bounded": len(bounds), "holds": holds, "won": a if its.gain > 1 else a + b}
                for what, count in (counts | {"all": len(found)}).items():
                    self.counts[what, basis, its.gain == 1] += count
            yield [name, *cells]

    def missed(self) -> Iterator[str]:
        """Yield the missed goals."""
        counts = self.counts
        for basis in SpeedupBasis:
            inside = percent(counts["holds", basis, True] / counts["bounded", basis, True])
            won, looks = counts["won", basis, True], counts["all", basis, True]
            print(f"{basis}: of equal arms {inside} % inside, {won} of {looks} with a winner")
            if counts["holds", basis, True] < MIN_INSIDE * counts["bounded", basis, True]:
                yield f"equal arms inside, {basis}"
            if counts["won", basis, True] > MAX_FALSE * counts["all", basis, True]:
                yield f"winners of equal arms, {basis}"
            if counts["won", basis, False] < MIN_NAMED * counts["all", basis, False]:
                yield f"true winners, {basis}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=6, help="in each row")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, trials=1)
    tally = Tally(np.random.default_rng(arguments.seed), arguments.trials)
    shown = dict(list(DIFFERENCES.items())[: 2 if arguments.smoke else None])
    print("Bounds that hold 1, of those with bounds; arm a wins, arm b wins.\n")
    print_table(("arm a has", *SpeedupBasis), tally.rows(shown))
    end(arguments, list(tally.missed()))


if __name__ == "__main__":
    main()
