"""Winners of experiments whose arms serve different requests.

    python -m benchmarks.arm_traffic [--windows 100] [--seed 1] [--smoke]

Easy and hard requests have equal lengths of answers. Arm a serves 25 % easy ones, arm b 25 or 75 %. Arm a is
equally fast, or takes 0.9 of the time for each type. Each window of five minutes is one comparison, so equal
arms have a false winner in 5 % of them. The exporter names one only after a whole window of agreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from benchmarks.experiments import MIX, winner_of
from benchmarks.options import parsed, parser
from benchmarks.simulated_requests import counted, requests_of
from benchmarks.table import print_table
from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.experiments.experiment import Member, compare
from spec_decode_exporter.requests.findings import GroupKey
from spec_decode_exporter.requests.record import RequestRecord
from spec_decode_exporter.requests.request_types import RequestTypes
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


def served(random: np.random.Generator, name: str, easy: float, factor: float, types: RequestTypes) -> Window:
    """Serve requests one after the other in each place, and tell ``types`` those that end."""
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
            types.add(GroupKey("m", kind, "0"), record, float(ends[each]))
    return counted(random, mix, requests, begins, seconds=SECONDS).window(0, SECONDS)


def winner(random: np.random.Generator, case: Case) -> str | None:
    types, members = RequestTypes(), []
    shares, factors = (0.25, case.easy), (case.factor, 1.0)
    for name, easy, factor, method in zip("ab", shares, factors, case.methods, strict=True):
        seen = served(random, name, easy, factor, types)
        member = Member({"name": name, "model_name": "m", "method": method}, (seen,))
        if case.with_types:
            member = replace(member, types=partial(types.times, "m", name))
        members.append(member)
    return winner_of(compare(SETTINGS, members, (float(SECONDS),), float(SECONDS)))


def rows(random: np.random.Generator, windows: int) -> Iterator[list[str]]:
    for case in CASES:
        won = Counter(winner(random, case) for _ in range(windows))
        methods, known = len(set(case.methods)), "yes" if case.with_types else "no"
        shares = (f"{100 * won[name] / windows:.0f}" for name in ("a", "b", None))
        yield [f"{case.easy:.0%}", f"{case.factor:g}", str(methods), known, *shares]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--windows", type=int, default=100, help="in each row")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, windows=1)
    heads = ("easy in b", "time of a", "methods", "types known", "a wins, %", "b wins, %", "none, %")
    print_table(heads, rows(np.random.default_rng(arguments.seed), arguments.windows))


if __name__ == "__main__":
    main()
