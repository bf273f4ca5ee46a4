"""Evaluation of one engine: processor time of its windows, its evaluation and its snapshot after a poll.

    python -m benchmarks.evaluation [--positions 4 8] [--polls 200] [--smoke]

Each engine is polled every second, its histograms every tenth, until its windows of 30 s and 300 s are full.
Load and acceptance wander about a mean, requests come and go, so bounds need all their cosines. Then every
further poll is measured: times are CPU seconds, the mean of the fastest half of the polls. Every 5 s it
needs its windows and a conclusion: verdict and advice of the newest poll. A page also needs the rest of the
evaluation, and the snapshot with all figures of its windows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from random import Random
from statistics import fmean

from benchmarks.options import parsed, parser
from benchmarks.table import table
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings
from spec_decode_exporter.figures.figure import ScalarFigure
from spec_decode_exporter.figures.table import shown
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets, Sample

WINDOWS = (30.0, 300.0)
FILLING_POLLS = 360
WALL = 1.79e9
STEP_SECONDS = 0.02
RUNNING = 16.0
ACCEPTANCE = 0.7
ANSWER_TOKENS = 200
PROMPT_TOKENS = 500
HISTOGRAMS_EVERY = 10
BOUNDS = (*(0.005 * 2.0**power for power in range(14)), inf)
ANSWER_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, inf)

ENGINES = {
    "eagle3, typical cost": Assumptions(Speculation("eagle3")),
    "eagle3, configured cost": Assumptions(
        Speculation("eagle3", architecture=Architecture.DENSE),
        CostSettings(draft_cost_ratio=0.07, running_requests=16.0),
    ),
    "method unknown": Assumptions(),
}


@dataclass
class Server:
    """Totals of a server whose load and acceptance wander, second by second."""

    positions: int
    random: Random = field(default_factory=lambda: Random(1))
    running: float = RUNNING
    acceptance: float = ACCEPTANCE
    second: int = 0
    totals: dict[Counter, int] = field(default_factory=lambda: dict.fromkeys(Counter, 0))
    accepted: list[int] = field(default_factory=list)

    def samples(self, *, busy: bool = True) -> Iterator[Sample]:
        """Yield the page of each second; a server that is not busy counts nothing."""
        self.accepted = self.accepted or [0] * self.positions
        while True:
            if busy:
                self._count()
            self.second += 1
            yield self._sample(busy=busy, histograms=self.second % HISTOGRAMS_EVERY == 0)

    def _count(self) -> None:
        """Count a second of decoding."""
        draw = self.random
        self.running = max(self.running + 0.05 * (RUNNING - self.running) + draw.gauss(0.0, 1.0), 4.0)
        drift = 0.1 * (ACCEPTANCE - self.acceptance)
        self.acceptance = min(self.acceptance + drift + draw.gauss(0.0, 0.01), 0.95)
        steps = round(self.running / STEP_SECONDS)
        reached, accepted = steps, 0
        for position in range(self.positions):
            reached = min(reached, round(reached * self.acceptance + draw.gauss(0.0, 3.0)))
            self.accepted[position] += max(reached, 0)
            accepted += max(reached, 0)
        finished = max(round((steps + accepted) / ANSWER_TOKENS + draw.gauss(0.0, 1.0)), 0)
        waited = round(finished * 10**8 * draw.uniform(0.5, 1.5))
        decoding = round(steps * STEP_SECONDS * 10**9 * draw.uniform(0.95, 1.05))
        counted = {
            Counter.DRAFTS: steps,
            Counter.DRAFT_TOKENS: self.positions * steps,
            Counter.ACCEPTED_TOKENS: accepted,
            Counter.GENERATION_TOKENS: steps + accepted + finished,
            Counter.FIRST_TOKENS: finished,
            Counter.DECODE_STEPS: steps,
            Counter.DECODE_NANOSECONDS: decoding,
            Counter.PREFIX_CACHE_QUERIES: PROMPT_TOKENS * finished,
            Counter.PREFIX_CACHE_HITS: PROMPT_TOKENS // 4 * finished,
            Counter.PROMPT_TOKENS: PROMPT_TOKENS * finished,
            Counter.FINISHED_REQUESTS: finished,
            Counter.END_TO_END_NANOSECONDS: waited + decoding,
            Counter.FIRST_TOKEN_NANOSECONDS: waited,
        }
        for counter, count in counted.items():
            self.totals[counter] += count

    def _sample(self, *, busy: bool, histograms: bool) -> Sample:
        gauges: list[float | None] = [None] * len(Gauge)
        gauges[Gauge.RUNNING_REQUESTS] = round(self.running) if busy else 0.0
        gauges[Gauge.WAITING_REQUESTS] = 0.0
        gauges[Gauge.KV_CACHE_USAGE] = self.running / 50
        return Sample(
            tuple(self.totals[counter] for counter in Counter),
            tuple(self.accepted),
            tuple(gauges),
            WALL,
            dict.fromkeys(Latency, self._histogram(BOUNDS, 3)) if histograms else None,
            self._histogram(ANSWER_BOUNDS, 6) if histograms else None,
        )

    def _histogram(self, bounds: tuple[float, ...], lowest: int) -> Buckets:
        """Return the finished requests, evenly over the buckets from the lowest one on."""
        finished, filled = self.totals[Counter.FINISHED_REQUESTS], len(bounds) - lowest
        counts = (max(place - lowest, 0) * finished // filled for place in range(1, len(bounds) + 1))
        return Buckets(bounds, tuple(counts))


class Engine:
    """Monitor of a server, polled every second; it evaluates only when it is asked."""

    def __init__(self, positions: int, assumptions: Assumptions, *, is_idle: bool = False) -> None:
        """Fill the windows, and then let the server idle if ``is_idle``."""
        server = Server(positions)
        self.monitor = EngineMonitor(WINDOWS, assumptions, evaluated_every=inf)
        self._now = 0.0
        self._samples = server.samples()
        for _ in range(FILLING_POLLS):
            self.poll()
        if is_idle:
            self._samples = server.samples(busy=False)
            for _ in range(FILLING_POLLS):
                self.poll()

    def poll(self) -> None:
        """Take the sample of the next second."""
        self._now += 1.0
        self.monitor.observe(next(self._samples), self._now, WALL + self._now, 1.0, HISTOGRAMS_EVERY)

    def windows(self) -> object:
        """Return the windows."""
        return self.monitor.windows(self._now)

    def conclusion(self) -> object:
        """Return verdict and advice."""
        return self.monitor._concluded()  # noqa: SLF001  as every few seconds, without its events

    def evaluation(self) -> object:
        """Return the evaluation; after ``conclusion`` only the rest of it is computed."""
        return self.monitor.evaluate()

    def snapshot(self) -> EngineSnapshot:
        """Return a snapshot of which every figure was read."""
        snapshot = self.monitor.snapshot(self._now)
        for window in snapshot.figures:
            for figure in shown():
                if isinstance(figure, ScalarFigure):
                    window.number(figure), window.bounds(figure)
                else:
                    window.numbers(figure)
        return snapshot


def milliseconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    begin = time.process_time()
    work()
    return 1000 * (time.process_time() - begin)


def row(name: str, engine: Engine, polls: int) -> list[str]:
    """Measure the parts after each of some polls."""
    parts = (engine.windows, engine.conclusion, engine.evaluation, engine.snapshot)
    times: list[list[float]] = [[] for _ in parts]
    for _ in range(polls):
        engine.poll()
        for own, part in zip(times, parts, strict=True):
            own.append(milliseconds(part))
    fastest = (sorted(own)[: max(1, polls // 2)] for own in times)
    return [name, *(f"{fmean(own):.3f} ms" for own in fastest)]


def rows(positions: list[int], polls: int) -> Iterator[list[str]]:
    """Measure all engines."""
    for number in positions:
        for name, assumptions in ENGINES.items():
            yield row(f"K = {number}, {name}", Engine(number, assumptions), polls)
        idle = Engine(number, ENGINES["eagle3, typical cost"], is_idle=True)
        yield row(f"K = {number}, eagle3, idle", idle, polls)


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--positions", type=int, nargs="+", default=[4, 8])
    options.add_argument("--polls", type=int, default=200)
    arguments = parsed(options, positions=[4], polls=2)
    heads = ["engine", "windows", "conclusion", "rest of the evaluation", "snapshot"]
    table(heads, rows(arguments.positions, arguments.polls))


if __name__ == "__main__":
    main()
