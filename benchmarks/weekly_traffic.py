"""False alarms of the drop detectors in weeks of changing traffic, and how soon a slow sink is found there.

    python -m benchmarks.weekly_traffic [--weeks 10] [--days 7] [--sinks 20] [--after 2] [--seed 1]
        [--only weeks sinks silent] [--smoke]

An easy and a hard type of requests arrive at random at an even rate; the share of easy ones changes. A sink
lowers the length of both types by 15 % over 3 hours, and it stays low for 6 hours. Requests are drawn one by
one and polled every 10 s; the exporter's own detectors get the increments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import repeat
from statistics import median
from typing import NamedTuple, TypeAlias

import numpy as np

from benchmarks.drops import HOUR, TOKENS, Array, K, accepted
from benchmarks.options import parsed, parser
from benchmarks.table import print_table
from spec_decode_exporter.drops.drop import DropChange, DropKind
from spec_decode_exporter.drops.mix import TypeSums
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.drop_detector import DecodeSteps, DropDetector
from spec_decode_exporter.monitor.drops.traffic_mix import TypeTotals, no_types

Random: TypeAlias = np.random.Generator

TYPES = {"easy": 0.70, "hard": 0.40}
"""Acceptance of a token; the lengths are 2.5 and 1.6."""
SPREAD = 0.05
"""Standard deviation of the acceptance of requests of one type."""
DRAFTS_PER_SECOND = 20.0
REQUEST_DRAFTS_PER_SECOND = 5.0
"""Of one request: 4 run at a time on average."""
POLL = 10
PARTS = ("weeks", "sinks", "silent")
MINUTE = 60
DAY = 24 * HOUR
MIDNIGHT = 20_000.0 * DAY
SINK = 0.15
SINK_SECONDS = 3 * HOUR
AFTER_SINK = 6 * HOUR


_GRID: Array = np.linspace(0.001, 0.99, 2000)


def lowered(acceptance: Array, factor: Array) -> Array:
    """Return the acceptance at which the length is ``factor`` of that at ``acceptance``."""
    lengths = np.maximum(factor * (1 + accepted(acceptance)), 1.001)
    inverse: Array = np.interp(lengths - 1, accepted(_GRID), _GRID)
    return inverse


def flat(_random: Random, minutes: int) -> Array:
    return np.full(minutes, 0.5)


def daily(random: Random, minutes: int) -> Array:
    phase = random.random()
    share: Array = 0.5 + 0.15 * np.sin(2 * np.pi * (np.arange(minutes) * MINUTE / DAY + phase))
    return share


def regimes(random: Random, minutes: int) -> Array:
    number = minutes // 20 + 2
    shares: Array = np.repeat(random.choice([0.35, 0.65], number), 20)
    first = int(random.integers(20))
    return shares[first : first + minutes]


def weekend(random: Random, minutes: int) -> Array:
    day = (np.arange(minutes) * MINUTE // DAY + int(random.integers(7))) % 7
    return np.where(day >= 5, 0.35, daily(random, minutes))


def walk(random: Random, minutes: int) -> Array:
    """Return a random walk that returns to half: standard deviation 10 points, memory 6 hours."""
    kept = np.exp(-MINUTE / (6 * HOUR))
    steps = random.normal(0, 0.1 * np.sqrt(1 - kept**2), minutes).tolist()
    place, places = float(random.normal(0, 0.1)), []
    for step in steps:
        place = kept * place + step
        places.append(place)
    return np.clip(0.5 + np.array(places), 0.05, 0.95)


TRAFFIC: Mapping[str, Callable[[Random, int], Array]] = {
    "flat": flat,
    "daily mix ± 15 points": daily,
    "regimes of 20 minutes": regimes,
    "weekdays and weekend": weekend,
    "random walk": walk,
}


class Polled(NamedTuple):
    """Counts of each poll."""

    drafts: Array
    positions: Array
    """Accepted tokens, by poll and position."""
    by_type: Mapping[str, Array]
    """Drafts and accepted tokens of the requests of a type that finished until each poll, by poll."""
    steps: Array | None = None
    """Decode steps, if the method searches for text; None if every step drafts."""


def served(random: Random, share: Array, factor: Array | None = None) -> Polled:
    """Draw the requests of some minutes.

    ``share`` is that of easy requests and ``factor`` that of the normal length, minute by minute.
    """
    seconds = len(share) * MINUTE
    arrivals = np.sort(random.random(round(seconds * DRAFTS_PER_SECOND / _mean_drafts())) * seconds)
    minute = (arrivals // MINUTE).astype(int)
    easy = random.random(len(arrivals)) < share[minute]
    centers = np.where(easy, TYPES["easy"], TYPES["hard"])
    acceptance = np.clip(random.normal(centers, SPREAD), 0.02, 0.98)
    if factor is not None:
        acceptance = lowered(acceptance, factor[minute])
    tokens = random.integers(TOKENS[0], TOKENS[1] + 1, len(arrivals))
    drafts = np.ceil(tokens / (1 + accepted(acceptance))).astype(int)
    survivors = [drafts]
    for _ in range(K):
        survivors.append(random.binomial(survivors[-1], acceptance))
    duration = drafts / REQUEST_DRAFTS_PER_SECOND
    counts = [_spread(arrivals, duration, each, seconds // POLL) for each in survivors]
    ends = np.minimum((arrivals + duration) // POLL, seconds // POLL - 1).astype(int)
    total = sum(survivors[1:])
    by_type = {
        name: np.cumsum(
            [np.bincount(ends[own], each[own], seconds // POLL) for each in (drafts, total)], axis=1
        )
        for name, own in (("easy", easy), ("hard", ~easy))
    }
    return Polled(counts[0], np.stack(counts[1:], axis=1), by_type)


def _mean_drafts() -> float:
    lengths = [1 + float(accepted(np.array([center]))[0]) for center in TYPES.values()]
    return float(np.mean([sum(TOKENS) / 2 / length for length in lengths]))


def _spread(begin: Array, duration: Array, amount: Array, polls: int) -> Array:
    sums = np.zeros(polls)
    first = (begin // POLL).astype(int)
    for later in range(int(duration.max() // POLL) + 2):
        poll = first + later
        overlap = np.minimum(begin + duration, (poll + 1) * POLL) - np.maximum(begin, poll * POLL)
        inside = (overlap > 0) & (poll < polls)
        parts = (amount / duration * overlap)[inside]
        sums += np.bincount(poll[inside], parts, polls)[:polls]
    whole: Array = np.diff(np.floor(np.cumsum(sums)), prepend=0).astype(int)
    return whole


class Found(NamedTuple):
    """Begin of a drop, or another change that was reported."""

    seconds: float
    change: DropChange


def detected(polled: Polled, *, with_types: bool = False) -> list[Found]:
    """Return what the detectors report; ``with_types`` gives them the requests by type."""
    found: list[Found] = []
    poll = 0

    def totals() -> Mapping[str, TypeSums]:
        return {name: TypeSums(*map(float, sums[:, poll])) for name, sums in polled.by_type.items()}

    types: TypeTotals = totals if with_types else no_types
    detector = DropDetector(DropPolicy(), types)
    numbers = repeat(None) if polled.steps is None else polled.steps.tolist()
    for poll, (drafts, positions, number) in enumerate(
        zip(polled.drafts.tolist(), polled.positions.tolist(), numbers, strict=False)
    ):
        end = (poll + 1.0) * POLL
        steps = None if number is None else DecodeSteps(number, searches=True)
        changes = detector.observe(
            end - POLL, end, drafts, sum(positions), positions, wall=MIDNIGHT + end, steps=steps
        )
        found += (Found(end, change) for change in changes if change.dropped or change.traffic)
    return found


def sink_factor(minutes: int, start: int) -> Array:
    """Return the share of the normal length, minute by minute, with a sink from minute ``start`` on."""
    factor: Array = np.interp(np.arange(minutes), [start, start + SINK_SECONDS // MINUTE], [1, 1 - SINK])
    return factor


def tell_weeks(random: Random, number: int, days: float) -> None:
    print(f"\nAlarms a week, of {number} weeks that each begin with a new exporter\n")

    def row(name: str) -> list[str]:
        counts = [_week(each, TRAFFIC[name], days) for each in random.spawn(number)]
        return [name, *(f"{mean:.1f}" for mean in np.mean(counts, axis=0))]

    print_table(["traffic", "slow", "sudden", "with types: slow", "traffic changed"], map(row, TRAFFIC))


def _week(random: Random, traffic: Callable[[Random, int], Array], days: float) -> list[int]:
    polled = served(random, traffic(random, round(days * DAY) // MINUTE))
    changes, typed = ([found.change for found in detected(polled, with_types=each)] for each in (False, True))
    return [
        sum(change.kind is DropKind.SLOW for change in changes),
        sum(change.kind is DropKind.SUDDEN for change in changes),
        sum(change.kind is DropKind.SLOW and change.dropped for change in typed),
        sum(change.traffic for change in typed),
    ]


def sink(random: Random, traffic: Callable[[Random, int], Array], day: float) -> float | None:
    """Return after how many hours a sink that begins about ``day`` is found; None if it is not."""
    start = round((day + random.random() * (day >= 1)) * DAY) // MINUTE
    minutes = start + (SINK_SECONDS + AFTER_SINK) // MINUTE
    polled = served(random, traffic(random, minutes), sink_factor(minutes, start))
    delays = [
        found.seconds / HOUR - start * MINUTE / HOUR
        for found in detected(polled)
        if found.change.kind is DropKind.SLOW
    ]
    return next((delay for delay in delays if delay > 0), None)


def tell_sinks(random: Random, number: int, after: float) -> None:
    print(f"\nSinks of 15 % over 3 hours after {after:g} days, of {number} each: how many are found within\n")

    def row(name: str) -> list[str]:
        delays = [sink(each, TRAFFIC[name], after) for each in random.spawn(number)]
        known = [delay for delay in delays if delay is not None]
        return [name, *(str(sum(delay <= hours for delay in known)) for hours in (3, 4, 9))]

    print_table(["traffic", "3 hours", "4 hours", "9 hours"], map(row, TRAFFIC))


def silence(random: Random) -> Polled:
    """Return an n-gram drafter that finds text in 60 % of its steps for 3 hours, then in 3 %.

    The drafts that remain are accepted as before, so their acceptance length does not change.
    """
    before, after = 3 * HOUR // POLL, HOUR // POLL
    covered = np.repeat([0.60, 0.03], [before, after])
    steps = np.full(len(covered), round(DRAFTS_PER_SECOND * POLL))
    drafts = random.binomial(steps, covered)
    survivors = [drafts]
    for _ in range(K):
        survivors.append(random.binomial(survivors[-1], TYPES["easy"]))
    return Polled(drafts, np.stack(survivors[1:], axis=1), {}, steps)


def tell_silent(random: Random, number: int) -> None:
    delays = []
    for each in random.spawn(number):
        begins = (drop.seconds - 3 * HOUR for drop in detected(silence(each)) if drop.change.dropped)
        delays.append(next((delay for delay in begins if delay > 0), None))
    known = [float("inf") if delay is None else delay for delay in delays]
    print(
        f"\nN-gram drafters that fall silent: {number - delays.count(None)} of {number} found within an "
        f"hour, half of them within {median(known):g} s",
        flush=True,
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--weeks", type=int, default=10, help="of each traffic")
    options.add_argument("--days", type=float, default=7.0, help="of a week")
    options.add_argument("--sinks", type=int, default=20, help="of each traffic")
    options.add_argument("--after", type=float, default=2.0, help="days from the exporter to a sink")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    arguments = parsed(options, weeks=1, days=0.1, sinks=1, after=0.1)
    for part in arguments.only:
        random = np.random.default_rng(arguments.seed)
        if part == "weeks":
            tell_weeks(random, arguments.weeks, arguments.days)
        elif part == "sinks":
            tell_sinks(random, arguments.sinks, arguments.after)
        else:
            tell_silent(random, arguments.sinks)


if __name__ == "__main__":
    main()
