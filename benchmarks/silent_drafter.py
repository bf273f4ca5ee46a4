"""N-gram drafters that stop drafting: how soon that is found, and false alarms over simulated weeks.

    python -m benchmarks.silent_drafter [--full] [--smoke] [--seed 1]

Requests of 50 to 500 tokens run one after the other in each place. In every step of a request the drafter
finds something to draft with a probability of its own, the coverage: some texts repeat themselves, others do
not. A draft is accepted as usual. Then the traffic changes, and the drafter finds almost nothing: no drop of
the acceptance length, and almost no drafts that could show one. The exporter's own detectors get the counts
of each second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.options import parsed, parser
from spec_decode_exporter.analysis.drops.drop import DropKind
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.drop_detector import DecodeSteps, DropDetector

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

K = 4
ACCEPTANCE = 0.8
"""Probability that a drafted token is accepted, if the one before it was."""
COVERAGE = 0.4
"""Share of steps with a draft, on average over the requests."""
SILENT = 0.03
"""Share of that share which is left when the drafter falls silent."""
TOKENS = (50, 500)
SPREADS = (0.05, 0.15, 0.30)
"""Standard deviations of the coverage between requests; 0.30 is nearly all or nothing."""
PLACES = (1, 4, 16)
RATE = 20
"""Decode steps per second of a request."""
HOUR = 3600
WEEK = 7 * 24 * HOUR
ACCEPTED = sum(ACCEPTANCE**position for position in range(1, K + 1))
"""Accepted tokens of a draft."""


class Cell(NamedTuple):
    """A server: how the coverage of requests differs, and how many run at once."""

    spread: float
    places: int


class Counted(NamedTuple):
    """Counts of each second."""

    steps: Array
    drafts: Array
    positions: Array
    """Accepted tokens, by second and position."""


class Alarm(NamedTuple):
    """Drop that was found."""

    kind: DropKind
    second: int


def polled(random: np.random.Generator, cell: Cell, factor: Array) -> Counted:
    """Draw the counts of each second; ``factor`` multiplies the coverage, second by second.

    A second of a place belongs to one request: the one that runs at its begin.
    """
    seconds = len(factor)
    counted = Counted(np.zeros(seconds, int), np.zeros(seconds, int), np.zeros((seconds, K), int))
    begins = np.arange(seconds) * RATE
    for _ in range(cell.places):
        coverage = _coverages(random, cell.spread, int(seconds * RATE / np.mean(TOKENS) * 4) + 50)
        tokens = random.integers(TOKENS[0], TOKENS[1] + 1, len(coverage))
        ends = np.cumsum(np.ceil(tokens / (1 + coverage * ACCEPTED)))
        running = np.searchsorted(ends, begins + random.integers(0, 400), side="right")
        drafts = random.binomial(RATE, coverage[running] * factor)
        counted.steps[:] += RATE
        counted.drafts[:] += drafts
        survived = drafts
        for position in range(K):
            survived = random.binomial(survived, ACCEPTANCE)
            counted.positions[:, position] += survived
    return counted


def _coverages(random: np.random.Generator, spread: float, number: int) -> Array:
    """Draw the coverage of requests from a beta distribution."""
    weight = COVERAGE * (1 - COVERAGE) / spread**2 - 1
    return random.beta(COVERAGE * weight, (1 - COVERAGE) * weight, number)


def watched(counted: Counted, *, searches: bool = True) -> list[Alarm]:
    """Return the drops that the exporter finds; ``searches`` is whether it knows the method."""
    detector, found = DropDetector(DropPolicy()), []
    columns = zip(counted.steps.tolist(), counted.drafts.tolist(), counted.positions.tolist(), strict=True)
    for second, (steps, drafts, positions) in enumerate(columns):
        changes = detector.observe(
            second, second + 1, drafts, sum(positions), positions, steps=DecodeSteps(steps, searches)
        )
        found += [Alarm(change.kind, second) for change in changes if change.dropped]
    return found


def silent(random: np.random.Generator, cell: Cell) -> float | None:
    """The drafter falls silent after two hours; return in how many seconds that is found."""
    before, after = 2 * HOUR, 15 * 60
    found = watched(polled(random, cell, np.repeat([1.0, SILENT], [before, after])))
    delays = (alarm.second + 1 - before for alarm in found if alarm.kind is DropKind.DRAFTING)
    return next((float(delay) for delay in delays if delay > 0), None)


def steady(random: np.random.Generator, cell: Cell, seconds: int = WEEK) -> list[Alarm]:
    """A week in which nothing changes: all alarms are false."""
    return watched(polled(random, cell, np.ones(seconds)))


def randoms(seed: int, cell: Cell, number: int) -> Iterator[np.random.Generator]:
    """Return generators that are the same in every run, and others in every cell."""
    sequence = np.random.SeedSequence([seed, round(100 * cell.spread), cell.places])
    return (np.random.default_rng(each) for each in sequence.spawn(number))


def _row(seed: int, cell: Cell, falls: int, weeks: int) -> str:
    """Measure one server, and return its row of the table."""
    delays = [silent(random, cell) for random in randoms(seed, cell, falls)]
    known = sorted(float("inf") if delay is None else delay for delay in delays)
    alarms = [alarm for random in randoms(seed + 1, cell, weeks) for alarm in steady(random, cell)]
    kinds = [sum(alarm.kind is kind for alarm in alarms) for kind in (DropKind.SUDDEN, DropKind.DRAFTING)]
    return (
        f"| {cell.spread:.2f} | {cell.places} | {known[len(known) // 2]:.0f} "
        f"| {known[-(-9 * falls // 10) - 1]:.0f} | {delays.count(None)} of {falls} "
        f"| {weeks} | {kinds[0]} | {kinds[1]} |"
    )


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--full", action="store_true", help="more runs, an hour")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options)
    falls, weeks = (20, 4) if arguments.full else (10, 1)
    cells = [Cell(spread, places) for spread in SPREADS for places in PLACES]
    if arguments.smoke:
        falls, weeks, cells = 1, 0, [Cell(0.15, 4)]
    print("\nSeconds until a silent n-gram drafter is found, and false alarms in simulated weeks\n")
    print("| coverage differs by | at once | half | nine of ten | not found | weeks | sudden | drafting |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for cell in cells:
        print(_row(arguments.seed, cell, falls, weeks), flush=True)


if __name__ == "__main__":
    main()
