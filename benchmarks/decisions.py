"""Changes an hour of what is shown on steady traffic, and the time until a collapse of acceptance is shown.

    python -m benchmarks.decisions [--only steady collapse] [--kinds NAME ...] [--hours 2] [--servers 2]
        [--seed 1] [--smoke]

``steady``: verdict, number of tokens and printed setting, counted after the first ten minutes. Each kind of
traffic stays what it is for hours, however much it varies within minutes. ``collapse``: the acceptance of all
requests falls so far that drafting is slower than none: of new requests alone, or of all at once.

All requests of a server step together, and each has its own acceptance and length. The exporter's own monitor
gets the counters once a second. The cost is configured by load, or (half of the steady servers) typical.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, log
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.options import end, parsed, parser
from benchmarks.table import print_table
from benchmarks.truth.feed import FedEngine
from benchmarks.truth.traffic import Counts
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import PAYING, Action
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Random: TypeAlias = np.random.Generator

WARM_UP = 600
"""Seconds that are not counted: the first verdict and the first setting come in them."""
MOST_CHANGES = 3.0
"""Goal: changes an hour."""
UNTIL_LEFT, UNTIL_FINAL = 15, 90
"""Goals: seconds until "pays" is left, and until the final advice is shown."""
DECAY = 0.97
"""Acceptance of a position over that of the one before."""
PACE = 3
"""Seconds between two evaluations, as of 200 engines."""
SLICES = 2
"""Of a second, in which requests begin and end."""
LOADS = (1, 4, 16, 64, 256)


class Requests(NamedTuple):
    """Requests that arrive together."""

    acceptance: Array
    """Of the first position, by request."""
    tokens: Array
    coverage: Array

    @classmethod
    def of(
        cls,
        random: Random,
        number: int,
        acceptance: float,
        *,
        spread: float = 0.08,
        tokens: tuple[float, float] = (50, 500),
        coverage: tuple[float, float] = (1.0, 0.0),
    ) -> Requests:
        """Draw requests; the logarithm of the tokens is uniform, and coverage has a mean and a spread."""
        lengths = np.exp(random.uniform(log(tokens[0]), log(tokens[1]), number))
        covered = np.clip(random.normal(*coverage, number), 0.02, 1.0)
        return cls(np.clip(random.normal(acceptance, spread, number), 0.01, 0.97), lengths, covered)

    def and_(self, *others: Requests) -> Requests:
        """Return these requests and others."""
        return Requests(*map(np.concatenate, zip(self, *others, strict=True)))


Arrivals: TypeAlias = Callable[[int, int], Requests]
"""Returns the requests that arrive in a second, by the second and the number of running requests."""


@dataclass
class Server:
    """A server with its traffic."""

    random: Random
    arrivals: Arrivals
    tokens: int = 3
    """K."""
    cost: float = 0.12
    """Cost of a draft token at a load of 1; with 64 requests it is twice as much."""
    method: str = "eagle3"
    schedule: BatchSchedule = NO_SCHEDULE
    has_known_cost: bool = True
    plain_seconds: float = 0.02
    """Step without drafts at a load of 0; 100 requests double it."""
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.counts.positions = [0] * self.tokens
        self._running = Requests(*(np.zeros(0) for _ in range(3)))
        self._carry = 0.0

    @property
    def assumptions(self) -> Assumptions:
        """Knowledge that the exporter has of the server."""
        loads = tuple(LoadCost(running_requests=load, draft_cost_ratio=self.cost_at(load)) for load in LOADS)
        speculation = Speculation(method=self.method, tokens=self.tokens, schedule=self.schedule)
        return Assumptions(speculation, CostSettings(loads=loads) if self.has_known_cost else None)

    def cost_at(self, running: float) -> float:
        """Return the cost of a draft token in plain steps."""
        return self.cost * (1 + running / 64)

    def seconds(self, first: int, number: int) -> Iterator[Counts]:
        """Serve for some seconds; yield the counters after each."""
        for second in range(first, first + number):
            arriving, slices = self.arrivals(second, len(self._running.tokens)), SLICES
            cuts = np.sort(self.random.integers(0, slices, len(arriving.tokens)))
            for place in range(slices):
                self._serve(Requests(*(each[cuts == place] for each in arriving)), 1 / slices)
            self.counts.running_requests = len(self._running.tokens)
            yield self.counts.copy()

    def replace_acceptance(self, acceptance: float) -> None:
        """Let the running requests have another acceptance."""
        self._running = self._running._replace(acceptance=0 * self._running.tokens + acceptance)

    def _serve(self, arriving: Requests, seconds: float) -> None:
        counts, random = self.counts, self.random
        counts.first_tokens += len(arriving.tokens)
        counts.generation_tokens += len(arriving.tokens)
        self._running = running = self._running.and_(arriving)
        number = len(running.tokens)
        if not number:
            return
        drafted = self.schedule.at(number) if self.schedule else self.tokens
        plain = self.plain_seconds * (1 + number / 100) * random.normal(1, 0.02)
        share = drafted * running.coverage.mean() if drafted else 0.0
        step = plain * (1 + self.cost_at(number) * share)
        possible = seconds / step + self._carry
        self._carry = possible % 1
        steps = np.full(number, int(possible))
        drafts = random.binomial(steps, running.coverage) if drafted else 0 * steps
        left, accepted = drafts, 0 * steps
        for position in range(drafted or 0):
            left = random.binomial(left, running.acceptance * DECAY**position)
            counts.positions[position] += int(left.sum())
            accepted += left
        given = np.minimum(steps + accepted, np.ceil(running.tokens))
        counts.drafts += int(drafts.sum())
        counts.draft_tokens += int(drafts.sum()) * (drafted or 0)
        counts.accepted_tokens += int(accepted.sum())
        counts.generation_tokens += int(given.sum())
        counts.decode_steps += int(steps.sum())
        counts.decode_nanoseconds += round(steps.sum() * step * 1e9)
        tokens = running.tokens - steps - accepted
        counts.finished_requests += int((tokens <= 0).sum())
        self._running = Requests(running.acceptance, tokens, running.coverage)
        self._running = Requests(*(each[tokens > 0] for each in self._running))


def length(acceptance: float, tokens: int = 3) -> float:
    """Return the acceptance length of a first position's acceptance."""
    survived, total = 1.0, 1.0
    for position in range(tokens):
        survived *= acceptance * DECAY**position
        total += survived
    return total


def acceptance_of(wanted: float, tokens: int = 3) -> float:
    """Return the acceptance with this length."""
    grid = np.linspace(0.01, 0.97, 400)
    return float(np.interp(wanted, [length(each, tokens) for each in grid], grid))


# Kinds of steady traffic


def places(random: Random, number: int, acceptance: float, **more: Any) -> Arrivals:
    """Return a closed loop: a request begins as soon as one ends."""
    return lambda _second, running: Requests.of(random, max(0, number - running), acceptance, **more)


def near_border(random: Random) -> Server:
    border = float(random.choice([1.0, 1.1, 1.3, 2.0])) * random.uniform(0.97, 1.03)
    cost, running = random.uniform(0.05, 0.2), int(random.integers(8, 40))
    wanted = border * (1 + 3 * cost * (1 + running / 64))
    return Server(random, places(random, running, acceptance_of(wanted)), cost=cost)


def heavy_tails(random: Random) -> Server:
    acceptance = random.uniform(0.4, 0.75)

    def arrivals(_second: int, running: int) -> Requests:
        new = Requests.of(random, max(0, 16 - running), acceptance, spread=0.15)
        return new._replace(tokens=np.minimum(40 * (1 + random.pareto(1.2, len(new.tokens))), 30_000))

    return Server(random, arrivals)


def tenants(random: Random) -> Server:
    """Return two tenants: each is on for minutes, then off."""
    acceptances, until, on = random.uniform([0.3, 0.6], [0.5, 0.8]), np.zeros(2), np.ones(2)
    rates = random.uniform(0.5, 3, 2)

    def arrivals(second: int, _running: int) -> Requests:
        for tenant in range(2):
            if second >= until[tenant]:
                until[tenant], on[tenant] = second + random.exponential(240), random.choice([0.2, 1.0])
        each = [
            Requests.of(random, random.poisson(rates[one] * on[one]), acceptances[one]) for one in range(2)
        ]
        return each[0].and_(each[1])

    return Server(random, arrivals)


def alternating(random: Random) -> Server:
    """Return minutes with 8 requests, and minutes with 90."""
    acceptance = random.uniform(0.45, 0.7)

    def arrivals(second: int, running: int) -> Requests:
        wanted = 8 if second // 60 % 2 else 90
        return Requests.of(random, max(0, wanted - running), acceptance, tokens=(30, 200))

    return Server(random, arrivals, cost=random.uniform(0.05, 0.2))


def easy_and_hard(random: Random) -> Server:
    """Return minutes of easy and minutes of hard requests."""

    def arrivals(second: int, running: int) -> Requests:
        acceptance = 0.7 if second // 60 % 2 else 0.4
        return Requests.of(random, max(0, 20 - running), acceptance, tokens=(30, 200))

    return Server(random, arrivals, cost=random.uniform(0.05, 0.3))


def bursts(random: Random) -> Server:
    acceptance, size = random.uniform(0.4, 0.75), int(random.integers(30, 100))

    def arrivals(second: int, _running: int) -> Requests:
        number = size if second % 60 == 0 else random.poisson(0.5)
        return Requests.of(random, number, acceptance, spread=0.12)

    return Server(random, arrivals)


def ngram(random: Random) -> Server:
    coverage = random.uniform(0.2, 0.6), 0.2
    arrivals = places(random, 12, 0.65, coverage=coverage)
    return Server(random, arrivals, method="ngram", cost=random.uniform(0.05, 0.15))


def schedule(random: Random) -> Server:
    """Return a load about the threshold above which a schedule drafts nothing."""
    threshold, acceptance = int(random.integers(16, 40)), random.uniform(0.4, 0.7)
    rate = threshold * random.uniform(0.8, 1.2) / 2.6

    def arrivals(_second: int, _running: int) -> Requests:
        return Requests.of(random, random.poisson(rate), acceptance)

    return Server(random, arrivals, schedule=BatchSchedule((1, threshold), (3, 0)))


def low_load(random: Random) -> Server:
    acceptance, rate = random.uniform(0.4, 0.75), random.uniform(0.1, 0.4)

    def arrivals(_second: int, _running: int) -> Requests:
        return Requests.of(random, random.poisson(rate), acceptance, spread=0.12)

    return Server(random, arrivals)


def agents(random: Random) -> Server:
    """Return long answers of agents among those of chats."""
    chat, agent = random.uniform(0.4, 0.6), random.uniform(0.6, 0.8)

    def arrivals(_second: int, _running: int) -> Requests:
        chats = Requests.of(random, random.poisson(1.5), chat)
        return chats.and_(Requests.of(random, random.poisson(0.03), agent, tokens=(3000, 12_000)))

    return Server(random, arrivals)


def ramps(random: Random) -> Server:
    """Return a load that rises from 4 to 60 requests and falls again in 40 minutes."""
    acceptance = random.uniform(0.4, 0.7)

    def arrivals(second: int, running: int) -> Requests:
        wanted = round(4 + 56 * abs(second % 2400 / 1200 - 1))
        return Requests.of(random, max(0, wanted - running), acceptance)

    return Server(random, arrivals, cost=random.uniform(0.05, 0.2))


def depths(random: Random) -> Server:
    """Return a server for which two numbers of draft tokens are about as fast."""
    return Server(random, places(random, 16, random.uniform(0.3, 0.6)), tokens=int(random.integers(4, 7)))


def waves(random: Random) -> Server:
    """Return requests whose acceptance changes within half an hour, around the border of a verdict."""
    wanted = 1.36 * float(random.choice([1.1, 1.3]))

    def arrivals(second: int, running: int) -> Requests:
        acceptance = acceptance_of(wanted * (1 + 0.05 * np.sin(2 * np.pi * second / 1800)))
        return Requests.of(random, max(0, 16 - running), acceptance, tokens=(30, 300))

    return Server(random, arrivals, cost=0.12 / 1.25)


KINDS: Mapping[str, Callable[[Random], Server]] = {
    "near a border of verdict": near_border,
    "heavy tails": heavy_tails,
    "two tenants": tenants,
    "minutes of 8 and of 90 requests": alternating,
    "minutes of easy and of hard requests": easy_and_hard,
    "bursts": bursts,
    "n-gram coverage": ngram,
    "load about a schedule's threshold": schedule,
    "low load": low_load,
    "long agents among chats": agents,
    "ramps of load": ramps,
    "two numbers of tokens about as fast": depths,
    "waves of acceptance": waves,
}


# Changes an hour


class Shown(NamedTuple):
    """What a reader sees."""

    verdict: str
    tokens: int | None
    setting: tuple[object, ...]
    action: str

    @classmethod
    def of(cls, evaluation: Evaluation) -> Shown:
        """Return what an evaluation shows."""
        setting, advice = evaluation.setting, evaluation.decision.advice
        action = str(advice.action.value)
        return cls(str(evaluation.verdict.value), advice.tokens, (setting.tokens, setting.schedule), action)


def watched(
    server: Server, engine: FedEngine, first: int, number: int, pace: int = 1
) -> Iterator[Evaluation]:
    """Serve some seconds; evaluate each ``pace`` of them, or what is urgent."""
    for second, counts in enumerate(server.seconds(first, number)):
        engine.poll([counts])
        if second % pace == 0 or engine.monitor.is_urgent:
            yield engine.snapshot().evaluation


def changes(server: Server, seconds: int) -> list[float]:
    """Return the changes an hour of verdict, number of tokens and setting."""
    engine, warm_up = FedEngine(server.assumptions), min(WARM_UP, seconds // 2)
    for _ in watched(server, engine, 0, warm_up, PACE):
        pass
    counted = [Shown.of(each) for each in watched(server, engine, warm_up, seconds - warm_up, PACE)]
    columns = list(zip(*counted, strict=True))
    return [
        3600 / (seconds - warm_up) * sum(one != other for one, other in pairwise(column))
        for column in columns[:3]
    ]


def print_steady(arguments: Namespace) -> list[str]:
    print(f"\nChanges an hour, mean (most) of {2 * arguments.servers} servers\n")
    missed, seconds = [], round(3600 * arguments.hours) + WARM_UP

    def row(name: str) -> list[str]:
        kind = list(KINDS).index(name)
        servers = [
            KINDS[name](np.random.default_rng([arguments.seed, kind, number]))
            for number in range(2 * arguments.servers)
        ]
        for number, server in enumerate(servers):
            server.has_known_cost = number % 2 == 0
        found = np.array([changes(server, seconds) for server in servers])
        worst = found.mean(axis=0).max()
        missed.extend([f"{name}: {worst:.1f} changes an hour"] if worst > MOST_CHANGES else [])
        columns = zip(found.mean(axis=0), found.max(axis=0), strict=True)
        return [name, *(f"{mean:.1f} ({most:.1f})" for mean, most in columns)]

    print_table(("traffic", "verdict", "number of tokens", "setting"), map(row, arguments.kinds or KINDS))
    return missed


# Collapse


class Collapse(NamedTuple):
    """Seconds after a collapse."""

    left: float
    """Until no verdict says "pays" any more."""
    final: float
    """Until the advice is the one that stays."""
    contradictions: float
    """Seconds with "pays" while a drop is flagged and the shortest window excludes it."""


def collapsed(random: Random, rate: float, running: int, *, at_once: bool) -> Collapse:
    """Let the acceptance length fall from 2.2 to 1.15 after 20 minutes."""
    easy, hard = acceptance_of(2.2), acceptance_of(1.15)
    falls_at, after = 1200, 600
    mean = running / rate / (0.02 * (1 + running / 100) * (1 + 0.36 * (1 + running / 64))) * 2.2
    tokens = mean * 0.4, mean * 2.0

    def arrivals(second: int, now_running: int) -> Requests:
        number = int(random.poisson(rate)) if now_running < 2 * running else 0
        number = max(number, (running - now_running) if second < 5 else 0)
        return Requests.of(random, number, easy if second < falls_at else hard, spread=0.05, tokens=tokens)

    server = Server(random, arrivals)
    engine = FedEngine(server.assumptions)
    for counts in server.seconds(0, falls_at):
        engine.poll([counts])
        engine.snapshot()
    if at_once:
        server.replace_acceptance(hard)
    pays, advice, wrong = [], [], 0
    for evaluation in watched(server, engine, falls_at, after):
        shown = Shown.of(evaluation)
        pays.append(evaluation.verdict in PAYING)
        advice.append((shown.action, shown.tokens))
        dropped = bool(engine.monitor.learned.drops.status().live)
        wrong += pays[-1] and dropped and evaluation.is_excluded
    left = next((second for second, said in enumerate(pays) if not said), inf)
    same = next(second for second in range(after, 0, -1) if advice[second - 1] != advice[-1] or second == 1)
    is_final = advice[-1][0] != Action.COLLECT
    return Collapse(left + 1, (same + 1) if is_final else inf, wrong)


def print_collapse(arguments: Namespace) -> list[str]:
    cases = ((0.5, 5), (0.5, 20), (1, 10), (2, 16), (5, 60)) if not arguments.smoke else ((2, 8),)
    missed = []
    print('\nSeconds from a collapse of acceptance until "pays" is left, and until the final advice: most\n')

    def row(case: tuple[float, int, bool]) -> list[str]:
        rate, running, at_once = case
        key = [arguments.seed, round(10 * rate), running, at_once]
        found = [
            collapsed(np.random.default_rng([*key, number]), rate, running, at_once=at_once)
            for number in range(arguments.servers)
        ]
        worst = Collapse(*(max(column) for column in zip(*found, strict=True)))
        name = f"{rate:g} requests a second, {running} running, {'at once' if at_once else 'new requests'}"
        goals = (UNTIL_LEFT, UNTIL_FINAL, 0)
        if at_once and any(value > goal for value, goal in zip(worst, goals, strict=True)):
            missed.append(name)
        return [name, *(f"{value:g}" for value in worst)]

    print_table(
        ("traffic", "left", "final advice", "contradictions"),
        map(row, [(*case, at_once) for at_once in (False, True) for case in cases]),
    )
    return missed


PARTS: Mapping[str, Callable[[Namespace], Sequence[str]]] = {
    "steady": print_steady,
    "collapse": print_collapse,
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--kinds", nargs="+", choices=KINDS)
    options.add_argument("--hours", type=float, default=2.0)
    options.add_argument("--servers", type=int, default=2, help="of each kind, with a known and typical cost")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, hours=0.02, servers=1, kinds=["bursts"])
    end(arguments, [goal for part in arguments.only for goal in PARTS[part](arguments)])


if __name__ == "__main__":
    main()
