"""False alarms of the watch for drops, and how soon it finds real ones, over simulated weeks.

    python -m benchmarks.drops [--full] [--seed 1] [--only sudden slow starts weeks] [--smoke]

``benchmarks.weekly_traffic`` has weeks whose traffic changes.

A fixed number of requests of 50 to 500 tokens run at a time. Each has its own acceptance, and how
far those differ (the standard deviation of the share of single tokens that is accepted) is what makes drops
hard to tell from chance. Drafts are drawn one by one and counted second by second; the exporter's own watch
gets the increments. The acceptance length is 2.1 in all of it, with three tokens a draft.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import log1p
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.options import parsed, parser
from spec_decode_exporter.analysis.drops.drop import DropChange, DropKind
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.drop_detector import DropDetector

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

K = 3
ACCEPTED = 1.1
"""Tokens a draft, on average over the drafts; the length is one more."""
DROPPED = 0.4
SINK = 0.15
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


@dataclass(frozen=True)
class Requests:
    """One after the other in one place."""

    acceptance: Array
    drafts: Array

    @property
    def accepted(self) -> Array:
        """Tokens accepted of a draft, on average."""
        return accepted(self.acceptance)


def accepted(acceptance: Array) -> Array:
    """Return how many tokens of a draft are accepted on average, p + p² + … + p^K."""
    powers: Array = sum(acceptance**position for position in range(1, K + 1))
    return powers


def draw(random: np.random.Generator, center: float, spread: float, number: int) -> Requests:
    """Draw requests; one that is accepted badly takes more drafts."""
    tokens = random.integers(TOKENS[0], TOKENS[1] + 1, number)
    acceptance = np.clip(random.normal(center, spread, number), 0.02, 0.98)
    return Requests(acceptance, np.ceil(tokens / (1 + accepted(acceptance))))


def mean(requests: Requests) -> float:
    """Return the accepted tokens per draft of all of them."""
    return float((requests.accepted * requests.drafts).sum() / requests.drafts.sum())


@cache
def center(spread: float, wanted: float) -> float:
    """Return the mean acceptance of requests for a number of accepted tokens per draft."""
    low, high = 0.01, 0.97
    for _ in range(30):
        middle = (low + high) / 2
        above = mean(draw(np.random.default_rng(0), middle, spread, 50_000)) > wanted
        low, high = (low, middle) if above else (middle, high)
    return low


@cache
def variance(spread: float) -> float:
    """Return V, the variance per draft of sums much longer than a request."""
    requests = draw(np.random.default_rng(0), center(spread, ACCEPTED), spread, 200_000)
    rest = requests.accepted - mean(requests)
    squares = accepted(requests.acceptance) * 0
    for position in range(K):
        squares += (2 * position + 1) * requests.acceptance ** (position + 1)
    own = (squares - requests.accepted**2) * requests.drafts
    return float((own + (rest * requests.drafts) ** 2).sum() / requests.drafts.sum())


def possible_delay(cell: Cell) -> float:
    """Return in how many seconds a fall from 2.1 to 1.4 can be found, with one false alarm a week."""
    fall, spread = ACCEPTED - DROPPED, variance(cell.spread)
    drafts = 2 * spread / fall**2 * log1p(cell.rate * WEEK * fall**2 / (2 * spread))
    return drafts / cell.rate


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
        requests = draw(random, center(cell.spread, ACCEPTED), cell.spread, number)
        requests.drafts[0] = np.ceil(requests.drafts[0] * random.random())
        _decode(random, requests, until, factor, counted)
    return counted


def _decode(
    random: np.random.Generator, requests: Requests, until: Array, factor: Array, counted: Counted
) -> None:
    """Draw all drafts of requests that follow each other, and add them to the seconds that they belong to."""
    ends = np.cumsum(requests.drafts.astype(int))
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
        acceptance = np.repeat(requests.acceptance[runs], turns) * np.repeat(factor[seconds], each)
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
    """A week in which nothing changes."""
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


def sink(random: np.random.Generator, cell: Cell) -> float | None:
    """The length sinks by 15 % over 3 hours, after half a day; return in how many hours that is found."""
    before, during = 12 * HOUR, 3 * HOUR
    lengths = (1 + ACCEPTED) * (1 - SINK * np.linspace(0, 1, 16))
    parts = [center(cell.spread, length - 1) / center(cell.spread, ACCEPTED) for length in lengths]
    sinking = np.interp(np.linspace(0, 1, during), np.linspace(0, 1, 16), parts)
    found = watched(polled(random, cell, np.concatenate([np.ones(before), sinking])))
    delays = [each.second + 1 - before for each in found if each.kind is DropKind.SLOW]
    return next((delay / HOUR for delay in sorted(delays) if delay > 0), None)


def starts(random: np.random.Generator, cell: Cell) -> int:
    """Return whether there is a false alarm in the first hour of an engine."""
    return bool(watched(polled(random, cell, np.ones(HOUR))))


def randoms(seed: int, cell: Cell, number: int) -> Iterator[np.random.Generator]:
    """Return generators that are the same in every run, and others in every cell."""
    sequence = np.random.SeedSequence([seed, round(100 * cell.spread), cell.places, cell.rate])
    return (np.random.default_rng(each) for each in sequence.spawn(number))


def tell_weeks(seed: int, *, full: bool) -> None:
    print("\nFalse alarms in simulated weeks\n")
    print("| requests differ by | load | drafts a second | weeks | sudden | of them over 1 min | slow |")
    print("|--:|:--|--:|--:|--:|--:|--:|", flush=True)
    rates, number = (RATES, 2) if full else (RATES[:1], 1)
    for spread in SPREADS:
        for rate in rates:
            for places in PLACES:
                cell = Cell(spread, places, rate)
                _tell_week(
                    cell, f"{places} at once", [steady(each, cell) for each in randoms(seed, cell, number)]
                )
            cell = Cell(spread, 16, rate)
            _tell_week(cell, "changing", [changing(each, cell) for each in randoms(seed + 1, cell, number)])


def _tell_week(cell: Cell, load: str, weeks: list[list[Found]]) -> None:
    found = [each for week in weeks for each in week]
    sudden = [each for each in found if each.kind is DropKind.SUDDEN]
    lasting = sum(each.end - each.second > 60 for each in sudden)
    slow = len(found) - len(sudden)
    print(
        f"| {cell.spread:.2f} | {load} | {cell.rate} | {len(weeks)} | {len(sudden)} | {lasting} | {slow} |",
        flush=True,
    )


def tell_starts(seed: int, *, full: bool) -> None:
    print("\nNew engines with a false alarm in their first hour, of the number in the last column\n")
    print("| requests differ by | " + " | ".join(f"{places} at once" for places in PLACES) + " | of |")
    print("|--:|--:|--:|--:|--:|", flush=True)
    number = 100 if full else 20
    for spread in SPREADS:
        cells = [Cell(spread, places, RATES[0]) for places in PLACES]
        counts = [sum(starts(each, cell) for each in randoms(seed, cell, number)) for cell in cells]
        print(f"| {spread:.2f} | " + " | ".join(map(str, counts)) + f" | {number} |", flush=True)


def tell_sudden(seed: int, *, full: bool) -> None:
    print("\nSeconds until a fall from 2.1 to 1.4 is found\n")
    print(
        "| requests differ by | V | drafts a second | at once | possible | half | nine of ten | not found |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    number = 20 if full else 10
    for cell in cells_of(RATES if full else RATES[:1]):
        delays = [fall(each, cell) for each in randoms(seed, cell, number)]
        half, most, missed = _spread(delays)
        print(
            f"| {cell.spread:.2f} | {variance(cell.spread):.1f} | {cell.rate} | {cell.places} "
            f"| {possible_delay(cell):.1f} | {half:.0f} | {most:.0f} | {missed} of {number} |",
            flush=True,
        )


def tell_slow(seed: int, *, full: bool) -> None:
    print("\nHours until a sink of 15 % over 3 hours is found\n")
    print("| requests differ by | drafts a second | at once | half | nine of ten | before it ends |")
    print("|--:|--:|--:|--:|--:|--:|", flush=True)
    number = 10 if full else 5
    for cell in cells_of(RATES if full else RATES[:1]):
        if cell.places != PLACES[1]:
            continue
        delays = [sink(each, cell) for each in randoms(seed, cell, number)]
        half, most, missed = _spread(delays)
        print(
            f"| {cell.spread:.2f} | {cell.rate} | {cell.places} | {half:.1f} | {most:.1f} "
            f"| {number - missed} of {number} |",
            flush=True,
        )


def cells_of(rates: tuple[int, ...]) -> Iterator[Cell]:
    """Return servers of all kinds."""
    return (Cell(spread, places, rate) for spread in SPREADS for rate in rates for places in PLACES)


def _spread(delays: list[float | None]) -> tuple[float, float, int]:
    """Return the median, the ninth decile, and how many were not found."""
    known = sorted(float("inf") if delay is None else delay for delay in delays)
    missed = sum(delay is None for delay in delays)
    return known[len(known) // 2], known[-(-9 * len(known) // 10) - 1], missed


PARTS: dict[str, Callable[..., None]] = {
    "sudden": tell_sudden,
    "slow": tell_slow,
    "starts": tell_starts,
    "weeks": tell_weeks,
}


def tell_smoke(seed: int) -> None:
    """Draw one server of each kind of change, and an hour instead of a week."""
    cell = Cell(SPREADS[-1], PLACES[-1], RATES[0])
    print(*(each(next(randoms(seed, cell, 1)), cell) for each in (fall, sink, starts)))
    weeks = [each(next(randoms(seed, cell, 1)), cell, HOUR) for each in (steady, changing)]
    _tell_week(cell, "one hour", weeks)


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
