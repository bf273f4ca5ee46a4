"""False alarms of the watch for drops over simulated weeks, and how soon it finds sudden ones.

    python -m benchmarks.drops [--full] [--seed 1] [--only sudden weeks] [--smoke]

``benchmarks.weekly_traffic`` has slow drops, and weeks whose traffic changes.

A fixed number of requests of 50 to 500 tokens run at a time. Each has its own acceptance, and how
far those differ (the standard deviation of the share of single tokens that is accepted) is what makes drops
hard to tell from chance. Drafts are drawn one by one and counted second by second; the exporter's own watch
gets the increments. The acceptance length is 2.1 in all of it, with three tokens a draft.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.options import parsed, parser
from benchmarks.table import print_table
from spec_decode_exporter.drops.drop import DropChange, DropKind
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.drop_detector import DropDetector

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

K = 3
ACCEPTED = 1.1
"""Tokens a draft, on average over the drafts; the length is one more."""
DROPPED = 0.4
TOKENS = (50, 500)
SPREADS = (0.0, 0.05, 0.11, 0.20)
PLACES = (1, 4, 16)
RATES = (20, 100, 480)
HOUR = 3600
WEEK = 7 * 24 * HOUR
MAX_DRAFTS = 2_000_000
"""Drafts that are drawn at a time, to limit memory."""


class Cell(NamedTuple):
    """A server: how requests differ, how many run at once, and how much it drafts."""

    spread: float
    places: int
    rate: int


def accepted(acceptance: Array) -> Array:
    """Return how many tokens of a draft are accepted on average, p + p² + … + p^K."""
    powers: Array = sum(acceptance**position for position in range(1, K + 1))
    return powers


def draw(random: np.random.Generator, center: float, spread: float, number: int) -> tuple[Array, Array]:
    tokens = random.integers(TOKENS[0], TOKENS[1] + 1, number)
    acceptance = np.clip(random.normal(center, spread, number), 0.02, 0.98)
    return acceptance, np.ceil(tokens / (1 + accepted(acceptance)))


@cache
def center(spread: float, wanted: float) -> float:
    """Return the mean acceptance of requests for a number of accepted tokens per draft."""
    low, high = 0.01, 0.97
    for _ in range(30):
        middle = (low + high) / 2
        acceptance, drafts = draw(np.random.default_rng(0), middle, spread, 50_000)
        above = (accepted(acceptance) * drafts).sum() / drafts.sum() > wanted
        low, high = (low, middle) if above else (middle, high)
    return low


class Counted(NamedTuple):
    """Counts of each second."""

    drafts: Array
    positions: Array
    """Accepted tokens, by second and position."""


def polled(random: np.random.Generator, cell: Cell, factor: Array, busy: Array | None = None) -> Counted:
    """Draw what each second brings.

    ``factor`` is what acceptance is multiplied by, second by second; ``busy`` how many requests are running.
    """
    counted = Counted(np.zeros(len(factor), int), np.zeros((len(factor), K), int))
    for place in range(cell.places):
        used = np.ones(len(factor)) if busy is None else busy > place
        until = np.floor(np.cumsum(used * (cell.rate / cell.places)) + random.random()).astype(int)
        number = int(until[-1] / np.mean(TOKENS) * (1 + ACCEPTED) * 1.2) + 50
        acceptance, drafts = draw(random, center(cell.spread, ACCEPTED), cell.spread, number)
        drafts[0] = np.ceil(drafts[0] * random.random())
        _decode(random, (acceptance, drafts), until, factor, counted)
    return counted


def _decode(
    random: np.random.Generator,
    requests: tuple[Array, Array],
    until: Array,
    factor: Array,
    counted: Counted,
) -> None:
    ends = np.cumsum(requests[1].astype(int))
    chunk = max(1, int(MAX_DRAFTS * len(until) / (until[-1] + 1)))
    for first in range(0, len(until), chunk):
        seconds = slice(first, first + chunk)
        begin = int(until[first - 1]) if first else 0
        each = np.diff(until[seconds], prepend=begin)
        end = begin + int(each.sum())
        if end == begin:
            continue
        earliest, latest = np.searchsorted(ends, [begin, end - 1], side="right")
        runs = slice(earliest, latest + 1)
        turns = np.diff(np.minimum(ends[runs], end), prepend=begin)
        acceptance = np.repeat(requests[0][runs], turns) * np.repeat(factor[seconds], each)
        survived = random.standard_exponential(end - begin) / -np.log(np.clip(acceptance, 0.001, 0.98))
        counted.drafts[seconds] += each
        for position in range(K):
            sums = np.concatenate([[0], np.cumsum(survived >= position + 1)])
            counted.positions[seconds, position] += np.diff(sums[np.cumsum(each)], prepend=0)


class Found(NamedTuple):
    """A drop that was found, and until when it lasted."""

    kind: DropKind
    second: int
    end: int


def watched(
    counted: Counted, *, missed: Array | None = None, restarts: frozenset[int] = frozenset()
) -> list[Found]:
    """Return the drops that the watch finds.

    ``missed`` are seconds without a successful poll, whose counts the next poll has; at ``restarts`` the
    exporter goes on with what it saved, as JSON, and loses what was counted in between.
    """
    watch, found = DropDetector(DropPolicy()), Drops()
    begin, drafted, survived = 0, 0, [0] * K
    skipped = missed if missed is not None else np.zeros(len(counted.drafts), bool)
    for second, (number, counts, skip) in enumerate(
        zip(counted.drafts.tolist(), counted.positions.tolist(), skipped.tolist(), strict=True)
    ):
        drafted += number
        survived = (
            [old + new for old, new in zip(survived, counts, strict=True)] if begin < second else counts
        )
        if skip:
            continue
        if second in restarts:
            saved = json.loads(json.dumps(watch.saved()))
            watch = DropDetector(DropPolicy())
            assert watch.restore(saved)
        else:
            found.add(second, watch.observe(begin, second + 1, drafted, sum(survived), survived))
        begin, drafted = second + 1, 0
    return found.all(len(counted.drafts))


class Drops:
    """Pairs the beginnings of drops with their ends."""

    def __init__(self) -> None:
        self._found: list[Found] = []
        self._open: dict[DropKind, int] = {}

    def add(self, second: int, changes: tuple[DropChange, ...]) -> None:
        """Take the changes of a second."""
        for change in changes:
            if change.dropped:
                self._open[change.kind] = second
            else:
                self._found.append(Found(change.kind, self._open.pop(change.kind), second))

    def all(self, end: int) -> list[Found]:
        """Return all drops; those that go on end now."""
        return self._found + [Found(kind, second, end) for kind, second in self._open.items()]


def steady(random: np.random.Generator, cell: Cell, week: int = WEEK) -> list[Found]:
    return watched(polled(random, cell, np.ones(week)))


def changing(random: np.random.Generator, cell: Cell, week: int = WEEK) -> list[Found]:
    """A week of changing load, lulls of minutes to an hour, failed polls and restarts of the exporter."""
    busy = np.zeros(week, int)
    second = 0
    while second < week:
        length = int(random.integers(5 * 60, HOUR))
        busy[second : second + length] = random.choice([0, 1, 2, 4, 8, 16], p=[0.2, *[0.16] * 5])
        second += length
    counted = polled(random, cell, np.ones(week), busy)
    missed = random.random(week) < 0.02
    outages = random.integers(0, week, 20)
    for outage in outages:
        missed[outage : outage + random.integers(10, 300)] = True
    restarts = frozenset(int(moment) for moment in random.integers(0, week, 14))
    missed[list(restarts)] = False
    return watched(counted, missed=missed, restarts=restarts)


def fall(random: np.random.Generator, cell: Cell) -> float | None:
    """A length of 2.1 falls to 1.4 after some hours; return in how many seconds that is found."""
    before, after = 3 * HOUR, 15 * 60
    part = center(cell.spread, DROPPED) / center(cell.spread, ACCEPTED)
    factor = np.repeat([1.0, part], [before, after])
    found = watched(polled(random, cell, factor))
    delays = [each.second + 1 - before for each in found if each.kind is DropKind.SUDDEN]
    return next((float(delay) for delay in sorted(delays) if delay > 0), None)


def randoms(seed: int, cell: Cell, number: int) -> Iterator[np.random.Generator]:
    sequence = np.random.SeedSequence([seed, round(100 * cell.spread), cell.places, cell.rate])
    return (np.random.default_rng(each) for each in sequence.spawn(number))


def tell_weeks(seed: int, *, full: bool) -> None:
    print("\nFalse alarms in simulated weeks\n")
    rates, number = (RATES, 2) if full else (RATES[:1], 1)
    rows = (
        _week(cell, load, [lived(each, cell) for each in randoms(seed + later, cell, number)])
        for spread, rate in product(SPREADS, rates)
        for load, places, lived, later in LOADS
        for cell in [Cell(spread, places, rate)]
    )
    print_table(WEEK_HEADS, rows)


LOADS = (*((f"{places} at once", places, steady, 0) for places in PLACES), ("changing", 16, changing, 1))
WEEK_HEADS = (
    "requests differ by",
    "load",
    "drafts a second",
    "weeks",
    "sudden",
    "of them over 1 min",
    "slow",
)


def _week(cell: Cell, load: str, weeks: list[list[Found]]) -> list[str]:
    found = [each for week in weeks for each in week]
    sudden = [each for each in found if each.kind is DropKind.SUDDEN]
    lasting = sum(each.end - each.second > 60 for each in sudden)
    counts = (cell.rate, len(weeks), len(sudden), lasting, len(found) - len(sudden))
    return [f"{cell.spread:.2f}", load, *map(str, counts)]


def tell_sudden(seed: int, *, full: bool) -> None:
    print("\nSeconds until a fall from 2.1 to 1.4 is found\n")
    number = 20 if full else 10

    def row(cell: Cell) -> list[str]:
        half, most, missed = _spread([fall(each, cell) for each in randoms(seed, cell, number)])
        head = [f"{cell.spread:.2f}", str(cell.rate), str(cell.places)]
        return [*head, f"{half:.0f}", f"{most:.0f}", f"{missed} of {number}"]

    cells = (
        Cell(spread, places, rate)
        for spread, rate, places in product(SPREADS, RATES if full else RATES[:1], PLACES)
    )
    heads = ("requests differ by", "drafts a second", "at once", "half", "nine of ten", "not found")
    print_table(heads, map(row, cells))


def _spread(delays: list[float | None]) -> tuple[float, float, int]:
    known = sorted(float("inf") if delay is None else delay for delay in delays)
    missed = sum(delay is None for delay in delays)
    return known[len(known) // 2], known[-(-9 * len(known) // 10) - 1], missed


PARTS = {"sudden": tell_sudden, "weeks": tell_weeks}


def tell_smoke(seed: int) -> None:
    cell = Cell(SPREADS[-1], PLACES[-1], RATES[0])
    print(fall(next(randoms(seed, cell, 1)), cell))
    weeks = [each(next(randoms(seed, cell, 1)), cell, HOUR) for each in (steady, changing)]
    print_table(WEEK_HEADS, [_week(cell, "one hour", weeks)])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--full", action="store_true", help="all cells, some hours")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parsed(options)
    if arguments.smoke:
        tell_smoke(arguments.seed)
    for part in () if arguments.smoke else arguments.only:
        PARTS[part](arguments.seed, full=arguments.full)


if __name__ == "__main__":
    main()
