"""Winners of experiments whose arms serve different requests.

    python -m benchmarks.arm_traffic [--windows 100] [--trials 6] [--seed 1] [--smoke]

First, arms of two or three equal servers each, which are drawn for each trial: arm a has another load, other
requests, uneven or late ones, or is faster. The truth is 1 except in the last rows. Requests arrive at
random, or each of a fixed number of clients sends the next one at once. The exit status is 1 if a goal is
missed.

Second, easy and hard requests have equal lengths of answers. Arm a serves 25 % easy ones, arm b 25 or 75 %.
Arm a is equally fast, or takes 0.9 of the time for each type. Each window of five minutes is one comparison,
so equal arms have a false winner in 5 % of them. The exporter names one only after a whole window of
agreement.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from benchmarks.experiments import MIX, winner_of
from benchmarks.options import end, parsed, parser
from benchmarks.simulated_requests import counted, requests_of
from benchmarks.table import percent, print_table
from benchmarks.truth.fleet import Fleet, Machine, Work
from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.experiment import Experiment, Member, compare
from spec_decode_exporter.requests.record import RequestRecord
from spec_decode_exporter.requests.store import RequestStore
from spec_decode_exporter.window.history import Window

SECONDS: Final = 300
PLACES: Final = 12
"""Requests that run at a time."""
EACH: Final = 200
"""Requests that are drawn for a place: more than it serves."""
TOKENS: Final = (50, 500)
EASY, HARD, SPREAD = 0.70, 0.40, 0.05
"""Mean acceptance of a token by type, and its standard deviation."""
SETTINGS: Final = ExperimentSettings.model_validate(
    {"name": "x", "arms": {arm: {"match": {"name": arm}} for arm in "ab"}, "baseline": "b"}
)


class Case(NamedTuple):
    """Two arms."""

    easy: float
    """Share of easy requests of arm b; that of arm a is 25 %."""
    factor: float
    """Time of arm a for each type, relative to b."""
    methods: tuple[str, str]
    with_types: bool


CASES: Final = tuple(
    map(Case._make, product((0.25, 0.75), (1.0, 0.9), (("eagle",) * 2, ("mtp", "eagle")), (False, True)))
)


def served(random: np.random.Generator, name: str, easy: float, factor: float, store: RequestStore) -> Window:
    """Serve requests one after the other in each place, and tell ``store`` those that end."""
    mix = replace(MIX, steps_per_second=MIX.steps_per_second / factor)
    number = PLACES * EACH
    is_easy = random.random(number) < easy
    first = np.clip(random.normal(np.where(is_easy, EASY, HARD), SPREAD), 0.02, 0.98)
    requests = requests_of(random, mix, random.uniform(*TOKENS, number), first)
    seconds = requests.steps / mix.steps_per_second
    lives = seconds.reshape(PLACES, EACH)
    begins = (lives.cumsum(axis=1) - lives - random.uniform(0, 10, (PLACES, 1))).ravel()
    ends = begins + seconds
    for each in np.argsort(ends).tolist():
        if 0 <= ends[each] < SECONDS:
            kind = "easy" if is_easy[each] else "hard"
            steps, tokens = int(requests.steps[each]), int(requests.tokens[each])
            record = RequestRecord(
                "m", steps, MIX.tokens * steps, tokens - 1 - steps, MIX.tokens, kind,
                completion_tokens=tokens, decode_seconds=float(seconds[each]), target=name,
            )  # fmt: skip
            store.take(record, float(ends[each]), None)
    return counted(random, mix, requests, begins, seconds=SECONDS).window(0, SECONDS)


def winner(random: np.random.Generator, case: Case) -> str | None:
    store, members = RequestStore(RequestSettings()), []
    shares, factors = (0.25, case.easy), (case.factor, 1.0)
    for name, easy, factor, method in zip("ab", shares, factors, case.methods, strict=True):
        seen = served(random, name, easy, factor, store)
        member = Member({"name": name, "model_name": "m", "method": method}, (seen,))
        if case.with_types:
            member = replace(member, types=partial(store.times, "m", name))
        members.append(member)
    asyncio.run(store.findings((float(SECONDS),), float(SECONDS)))
    return winner_of(compare(SETTINGS, members, (float(SECONDS),), float(SECONDS)))


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


def rows(random: np.random.Generator, windows: int) -> Iterator[list[str]]:
    for case in CASES:
        won = Counter(winner(random, case) for _ in range(windows))
        methods, known = len(set(case.methods)), "yes" if case.with_types else "no"
        shares = (f"{100 * won[name] / windows:.0f}" for name in ("a", "b", None))
        yield [f"{case.easy:.0%}", f"{case.factor:g}", str(methods), known, *shares]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--windows", type=int, default=100, help="in each row of the second table")
    options.add_argument("--trials", type=int, default=6, help="in each row of the first table")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, windows=1, trials=1)
    tally = Tally(np.random.default_rng(arguments.seed), arguments.trials)
    shown = dict(list(DIFFERENCES.items())[: 2 if arguments.smoke else None])
    print("Bounds that hold 1, of those with bounds; arm a wins, arm b wins.\n")
    print_table(("arm a has", *SpeedupBasis), tally.rows(shown))
    heads = ("easy in b", "time of a", "methods", "types known", "a wins, %", "b wins, %", "none, %")
    print_table(heads, rows(np.random.default_rng(arguments.seed), arguments.windows))
    end(arguments, list(tally.missed()))


if __name__ == "__main__":
    main()
