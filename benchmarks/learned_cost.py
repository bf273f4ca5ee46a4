"""Measured cost of a draft token, compared with the truth of an engine that runs step by step.

    python -m benchmarks.learned_cost [--trials 2] [--seed 1] [--smoke]

``benchmarks/truth/engine.py`` is the engine; the exporter's own code learns from its counters. The truth is
κ, the time of a step that drafts over that of a plain step with the same batch and contexts, without prompts
and noise. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import exp, inf, log, sin, sqrt
from random import Random
from statistics import mean, median
from typing import Final, NamedTuple

from benchmarks.console import end, parsed, parser, percent, print_table
from benchmarks.truth.cells import cells
from benchmarks.truth.engine import BUDGET, Engine, Requests, Rows, near
from benchmarks.truth.feed import START, WALL, sample
from benchmarks.truth.server import Server
from benchmarks.truth.sharp_server import SharpServer
from benchmarks.truth.traffic import Counts
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.costs.learned import DraftingMethod, Learned
from spec_decode_exporter.window.engine_windows import History

K: Final = -1
"""In a schedule: the K of the server."""
PLAIN_SECONDS: Final = 600
REPLICA_ERROR: Final = 0.015
"""Standard deviation of step times between replicas. Assumed."""
MIN_KNOWN, MIN_INSIDE, MAX_FALSE = 0.90, 0.90, 0.02
MAX_ERROR, MAX_MOST = 0.03, 0.10
"""Error of κ: the median and 90 %."""
EARLY_SECONDS: Final = 600
LOSSES, GAINS = (0.8, 0.95), (1.05, 1.3)
"""Speed-ups for which the bounds of κ alone decide whether drafting pays."""


class Cell(NamedTuple):
    """Traffic of a kind; the server and the lengths of its requests are drawn."""

    kind: str
    rows: Rows
    load: float
    spread: float = 0.35
    """Of the logarithm of the load; 0: it alternates between two levels."""
    pattern: str = ""
    """``bursts``, ``on and off`` or ``waves`` of the load; empty: by ``spread``."""
    before: str = ""
    """``plain``: without speculation before; ``replica``: beside it."""
    context: float = 1.0
    """Cached tokens of a prompt while it drafts over those without speculation."""
    uncached: float = 120.0
    searches: bool = False
    interval: float = 1.0
    lost: float = 0.0
    """Share of the polls that are lost."""
    answers: float = 0.7
    """Spread of the logarithm of the lengths of answers."""
    drift: float = 0.0
    """Of the logarithm of the cached tokens, within the hour."""
    tenants: float = 1.0
    """Factor of the contexts of a second tenant, whose share of the requests changes within minutes."""
    budget: int = BUDGET
    seconds: int = 900


def _below(limit: int) -> Rows:
    return ((limit, K), (inf, 0))


def _outside(low: int) -> Rows:
    return ((low - 1, K), (low + 1, 0), (inf, K))


ALWAYS: Final = ((inf, K),)


def _cells() -> Iterator[Cell]:
    yield from _schedules()
    yield from _beside()
    yield from _others()


def _schedules() -> Iterator[Cell]:
    for limit in (8, 16, 24, 48):
        kind = "pauses above 8 or 16" if limit <= 16 else "pauses above 24 or 48"
        for factor, spread in ((1.0, 0.35), (0.65, 0.35), (1.5, 0.35), (1.0, 0.0)):
            yield Cell(kind, _below(limit), limit * factor, spread)
    for low, spread in ((8, 0.08), (8, 0.35), (20, 0.08), (20, 0.35), (40, 0.08), (40, 0.35)):
        yield Cell("pauses at 8 to 9" if low == 8 else "pauses at 20 or 40", _outside(low), low + 0.5, spread)


def _beside() -> Iterator[Cell]:
    for load in (8, 32):
        yield Cell("replica without speculation", ALWAYS, load, before="replica")
        yield Cell("no speculation before", ALWAYS, load, before="plain")
        yield Cell("no speculation before, n-gram", ALWAYS, load, before="plain", searches=True)
        for context in (0.5, 2.0):
            yield Cell("no speculation before, other contexts", ALWAYS, load, before="plain", context=context)
    for load, pattern in product((4, 24), ("bursts", "waves")):
        yield Cell("no speculation before, bursts and waves", ALWAYS, load, pattern=pattern, before="plain")


def _others() -> Iterator[Cell]:
    for prompt, kind in (
        (500, "prompts of 500"),
        (2000, "prompts of 2,000 to 6,000"),
        (6000, "prompts of 2,000 to 6,000"),
    ):
        yield Cell(kind, _below(16), 16, uncached=prompt)
        yield Cell(kind, _outside(12), 12, uncached=prompt)
        yield Cell(kind, ALWAYS, 16, before="plain", uncached=prompt)
    yield Cell("three draft lengths", ((8, 5), (24, 3), (inf, 0)), 24)
    yield Cell("three draft lengths", ((16, 4), (40, 2), (inf, 0)), 40)
    for rows in (_below(16), _outside(20)):
        yield Cell("polls of 5 s", rows, rows[0][0], interval=5.0, seconds=1800)
        yield Cell("a sixth of the polls lost", rows, rows[0][0], lost=1 / 6)
        yield Cell("long tails, contexts that drift", rows, rows[0][0], answers=1.8)
        yield Cell("long tails, contexts that drift", rows, rows[0][0], drift=0.7, seconds=1800)
        yield from (Cell(each, rows, rows[0][0], pattern=each) for each in ("bursts", "on and off", "waves"))
        yield Cell("two tenants", rows, rows[0][0], tenants=8.0)
        yield Cell("small and large chunks", rows, rows[0][0], uncached=1000, budget=512)
        yield Cell("small and large chunks", rows, rows[0][0], uncached=1000, budget=8192)


CELLS: Final = tuple(_cells())


class Estimate(NamedTuple):
    """κ at one load."""

    truth: float
    low: float
    guess: float
    high: float

    def inside(self) -> bool:
        """Return whether the bounds contain the truth."""
        return self.low <= self.truth <= self.high

    def false_pays(self) -> float:
        """Return the share of ``LOSSES`` that would be called gains."""
        return mean(self.high < each * self.truth for each in LOSSES)

    def false_hurts(self) -> float:
        """Return the share of ``GAINS`` that would be called losses."""
        return mean(self.low > each * self.truth for each in GAINS)


class Polls(NamedTuple):
    """Polls of one process of a server."""

    moments: Sequence[float]
    pages: Sequence[Counts]
    speculates: bool


class Trial:
    """A server with the traffic of a cell."""

    def __init__(self, cell: Cell, random: Random) -> None:
        self.cell, self.random = cell, random
        self.server = _server(random, searches=cell.searches)
        self.answer = exp(random.uniform(log(60), log(500)))
        self.cached = exp(random.uniform(log(200), log(4000)))
        self.acceptance = random.uniform(0.4, 0.85)
        self.coverage = random.uniform(0.2, 0.8) if cell.searches else 1.0
        self.thinks = cell.spread > 0 and not cell.pattern and random.random() < 0.5
        self.rows = [(upper, self.server.tokens if tokens == K else tokens) for upper, tokens in cell.rows]

    def run(self) -> Run:
        """Run the server, before it if it served without speculation, and its replica."""
        cell, begin, before, replica = self.cell, 0.0, list[Polls](), list[Polls]()
        if cell.before == "plain":
            before.append(self._polls(self._engine(0.0, [(inf, 0)]), PLAIN_SECONDS))
            begin = before[0].moments[-1] + 20
        elif cell.before:
            factor = self.random.gauss(1, REPLICA_ERROR)
            replica.append(self._polls(self._engine(begin, [(inf, 0)], factor), cell.seconds))
        engine = self._engine(begin, self.rows, context=cell.context)
        drafting = self._polls(engine, cell.seconds)
        method, tokens = self.server.drafter.method.value, self.server.tokens
        return Run(method, tokens, replica, [*before, drafting], cell.interval, engine.truth)

    def _engine(self, now: float, rows: Rows, factor: float = 1.0, context: float = 1.0) -> Engine:
        cell, random = self.cell, self.random
        step = self.server.drafting_seconds(round(cell.load), round(cell.load) * self.server.tokens)
        think = random.uniform(0.3, 0.6) * self.answer * step if self.thinks else 0.0
        period, other = random.uniform(0.7, 1.3) * cell.seconds, random.uniform(60, 300)

        def longer(moment: float) -> float:
            is_other = random.random() < 0.5 + 0.4 * sin(6.28 * moment / other)
            tenant = cell.tenants if is_other and cell.tenants > 1 else 1.0
            return context * tenant * exp(cell.drift * sin(6.28 * moment / period))

        requests = Requests(
            self.answer,
            self.cached,
            cell.uncached,
            self.acceptance,
            self._load(),
            cell.answers,
            self.coverage,
            think,
            longer,
        )
        return Engine(random, self.server, rows, requests, now=now, factor=factor, budget=cell.budget)

    def _load(self) -> Callable[[float], float]:
        """Return the load over time: of a pattern, two levels, or a first-order autoregressive process."""
        cell, random, loads, deviation = self.cell, self.random, list[float](), 0.0
        memory, period = random.uniform(20, 120), random.uniform(120, 600)
        while len(loads) < 10_000:
            if cell.pattern == "bursts":
                loads += [max(1.0, 0.4 * cell.load)] * random.randint(10, 60) + [2 * cell.load] * 2
            elif cell.pattern == "on and off":
                loads += [1.4 * cell.load] * random.randint(5, 60) + [1.0] * random.randint(5, 60)
            elif cell.pattern:
                loads.append(max(1.0, cell.load * exp(0.6 * sin(6.28 * len(loads) / period))))
            elif cell.spread:
                loads.append(max(1.0, cell.load * exp(deviation)))
                deviation += random.gauss(0, cell.spread * sqrt(2 / memory)) - deviation / memory
            else:
                level = cell.load * (random.uniform(1.2, 1.6), random.uniform(0.5, 0.75))[deviation > 0]
                loads += [round(level)] * random.randint(15, 90)
                deviation = 1 - deviation
        return lambda moment: loads[int(moment)]

    def _polls(self, engine: Engine, seconds: float) -> Polls:
        interval, random = self.cell.interval, self.random
        count = int(seconds / interval)
        moments = [engine.now + interval * (place + random.uniform(0.9, 1.1)) for place in range(count)]
        moments = [each for each in moments if random.random() >= self.cell.lost]
        return Polls(moments, list(engine.pages(moments)), speculates=max(engine.servers) > 0)


def _server(random: Random, *, searches: bool) -> Server | SharpServer:
    """Draw a server of one of the two models."""
    if random.random() < 0.5:
        return SharpServer.drawn(random, searches=searches)
    return next(
        each.server
        for each in cells(random.randrange(10**6), 1000)
        if each.server.drafter.drafts_every_step != searches and random.random() < 0.3
    )


class Run(NamedTuple):
    """What the exporter sees of a server, and its truth."""

    method: str
    tokens: int
    replica: Sequence[Polls]
    processes: Sequence[Polls]
    """The last one drafts."""
    interval: float
    truth: Mapping[int, Sequence[float]]

    def estimates(self, seconds: float = inf) -> Iterator[Estimate]:
        """Yield the cost at each load that the exporter knows ``seconds`` after drafting began."""
        arms = [self._learned([each], inf) for each in self.replica]
        learned = self._learned(self.processes, self.processes[-1].moments[0] + seconds)
        for curve in learned.costs(arms):
            for load, token in curve.points:
                truth, tokens = near(self.truth, load)
                if truth:
                    yield Estimate(truth, *(1 + (curve.step_tokens + tokens) * each for each in token))

    def _learned(self, processes: Sequence[Polls], until: float) -> Learned:
        history = History(300.0)
        learned = Learned()
        learned.assume(DraftingMethod(self.method), DropPolicy())
        for polls in processes:
            for moment, page in zip(polls.moments, polls.pages, strict=True):
                if moment > until:
                    break
                shown = sample(page, created=WALL + polls.moments[0], speculates=polls.speculates)
                step = history.observe(shown, START + moment, WALL + moment, self.interval)
                if step.increment:
                    learned.observe(step.increment, shown, history, speculates=polls.speculates)
        return learned


HEADS: Final = (
    *("traffic", "servers", "known after 10 min", "truth inside", "error: median", "90 %", "width"),
    *("false pays", "false hurts", "missed"),
)


def row(kind: str, found: Sequence[Sequence[Estimate]], early: Sequence[bool]) -> list[str]:
    """Return the shares of the servers with a cost, and those of all loads with one."""
    every = [each for estimates in found for each in estimates]
    known = mean(early)
    if not every:
        return [kind, f"{len(found)}", percent(known), *["-"] * (len(HEADS) - 4), "known"]
    sizes = sorted(abs(each.guess / each.truth - 1) for each in every)
    inside, pays, hurts = (
        mean(map(share, every)) for share in (Estimate.inside, Estimate.false_pays, Estimate.false_hurts)
    )
    width = median((each.high - each.low) / each.truth for each in every)
    most = sizes[-1 - len(sizes) // 10]
    goals = {
        "known": known >= MIN_KNOWN,
        "inside": inside >= MIN_INSIDE,
        "error": median(sizes) <= MAX_ERROR,
        "90 %": most <= MAX_MOST,
        "false pays": pays <= MAX_FALSE,
        "false hurts": hurts <= MAX_FALSE,
    }
    shares = (known, inside, median(sizes), most, width, pays, hurts)
    missed = ", ".join(name for name, is_met in goals.items() if not is_met)
    return [kind, f"{len(found)}", *map(percent, shares), missed or "none"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=2, help="servers of a cell")
    options.add_argument("--every", type=int, default=1, help="of so many cells, one")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, trials=1, every=15)
    found: dict[str, list[list[Estimate]]] = defaultdict(list)
    early: dict[str, list[bool]] = defaultdict(list)
    for place, cell in enumerate(CELLS[:: arguments.every]):
        for trial in range(arguments.trials):
            random = Random(f"{arguments.seed} {place * arguments.every} {trial}")
            run = Trial(cell, random).run()
            found[cell.kind].append(list(run.estimates()))
            early[cell.kind].append(any(run.estimates(EARLY_SECONDS)))
    rows = [row(kind, estimates, early[kind]) for kind, estimates in found.items()]
    print("Shares, errors and widths of κ in %.\n")
    print_table(HEADS, rows)
    end(arguments, [f"{each[0]}: {each[-1]}" for each in rows if each[-1] != "none"])


if __name__ == "__main__":
    main()
