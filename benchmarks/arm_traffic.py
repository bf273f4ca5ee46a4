"""Winners of experiments whose arms serve different requests.

    python -m benchmarks.arm_traffic [--windows 100] [--seed 1] [--smoke]

Easy and hard requests have equal lengths of prompts and answers. Arm a serves 25 % easy ones, arm b 25 or
75 %. Arm a is equally fast, or takes 0.9 of the time for each type. Each window of five minutes is one
comparison, so equal arms have a false winner in 5 % of them. The exporter names one only after a whole window
of agreement.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random
from typing import Final, NamedTuple

from benchmarks.options import parsed, parser
from spec_decode_exporter.analysis.experiments.arm import SpeedupBasis
from spec_decode_exporter.analysis.experiments.experiment import Member, compare
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.request_types import RequestTypes
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Increment
from spec_decode_exporter.window.ledger import NANO, Ledger, PublishedValues, Window

SECONDS: Final = 300
BEGIN: Final = 1000.0
PLACES: Final = 12
"""Requests that run at a time."""
STEP_SECONDS: Final = 0.025
PROMPT_SECONDS: Final = 0.1
PROMPT_TOKENS: Final = 400
TOKENS: Final = (50, 500)
K: Final = 3
TYPES: Final = {"easy": 0.70, "hard": 0.40}
"""Acceptance of a token."""
SPREAD: Final = 0.05
SETTINGS: Final = ExperimentSettings.model_validate(
    {"name": "x", "arms": {arm: {"match": {"name": arm}} for arm in "ab"}, "baseline": "b"}
)
_COUNTED: Final = (
    Counter.DRAFTS,
    Counter.DRAFT_TOKENS,
    Counter.ACCEPTED_TOKENS,
    Counter.GENERATION_TOKENS,
    Counter.FIRST_TOKENS,
    Counter.DECODE_STEPS,
    Counter.DECODE_NANOSECONDS,
    Counter.PROMPT_TOKENS,
    Counter.FINISHED_REQUESTS,
    Counter.END_TO_END_NANOSECONDS,
)


class Case(NamedTuple):
    """Two arms."""

    easy: float
    """Share of easy requests of arm b; that of arm a is 25 %."""
    factor: float
    """Time of arm a for each type, relative to b."""
    methods: tuple[str, str]
    with_types: bool


CASES: Final = [
    Case(easy, factor, methods, with_types)
    for easy, factor, methods, with_types in product(
        (0.25, 0.75), (1.0, 0.9), (("eagle", "eagle"), ("mtp", "eagle")), (False, True)
    )
]


class Served:
    """Requests of one arm, second by second."""

    def __init__(self, random: Random, name: str, types: RequestTypes) -> None:
        self._random = random
        self._name = name
        self._types = types
        self._ended: list[tuple[float, RequestRecord]] = []
        self.counters = [[0.0] * len(Counter) for _ in range(SECONDS)]
        self.positions = [[0.0] * K for _ in range(SECONDS)]

    def run(self, easy: float, factor: float) -> None:
        """Serve requests one after the other in each place."""
        for _ in range(PLACES):
            now = -self._random.uniform(0, 10)
            while now < SECONDS:
                now = self._serve(now, easy, factor)
        for end, record in sorted(self._ended, key=lambda each: each[0]):
            self._types.add(GroupKey("m", record.request_type, "0"), record, BEGIN + end)

    def _serve(self, begin: float, easy: float, factor: float) -> float:
        kind = "easy" if self._random.random() < easy else "hard"
        acceptance = min(max(self._random.gauss(TYPES[kind], SPREAD), 0.02), 0.98)
        survivors = [acceptance**position for position in range(1, K + 1)]
        tokens = self._random.randint(*TOKENS)
        steps = (tokens - 1) / (1 + sum(survivors))
        first = begin + PROMPT_SECONDS
        end = first + steps * STEP_SECONDS * factor
        self._at(
            first,
            {Counter.FIRST_TOKENS: 1, Counter.GENERATION_TOKENS: 1, Counter.PROMPT_TOKENS: PROMPT_TOKENS},
        )
        finished = {Counter.FINISHED_REQUESTS: 1.0, Counter.END_TO_END_NANOSECONDS: (end - begin) * NANO}
        self._at(end, finished)
        for second in range(max(0, int(first)), min(SECONDS, int(end) + 1)):
            share = (min(end, second + 1) - max(first, second)) / (end - first)
            self._add(second, share * steps, share * (tokens - 1), survivors, share * (end - first))
        record = RequestRecord(
            "m", round(steps), K * round(steps), round(tokens - 1 - steps), K, kind,
            completion_tokens=tokens, decode_seconds=end - first, target=self._name,
        )  # fmt: skip
        if 0 <= end < SECONDS:
            self._ended.append((end, record))
        return end

    def _at(self, moment: float, amounts: dict[Counter, float]) -> None:
        if 0 <= moment < SECONDS:
            for counter, amount in amounts.items():
                self.counters[int(moment)][counter] += amount

    def _add(
        self, second: int, steps: float, tokens: float, survivors: Sequence[float], seconds: float
    ) -> None:
        counters = self.counters[second]
        counters[Counter.DRAFTS] += steps
        counters[Counter.DECODE_STEPS] += steps
        counters[Counter.DRAFT_TOKENS] += K * steps
        counters[Counter.ACCEPTED_TOKENS] += tokens - steps
        counters[Counter.GENERATION_TOKENS] += tokens
        counters[Counter.DECODE_NANOSECONDS] += seconds * NANO
        for position, share in enumerate(survivors):
            self.positions[second][position] += share * steps

    def window(self) -> Window:
        """Return the window as the exporter has it."""
        ledger = Ledger(float(SECONDS))
        for second, (counters, positions) in enumerate(zip(self.counters, self.positions, strict=True)):
            begin = BEGIN + second
            increment = Increment(begin, begin + 1, tuple(map(round, counters)), tuple(map(round, positions)))
            ledger.add(increment, (float(PLACES), 0.0, 0.0), 1.0)
        known = PublishedValues(tuple(each in _COUNTED for each in Counter), (True, True, True), K)
        return ledger.window(float(SECONDS), 1.0, BEGIN + SECONDS, known)


def winner(random: Random, case: Case) -> str:
    """Return the winner of one window by the time per output token, or "none"."""
    types = RequestTypes()
    members = []
    shares, factors = (0.25, case.easy), (case.factor, 1.0)
    for name, easy, factor, method in zip("ab", shares, factors, case.methods, strict=True):
        arm = Served(random, name, types)
        arm.run(easy, factor)
        member = Member({"name": name, "model_name": "m", "method": method}, (arm.window(),))
        if case.with_types:
            member = replace(member, types=partial(types.times, "m", name))
        members.append(member)
    found = compare(SETTINGS, members, (float(SECONDS),), BEGIN + SECONDS)
    wins = (name for name, arm in found.arms.items() if arm.wins[SpeedupBasis.TIME_PER_OUTPUT_TOKEN])
    return next(wins, "none")


def rows(random: Random, windows: int) -> Iterator[str]:
    """Yield a line for each case."""
    for case in CASES:
        won = Counts(winner(random, case) for _ in range(windows))
        methods = "one" if len(set(case.methods)) == 1 else "two"
        known = "yes" if case.with_types else "no"
        shares = " | ".join(f"{100 * won[name] / windows:.0f}" for name in ("a", "b", "none"))
        yield f"| {case.easy:.0%} | {case.factor:g} | {methods} | {known} | {shares} |"


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--windows", type=int, default=100, help="in each row")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, windows=1)
    print("| easy in b | time of a | methods | types known | a wins, % | b wins, % | none, % |")
    print("|--:|--:|:--|:--|--:|--:|--:|")
    for row in rows(Random(arguments.seed), arguments.windows):
        print(row, flush=True)


if __name__ == "__main__":
    main()
