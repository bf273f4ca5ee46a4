"""False alarms of the drop detectors in weeks of steady and of changing traffic, and delays of true alarms.

    python -m benchmarks.drops [--only sudden steady mixes sinks silent] [--full] [--weeks 10] [--days 7]
        [--sinks 20] [--after 2] [--seed 1] [--smoke]

``sudden`` and ``steady``: a fixed number of requests of 50 to 500 tokens run at a time, each with its own
acceptance. The standard deviation of that acceptance makes drops hard to tell from chance. The acceptance
length is 2.1, with three tokens a draft and a poll every second.

``mixes`` and ``sinks``: an easy and a hard type of requests arrive at random at an even rate. The share of
easy ones changes. A sink lowers the length of both types by 15 % over 3 hours, and it stays low for 6 hours.
``silent``: drafters lose the drafts of all or of many steps. A poll is every 10 s.

Drafts are drawn one by one; the exporter's own detectors get the increments.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import product, repeat
from math import inf
from operator import add
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import TypeAdapter

from benchmarks.options import parsed, parser
from benchmarks.table import print_table
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.drops import DecodeSteps, Drops, DropState, drafts_of
from spec_decode_exporter.drops.sums import Drop, DropKind, Transition
from spec_decode_exporter.window.poll import Counters, Increment

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Random: TypeAlias = np.random.Generator

K = 3
TOKENS = (50, 500)
MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
MIDNIGHT = 20_000.0 * DAY

ACCEPTED, DROPPED = 1.1, 0.4
"""Accepted tokens of a draft before and after a sudden drop; the length is one more."""
SPREADS = (0.0, 0.05, 0.11, 0.20)
PLACES = (1, 4, 16)
RATES = (20, 100, 480)
MAX_DRAFTS = 2_000_000
"""Drafts that are drawn at a time, to limit memory."""

TYPES = {"easy": 0.70, "hard": 0.40}
"""Acceptance of a token; the lengths are 2.5 and 1.6."""
TYPE_SPREAD = 0.05
"""Standard deviation of the acceptance of requests of one type."""
DRAFTS_PER_SECOND = 20.0
REQUEST_DRAFTS_PER_SECOND = 5.0
"""Of one request: 4 run at a time on average."""
POLL = 10
SINK = 0.15
SINK_SECONDS, AFTER_SINK = 3 * HOUR, 6 * HOUR

_STATE = TypeAdapter(DropState)
_NOTHING = Counters(*[0] * len(Counters._fields))


class Polled(NamedTuple):
    """Counts of each poll."""

    drafts: Array
    positions: Array
    """Accepted tokens, by poll and position."""
    steps: Array | None = None
    """Decode steps, if the method searches for text; None if every step drafts."""


class Found(NamedTuple):
    """A change that the detectors report."""

    seconds: float
    change: Drop


class FoundDrop(NamedTuple):
    """A drop that was found, and its end."""

    kind: DropKind
    begin: float
    end: float


def detected(
    polled: Polled,
    poll_seconds: int,
    *,
    midnight: float = 0.0,
    missed: Array | None = None,
    restarts: frozenset[int] = frozenset(),
    drafts_always: bool = False,
) -> Iterator[Found]:
    """Yield what the detectors report.

    Args:
        polled: Counts of each poll.
        poll_seconds: Seconds from poll to poll.
        midnight: Unix time of the begin; 0 if no hours of the day are to be compared.
        missed: Polls that fail; the next one has their counts.
        restarts: Polls at which the exporter continues with what it saved, as JSON, and loses the increment.
        drafts_always: Whether the method should draft in every step; else it searches.
    """
    detector, begin, drafts, survived = Drops(DropPolicy()), 0, 0, [0] * K
    steps = (
        repeat(None)
        if polled.steps is None
        else (DecodeSteps(number, not drafts_always, drafts_always) for number in polled.steps.tolist())
    )
    fails = repeat(False) if missed is None else missed.tolist()
    columns = zip(polled.drafts.tolist(), polled.positions.tolist(), steps, fails, strict=False)
    for poll, (number, positions, step, fail) in enumerate(columns):
        drafts, survived = drafts + number, list(map(add, survived, positions))
        if fail:
            continue
        end = (poll + 1) * poll_seconds
        if poll in restarts:
            saved = _STATE.validate_json(_STATE.dump_json(detector.state, exclude_defaults=True))
            detector = Drops(DropPolicy())
            detector.restore(saved)
        else:
            counters = _NOTHING._replace(drafts=drafts, accepted_tokens=sum(survived))
            increment = Increment(begin, end, counters, tuple(survived))
            wall = midnight and midnight + end
            for change in detector.observe(drafts_of(increment, wall), step):
                yield Found(end, change)
        begin, drafts, survived = end, 0, [0] * K


def drops(found: Iterable[Found]) -> list[FoundDrop]:
    """Pair the begins of drops with their ends; one that goes on has no end."""
    ended, going_on = [], {}
    for seconds, change in found:
        if change.transition is Transition.BEGAN:
            going_on[change.kind] = seconds
        elif change.transition is not Transition.EXPECTED:
            ended.append(FoundDrop(change.kind, going_on.pop(change.kind), seconds))
    return ended + [FoundDrop(kind, begin, inf) for kind, begin in going_on.items()]


def accepted(acceptance: Array) -> Array:
    """Return how many tokens of a draft are accepted on average, p + p² + … + p^K."""
    powers: Array = sum(acceptance**position for position in range(1, K + 1))
    return powers


# A fixed number of requests at a time


class Cell(NamedTuple):
    """A server: how requests differ, how many run at once, and how much it drafts."""

    spread: float
    places: int
    rate: int


def servers(arguments: Namespace) -> list[tuple[float, int]]:
    """Return how requests differ, and the drafts a second."""
    found = list(product(SPREADS, RATES if arguments.full else RATES[:1]))
    return found[-1:] if arguments.smoke else found


def draw(random: Random, center: float, spread: float, number: int) -> tuple[Array, Array]:
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


def counted(random: Random, cell: Cell, factor: Array, busy: Array | None = None) -> Polled:
    """Draw what each second brings.

    ``factor`` is what acceptance is multiplied by, second by second; ``busy`` how many requests are running.
    """
    polled = Polled(np.zeros(len(factor), int), np.zeros((len(factor), K), int))
    for place in range(cell.places):
        used = np.ones(len(factor)) if busy is None else busy > place
        until = np.floor(np.cumsum(used * (cell.rate / cell.places)) + random.random()).astype(int)
        number = int(until[-1] / np.mean(TOKENS) * (1 + ACCEPTED) * 1.2) + 50
        acceptance, drafts = draw(random, center(cell.spread, ACCEPTED), cell.spread, number)
        drafts[0] = np.ceil(drafts[0] * random.random())
        _decode(random, (acceptance, drafts), until, factor, polled)
    return polled


def _decode(
    random: Random, requests: tuple[Array, Array], until: Array, factor: Array, polled: Polled
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
        polled.drafts[seconds] += each
        for position in range(K):
            sums = np.concatenate([[0], np.cumsum(survived >= position + 1)])
            polled.positions[seconds, position] += np.diff(sums[np.cumsum(each)], prepend=0)


def steady(random: Random, cell: Cell, week: int) -> list[FoundDrop]:
    return drops(detected(counted(random, cell, np.ones(week)), 1))


def changing(random: Random, cell: Cell, week: int) -> list[FoundDrop]:
    """Return the drops of changing load, lulls of minutes to an hour, failed polls and restarts."""
    busy = np.zeros(week, int)
    second = 0
    while second < week:
        length = int(random.integers(5 * MINUTE, HOUR))
        busy[second : second + length] = random.choice([0, 1, 2, 4, 8, 16], p=[0.2, *[0.16] * 5])
        second += length
    polled = counted(random, cell, np.ones(week), busy)
    missed = random.random(week) < 0.02
    for outage in random.integers(0, week, 20):
        missed[outage : outage + random.integers(10, 300)] = True
    restarts = frozenset(int(moment) for moment in random.integers(0, week, 14))
    missed[list(restarts)] = False
    return drops(detected(polled, 1, missed=missed, restarts=restarts))


def fall(random: Random, cell: Cell) -> float:
    """Let a length of 2.1 fall to 1.4 after three hours; return the seconds until that is found."""
    before = 3 * HOUR
    part = center(cell.spread, DROPPED) / center(cell.spread, ACCEPTED)
    polled = counted(random, cell, np.repeat([1.0, part], [before, 15 * MINUTE]))
    begins = [each.begin for each in drops(detected(polled, 1)) if each.kind is DropKind.SUDDEN]
    return next((begin - before for begin in sorted(begins) if begin > before), inf)


def randoms(seed: int, cell: Cell, number: int) -> Iterator[Random]:
    sequence = np.random.SeedSequence([seed, round(100 * cell.spread), cell.places, cell.rate])
    return (np.random.default_rng(each) for each in sequence.spawn(number))


def print_steady(arguments: Namespace) -> None:
    print("\nFalse alarms in simulated weeks\n")
    number, week = 2 if arguments.full else 1, round(arguments.days * DAY)
    loads = (*((f"{places} at once", places, steady, 0) for places in PLACES), ("changing", 16, changing, 1))

    def row(cell: Cell, load: str, weeks: list[list[FoundDrop]]) -> list[str]:
        found = [each for week in weeks for each in week]
        sudden = [each for each in found if each.kind is DropKind.SUDDEN]
        lasting = sum(each.end - each.begin > MINUTE for each in sudden)
        counts = (cell.rate, len(weeks), len(sudden), lasting, len(found) - len(sudden))
        return [f"{cell.spread:.2f}", load, *map(str, counts)]

    heads = ("requests differ by", "load", "drafts a second", "weeks", "sudden", "over 1 min", "slow")
    rows = (
        row(cell, load, [lived(each, cell, week) for each in randoms(arguments.seed + later, cell, number)])
        for spread, rate in servers(arguments)
        for load, places, lived, later in loads
        for cell in [Cell(spread, places, rate)]
    )
    print_table(heads, rows)


def print_sudden(arguments: Namespace) -> None:
    print("\nSeconds until a fall from 2.1 to 1.4 is found\n")
    number = 1 if arguments.smoke else 20 if arguments.full else 10

    def row(cell: Cell) -> list[str]:
        delays = sorted(fall(each, cell) for each in randoms(arguments.seed, cell, number))
        half, most = delays[number // 2], delays[-(-9 * number // 10) - 1]
        head = [f"{cell.spread:.2f}", str(cell.rate), str(cell.places)]
        return [*head, f"{half:.0f}", f"{most:.0f}", f"{delays.count(inf)} of {number}"]

    heads = ("requests differ by", "drafts a second", "at once", "half", "nine of ten", "not found")
    cells = (Cell(spread, places, rate) for spread, rate in servers(arguments) for places in PLACES)
    print_table(heads, map(row, cells))


# Two types of requests, whose shares change


def flat(_random: Random, minutes: int) -> Array:
    return np.full(minutes, 0.5)


def daily(random: Random, minutes: int) -> Array:
    phase = random.random()
    share: Array = 0.5 + 0.15 * np.sin(2 * np.pi * (np.arange(minutes) * MINUTE / DAY + phase))
    return share


def regimes(random: Random, minutes: int) -> Array:
    shares: Array = np.repeat(random.choice([0.35, 0.65], minutes // 20 + 2), 20)
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


def ramps(random: Random, minutes: int) -> Array:
    """Return shares that rise or fall for one to six hours at a time."""
    moments = np.cumsum(random.integers(60, 360, minutes // 60 + 2))
    shares: Array = np.interp(np.arange(minutes), moments, random.uniform(0.35, 0.65, len(moments)))
    return shares


def tenants(random: Random, minutes: int) -> Array:
    """Return the share of five tenants: each has its own, and is busy for half an hour to four, or by day."""
    busy, easy = [], random.uniform(0.1, 0.9, 5)
    for tenant in range(5):
        sessions = np.repeat(random.choice([0.1, 1.9], minutes // 30 + 8), random.integers(30, 240))
        day = 1 + 0.9 * np.sin(2 * np.pi * (np.arange(minutes) * MINUTE / DAY + random.random()))
        busy.append((sessions[:minutes] if tenant % 2 else day) * random.uniform(0.3, 2))
    shares: Array = easy @ np.array(busy) / np.sum(busy, axis=0)
    return shares


def jobs(random: Random, minutes: int) -> Array:
    """Return a share that a batch job of hard requests lowers each day at its hour, within 20 minutes."""
    shares = np.full(minutes, 0.65)
    hour, length = float(random.uniform(1, 23)), int(random.integers(40, 150))
    for midnight in range(0, minutes, DAY // MINUTE):
        begin = midnight + round(hour * 60 + random.normal(0, 10))
        shares[max(begin, 0) : max(begin + round(length * random.uniform(0.8, 1.2)), 0)] = 0.05
    return shares


TRAFFIC: Mapping[str, Callable[[Random, int], Array]] = {
    "flat": flat,
    "daily mix ± 15 points": daily,
    "regimes of 20 minutes": regimes,
    "weekdays and weekend": weekend,
    "random walk": walk,
    "ramps": ramps,
    "five tenants": tenants,
    "batch jobs at their hour": jobs,
}
_GRID: Array = np.linspace(0.001, 0.99, 2000)


def lowered(acceptance: Array, factor: Array) -> Array:
    """Return the acceptance at which the length is ``factor`` of that at ``acceptance``."""
    lengths = np.maximum(factor * (1 + accepted(acceptance)), 1.001)
    inverse: Array = np.interp(lengths - 1, accepted(_GRID), _GRID)
    return inverse


def served(random: Random, share: Array, factor: Array | None = None) -> Polled:
    """Draw the requests of some minutes.

    ``share`` is that of easy requests and ``factor`` that of the normal length, minute by minute.
    """
    seconds, polls = len(share) * MINUTE, len(share) * MINUTE // POLL
    mean_drafts = np.mean(np.mean(TOKENS) / (1 + accepted(np.array([*TYPES.values()]))))
    arrivals = np.sort(random.random(round(seconds * DRAFTS_PER_SECOND / mean_drafts)) * seconds)
    minute = (arrivals // MINUTE).astype(int)
    easy = random.random(len(arrivals)) < share[minute]
    centers = np.where(easy, TYPES["easy"], TYPES["hard"])
    acceptance = np.clip(random.normal(centers, TYPE_SPREAD), 0.02, 0.98)
    if factor is not None:
        acceptance = lowered(acceptance, factor[minute])
    tokens = random.integers(TOKENS[0], TOKENS[1] + 1, len(arrivals))
    drafts = np.ceil(tokens / (1 + accepted(acceptance))).astype(int)
    positions = survivors(random, drafts, acceptance)
    duration = drafts / REQUEST_DRAFTS_PER_SECOND
    counts = [_by_poll(arrivals, duration, each, polls) for each in (drafts, *positions)]
    return Polled(counts[0], np.stack(counts[1:], axis=1))


def survivors(random: Random, drafts: Array, acceptance: Array | float) -> list[Array]:
    """Draw how many drafts are accepted up to each position."""
    found = [drafts]
    for _ in range(K):
        found.append(random.binomial(found[-1], acceptance))
    return found[1:]


def _by_poll(begin: Array, duration: Array, amount: Array, polls: int) -> Array:
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


def begun(polled: Polled, *, drafts_always: bool = False) -> list[Found]:
    """Return the begins of drops."""
    found = detected(polled, POLL, midnight=MIDNIGHT, drafts_always=drafts_always)
    return [each for each in found if each.change.transition is Transition.BEGAN]


def print_mixes(arguments: Namespace) -> None:
    number, minutes = arguments.weeks, round(arguments.days * DAY) // MINUTE
    random = np.random.default_rng(arguments.seed)
    print(f"\nAlarms a week, of {number} weeks that each begin with a new exporter\n")

    def counts(own: Random, traffic: Callable[[Random, int], Array]) -> list[int]:
        kinds = [found.change.kind for found in begun(served(own, traffic(own, minutes)))]
        return [kinds.count(DropKind.SLOW), kinds.count(DropKind.SUDDEN)]

    def row(name: str) -> list[str]:
        weeks = [counts(each, TRAFFIC[name]) for each in random.spawn(number)]
        return [name, *(f"{mean:.1f}" for mean in np.mean(weeks, axis=0))]

    print_table(["traffic", "slow", "sudden"], map(row, TRAFFIC))


def sink(random: Random, traffic: Callable[[Random, int], Array], day: float) -> float:
    """Return after how many hours a sink that begins about ``day`` is found."""
    start = round((day + random.random() * (day >= 1)) * DAY) // MINUTE
    minutes = start + (SINK_SECONDS + AFTER_SINK) // MINUTE
    factor = np.interp(np.arange(minutes), [start, start + SINK_SECONDS // MINUTE], [1, 1 - SINK])
    found = begun(served(random, traffic(random, minutes), factor))
    delays = [each.seconds / HOUR - start / 60 for each in found if each.change.kind is DropKind.SLOW]
    return next((delay for delay in delays if delay > 0), inf)


def print_sinks(arguments: Namespace) -> None:
    number, after, random = arguments.sinks, arguments.after, np.random.default_rng(arguments.seed)
    print(f"\nSinks of 15 % over 3 hours after {after:g} days, of {number} each: how many are found within\n")

    def row(name: str) -> list[str]:
        delays = [sink(each, TRAFFIC[name], after) for each in random.spawn(number)]
        return [name, *(str(sum(delay <= hours for delay in delays)) for hours in (3, 4, 9))]

    print_table(["traffic", "3 hours", "4 hours", "9 hours"], map(row, TRAFFIC))


SILENT = {
    "n-gram: 60 to 3 % of the steps": (0.60, 0.03),
    "n-gram: 30 to 0 % of the steps": (0.30, 0.0),
    "EAGLE: 100 to 50 % of the steps": (1.0, 0.5),
}
"""Drafters that fall silent, and the shares of steps with a draft before and after."""
SERVED_SECONDS = 60
"""Time of a request: a server runs four at a time, each with its own share of steps with a draft."""
UNTIL_SILENCE_IS_FOUND = 200


def silence(random: Random, before: float, after: float) -> Polled:
    """Return a drafter whose share of steps with a draft falls after 3 hours.

    The drafts that remain are accepted as before, so their acceptance length does not change.
    """
    minutes = np.repeat([before, after], [3 * HOUR // SERVED_SECONDS, HOUR // SERVED_SECONDS])
    spread = 0.5 * np.minimum(minutes, 1 - minutes)
    shares = np.clip(random.normal(minutes, spread, (4, len(minutes))), 0, 1).mean(axis=0)
    covered = np.repeat(shares, SERVED_SECONDS // POLL)
    steps = np.full(len(covered), round(DRAFTS_PER_SECOND * POLL))
    drafts = random.binomial(steps, covered)
    return Polled(drafts, np.stack(survivors(random, drafts, TYPES["easy"]), axis=1), steps=steps)


def print_silent(arguments: Namespace) -> None:
    print(f"\nDrafters that fall silent, {arguments.sinks} of each: seconds until that is found\n")

    def row(name: str) -> list[str]:
        before, after = SILENT[name]
        delays = []
        for each in np.random.default_rng(arguments.seed).spawn(arguments.sinks):
            found = begun(silence(each, before, after), drafts_always=before == 1)
            delays.append(next((late for drop in found if (late := drop.seconds - 3 * HOUR) > 0), inf))
        late = sum(delay > UNTIL_SILENCE_IS_FOUND for delay in delays)
        return [name, f"{median(delays):g}", f"{max(delays):g}", str(late)]

    print_table(["drafter", "half", "all", f"after {UNTIL_SILENCE_IS_FOUND} s"], map(row, SILENT))


PARTS = {
    "sudden": print_sudden,
    "steady": print_steady,
    "mixes": print_mixes,
    "sinks": print_sinks,
    "silent": print_silent,
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--full", action="store_true", help="sudden, steady: all cells, some hours")
    options.add_argument("--weeks", type=int, default=10, help="of each traffic")
    options.add_argument("--days", type=float, default=7.0, help="of a week")
    options.add_argument("--sinks", type=int, default=20, help="of each traffic")
    options.add_argument("--after", type=float, default=2.0, help="days from the exporter to a sink")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parsed(options, weeks=1, days=0.1, sinks=1, after=0.1)
    for part in arguments.only:
        PARTS[part](arguments)


if __name__ == "__main__":
    main()
