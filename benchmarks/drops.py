"""False alarms of the drop detectors in weeks of steady and of changing traffic, and delays of true alarms.

    python -m benchmarks.drops [--only sudden steady silent fresh] [--full] [--days 7]
        [--drops 20] [--starts 24] [--seed 1] [--smoke]

``sudden`` and ``steady``: a fixed number of requests of 50 to 500 tokens run at a time, each with its own
acceptance. The standard deviation of that acceptance makes drops hard to tell from chance. The acceptance
length is 2.1, with three tokens a draft and a poll every second.

``silent``: drafters lose the drafts of all or of many steps. A poll is every 10 s.

``fresh``: a new exporter watches a server that searches for text. Requests differ in the share of steps with
a draft. They stay as they are for an hour, or nothing is found any more after two minutes.

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

from benchmarks.console import parsed, parser, print_table
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.detector import DecodeSteps
from spec_decode_exporter.drops.drops import Drops, DropState, drafts_of
from spec_decode_exporter.drops.sums import Drop, DropKind, Transition
from spec_decode_exporter.window.poll import Counters, Increment

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Random: TypeAlias = np.random.Generator

K = 3
TOKENS = (50, 500)
MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
WEEK_HOURS = 7 * 24

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

_STATE = TypeAdapter(DropState)
_NOTHING = Counters(*[0] * len(Counters._fields))


class Polled(NamedTuple):
    """Counts of each poll."""

    drafts: Array
    positions: Array
    """Accepted tokens, by poll and position."""
    steps: Array | None = None
    """Decode steps, if the method searches for text; None if every step drafts."""
    requests: Array = np.zeros(0, int)
    """Requests that began, with decode steps."""


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
    missed: Array | None = None,
    restarts: frozenset[int] = frozenset(),
    drafts_always: bool = False,
) -> Iterator[Found]:
    """Yield what the detectors report.

    Args:
        polled: Counts of each poll.
        poll_seconds: Seconds from poll to poll.
        missed: Polls that fail; the next one has their counts.
        restarts: Polls at which the exporter continues with what it saved, as JSON, and loses the increment.
        drafts_always: Whether the method should draft in every step; else it searches.
    """
    detector, begin, drafts, survived = Drops(DropPolicy()), 0, 0, [0] * K
    steps = (
        repeat(None)
        if polled.steps is None
        else (
            DecodeSteps(number, not drafts_always, drafts_always, requests)
            for number, requests in zip(polled.steps.tolist(), polled.requests.tolist(), strict=True)
        )
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
            for change in detector.observe(drafts_of(increment), step):
                yield Found(end, change)
        begin, drafts, survived = end, 0, [0] * K


def drops(found: Iterable[Found]) -> list[FoundDrop]:
    """Pair the begins of drops with their ends; one that goes on has no end."""
    ended, going_on = [], {}
    for seconds, change in found:
        if change.transition is Transition.BEGAN:
            going_on[change.kind] = seconds
        else:
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
        counts = (cell.rate, len(weeks), len(sudden), lasting)
        return [f"{cell.spread:.2f}", load, *map(str, counts)]

    heads = ("requests differ by", "load", "drafts a second", "weeks", "sudden", "over 1 min")
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


# Two types of requests, whose shares change: the traffic of ``benchmarks.drifts``


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


def served(random: Random, share: Array) -> Polled:
    """Draw the requests of some minutes; ``share`` is that of easy requests, minute by minute."""
    seconds, polls = len(share) * MINUTE, len(share) * MINUTE // POLL
    mean_drafts = np.mean(np.mean(TOKENS) / (1 + accepted(np.array([*TYPES.values()]))))
    arrivals = np.sort(random.random(round(seconds * DRAFTS_PER_SECOND / mean_drafts)) * seconds)
    minute = (arrivals // MINUTE).astype(int)
    easy = random.random(len(arrivals)) < share[minute]
    centers = np.where(easy, TYPES["easy"], TYPES["hard"])
    acceptance = np.clip(random.normal(centers, TYPE_SPREAD), 0.02, 0.98)
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
    found = detected(polled, POLL, drafts_always=drafts_always)
    return [each for each in found if each.change.transition is Transition.BEGAN]


SILENT = {
    "n-gram: 60 to 3 % of the steps": (0.60, 0.03),
    "n-gram: 30 to 0 % of the steps": (0.30, 0.0),
    "EAGLE: 100 to 50 % of the steps": (1.0, 0.5),
}
"""Drafters that fall silent, and the shares of steps with a draft before and after."""
SERVED_SECONDS = 60
"""Time of a request: a server runs four at a time, each with its own share of steps with a draft."""


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
    return Polled(
        drafts,
        np.stack(survivors(random, drafts, TYPES["easy"]), axis=1),
        steps=steps,
        requests=np.where(np.arange(len(steps)) % (SERVED_SECONDS // POLL), 0, 4),
    )


def print_silent(arguments: Namespace) -> None:
    print(f"\nDrafters that fall silent, {arguments.drops} of each: seconds until that is found\n")

    def row(name: str) -> list[str]:
        before, after = SILENT[name]
        delays = []
        for each in np.random.default_rng(arguments.seed).spawn(arguments.drops):
            found = begun(silence(each, before, after), drafts_always=before == 1)
            delays.append(next((late for drop in found if (late := drop.seconds - 3 * HOUR) > 0), inf))
        return [name, f"{median(delays):g}", f"{max(delays):g}"]

    print_table(["drafter", "half", "all"], map(row, SILENT))


class Search(NamedTuple):
    """A server that searches for text, and its requests, which are alike in length and speed."""

    places: int
    """Requests that run at a time."""
    share: float
    """Mean share of the steps with a draft, and its standard deviation between requests."""
    spread: float
    without: float = 0.0
    """Share of the requests that have no draft in any step."""
    tokens: int = 275
    """Mean tokens of a request; half to one and a half of them are equally likely."""


SEARCHES = {
    "4 at once, 0.9 ± 0.1": Search(4, 0.9, 0.1),
    "4 at once, 0.6 ± 0.2": Search(4, 0.6, 0.2),
    "16 at once, 0.5 ± 0.3": Search(16, 0.5, 0.3),
    "1 at once, 0.9 ± 0.1": Search(1, 0.9, 0.1),
    "4 at once, a fifth without drafts": Search(4, 0.9, 0.1, without=0.2),
    "1 at once, a tenth without drafts": Search(1, 0.9, 0.1, without=0.1),
    "1 at once, 3000 tokens, a fifth without drafts": Search(1, 0.9, 0.1, without=0.2, tokens=3000),
}
STEPS_PER_SECOND = 50
"""Of one request."""
FRESH_SECONDS, SILENT_SHARE = 120, 0.02
"""Time with drafts, and the share of steps with one afterwards."""


def searched(random: Random, search: Search, seconds: int, silent_after: int) -> Polled:
    """Return a server whose text has nothing to find from a second on."""
    counts = np.zeros((2, seconds), int)
    for _ in range(search.places):
        number = STEPS_PER_SECOND * seconds
        requests = number // (search.tokens // 5) + 2
        shares = np.clip(random.normal(search.share, search.spread, requests), 0, 1)
        shares *= random.random(requests) >= search.without
        tokens = random.uniform(0.5, 1.5, requests) * search.tokens
        steps = np.ceil(tokens / (1 + shares * accepted(np.array(TYPES["easy"])))).astype(int)
        steps[0] = np.ceil(steps[0] * random.random())
        covered = np.repeat(shares, steps)[:number].reshape(seconds, STEPS_PER_SECOND)
        covered[silent_after:] = np.minimum(covered[silent_after:], SILENT_SHARE)
        begins = np.cumsum(steps)[:-1] // STEPS_PER_SECOND
        counts[0] += random.binomial(1, covered).sum(axis=1)
        counts[1] += np.bincount(begins[begins < seconds], minlength=seconds)
    positions = np.stack(survivors(random, counts[0], TYPES["easy"]), axis=1)
    every = np.full(seconds, STEPS_PER_SECOND * search.places)
    return Polled(counts[0], positions, every, counts[1])


def print_fresh(arguments: Namespace) -> None:
    number = arguments.starts
    print(f"\nNew exporters beside a search, {number} of each: alarms, and seconds until silence is found\n")

    def row(name: str) -> list[str]:
        alarms, delays = 0, []
        for each in np.random.default_rng(arguments.seed).spawn(number):
            steady = drops(detected(searched(each, SEARCHES[name], HOUR, HOUR), 1))
            alarms += sum(drop.kind is DropKind.DRAFTING for drop in steady)
            polled = searched(each, SEARCHES[name], 10 * MINUTE, FRESH_SECONDS)
            begins = [drop.begin for drop in drops(detected(polled, 1)) if drop.kind is DropKind.DRAFTING]
            delays.append(next((late for begin in begins if (late := begin - FRESH_SECONDS) > 0), inf))
        a_week = alarms / number * WEEK_HOURS
        return [name, f"{a_week:.1f}", f"{median(delays):g}", f"{max(delays):g}"]

    print_table(["requests, steps with a draft", "alarms a week", "half", "all"], map(row, SEARCHES))


PARTS = {
    "sudden": print_sudden,
    "steady": print_steady,
    "silent": print_silent,
    "fresh": print_fresh,
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--full", action="store_true", help="sudden, steady: all cells, some hours")
    options.add_argument("--days", type=float, default=7.0, help="of a week")
    options.add_argument("--drops", type=int, default=20, help="silent: of each drafter")
    options.add_argument("--starts", type=int, default=24, help="fresh: of each server")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parsed(options, days=0.1, drops=1, starts=1)
    for part in arguments.only:
        PARTS[part](arguments)


if __name__ == "__main__":
    main()
