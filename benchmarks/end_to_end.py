"""Speed-up of whole requests, compared with the truth of a model: lost prefix cache, long prompts, queues.

    python -m benchmarks.end_to_end [--servers 12] [--seed 1] [--smoke]

Each scenario serves one kind of traffic twice, without speculation and with it, on servers of their own. The
truth is the mean time of a finished request without speculation over that with it, of ten minutes each; the
exporter's own code gets the last five minutes with speculation, and either nothing else or the two minutes
without it before. The cost of drafting is configured as the model has it, except with a baseline. The exit
status is 1 if a goal is missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, fsum, log

import numpy as np

from benchmarks.console import end, parsed, parser, percent, print_table
from benchmarks.simulated_requests import Trace
from benchmarks.truth.feed import LENGTHS, FedEngine
from benchmarks.truth.fleet import Fleet, Machine, Work, counts_of
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.comparison_settings import CostSettings
from spec_decode_exporter.monitor.snapshot import EngineSnapshot

PLAIN_SECONDS = 120
TRUE_SECONDS = 600
MIN_INSIDE = 0.90
PAYS = frozenset({"healthy", "optimal"})
SLOWER = 0.97
LOADS = (3, 48)
"""Requests that run without speculation."""
ACCEPTANCES = (0.45, 0.85)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Prompts and arrivals, without and with speculation."""

    name: str
    prompt: float
    hits: float
    """Prefix hits without speculation."""
    drafting_hits: float
    """Prefix hits with it."""
    is_open: bool = False
    """True if requests arrive at random; else each client sends the next one at once."""
    places: float | None = None
    """Places over the requests that run without speculation; None: no queue."""


SCENARIOS = (
    Scenario("short prompts", 200, 0.0, 0.0),
    Scenario("cached prompts", 4000, 0.85, 0.85),
    Scenario("cached prompts, random arrivals", 4000, 0.85, 0.85, is_open=True),
    Scenario("lost prefix cache", 4000, 0.85, 0.0),
    Scenario("lost prefix cache, random arrivals", 2000, 0.7, 0.0, is_open=True),
    Scenario("short prompts, no common beginning", 500, 0.0, 0.0, is_open=True),
    Scenario("long prompts", 12_000, 0.05, 0.05),
    Scenario("long prompts, random arrivals", 6000, 0.05, 0.05, is_open=True),
    Scenario("queue", 500, 0.5, 0.5, is_open=True, places=1.2),
    Scenario("queue, clients that wait", 500, 0.5, 0.5, places=0.6),
    Scenario("queue and lost prefix cache", 1000, 0.85, 0.0, is_open=True, places=1.5),
)


@dataclass(frozen=True)
class Trial:
    """One server in one scenario, served without and with speculation."""

    scenario: Scenario
    machine: Machine
    work: Work
    plain: Trace
    drafting: Trace

    @cached_property
    def truth(self) -> float:
        """Mean time of a request without speculation over that with it."""
        return _mean_request(self.plain) / _mean_request(self.drafting)

    @property
    def cost_ratio(self) -> float:
        """Cost of a draft token, as the operator measured it: of decoding alone, at this load."""
        running = self.drafting.window(TRUE_SECONDS - 300, 300).mean.running_requests or 1.0
        context = running * (self.work.prompt + self.work.answer / 2)
        plain = replace(self.machine, tokens=0).step(running, context)
        return max(0.0, self.machine.step(running, context) / plain - 1) / self.machine.tokens

    def report(self, *, with_baseline: bool) -> EngineSnapshot:
        """Return what the exporter reports."""
        speculation = Speculation(method="eagle3", tokens=self.machine.tokens)
        cost = None if with_baseline else CostSettings(draft_cost_ratio=self.cost_ratio)
        engine = FedEngine(Assumptions(speculation=speculation, cost=cost))
        if with_baseline:
            engine.poll(counts_of(self.plain, PLAIN_SECONDS), speculates=False)
        engine.poll(counts_of(self.drafting, int(LENGTHS[-1]) + 10), process=PLAIN_SECONDS)
        return engine.snapshot()


def _mean_request(trace: Trace) -> float:
    total = trace.total
    return total.end_to_end_nanoseconds / total.finished_requests


@dataclass(frozen=True, slots=True)
class Outcome:
    """One trial, with or without a baseline."""

    trial: Trial
    with_baseline: bool
    truth: float
    verdict: str
    value: float | None
    lower: float | None
    upper: float | None
    findings: frozenset[str]

    @property
    def error(self) -> float | None:
        """Error of the reported speed-up, relative to the truth."""
        return None if self.value is None else self.value / self.truth - 1

    @property
    def is_inside(self) -> bool:
        """True if the bounds contain the truth."""
        return self.lower is not None and self.upper is not None and self.lower <= self.truth <= self.upper

    @property
    def is_false(self) -> bool:
        """True if requests are slower than a known baseline and the verdict is healthy or optimal."""
        return self.with_baseline and self.truth < SLOWER and self.verdict in PAYS


def outcome(trial: Trial, *, with_baseline: bool) -> Outcome:
    report = trial.report(with_baseline=with_baseline)
    request = report.evaluation.longest.request
    bounds = None if request is None else request.bounds
    return Outcome(
        trial,
        with_baseline,
        trial.truth,
        str(report.evaluation.verdict),
        None if request is None else request.value,
        None if bounds is None else bounds.lower,
        None if bounds is None else bounds.upper,
        frozenset(each.name for each in report.findings),
    )


def trials(random: np.random.Generator, scenarios: Sequence[Scenario], servers: int) -> Iterator[Trial]:
    """Serve each scenario on its own servers."""
    for scenario in scenarios:
        fleet = Fleet(random)
        drawn = [_draw(random, scenario) for _ in range(servers)]
        for machine, work in drawn:
            plain = replace(work, hits=scenario.hits)
            fleet.add(replace(machine, tokens=0), plain)
            fleet.add(machine, work)
        traces = iter(fleet.traces(TRUE_SECONDS))
        for machine, work in drawn:
            yield Trial(scenario, machine, work, next(traces), next(traces))


def _draw(random: np.random.Generator, scenario: Scenario) -> tuple[Machine, Work]:
    running = exp(random.uniform(*map(log, LOADS)))
    tokens = int(random.integers(1, 6))
    machine = replace(Machine.draw(random), tokens=tokens, drafter=random.uniform(0.04, 0.15))
    answer = exp(random.uniform(log(120), log(600)))
    work = Work(answer, scenario.prompt, scenario.hits, random.uniform(*ACCEPTANCES))
    clients = max(2, round(running))
    rate = machine.rate(work, running) if scenario.is_open else None
    places = None if scenario.places is None else max(2, round(running * scenario.places))
    machine = replace(machine, places=places or machine.places)
    return machine, replace(work, hits=scenario.drafting_hits, rate=rate, running=clients)


HEADS = ("scenario", "baseline", "trials", "truth", "mean error", "truth inside", "false", "cache lost")


def row(name: str, among: Sequence[Outcome]) -> list[str]:
    errors = [abs(each.error) for each in among if each.error is not None]
    bounded = [each for each in among if each.lower is not None]
    slower = [each for each in among if each.truth < SLOWER]
    truths = [each.truth for each in among]
    inside = sum(each.is_inside for each in bounded) / len(bounded) if bounded else None
    return [
        name,
        "yes" if among[0].with_baseline else "no",
        str(len(among)),
        f"{min(truths):.2f} to {max(truths):.2f}",
        percent(fsum(errors) / len(errors) if errors else None),
        percent(inside),
        f"{sum(each.is_false for each in among)} of {len(slower)}",
        f"{sum('prefix_cache_lost' in each.findings for each in among)} of {len(among)}",
    ]


def missed(outcomes: Sequence[Outcome]) -> list[str]:
    found = ["slower requests are reported healthy"] if any(each.is_false for each in outcomes) else []
    bounded = [each for each in outcomes if each.lower is not None]
    if not bounded:
        return ["the speed-up of requests is not available"]
    if sum(each.is_inside for each in bounded) < MIN_INSIDE * len(bounded):
        found.append("truth inside")
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--servers", type=int, default=12, help="in each scenario")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, servers=1)
    random = np.random.default_rng(arguments.seed)
    outcomes = [
        outcome(trial, with_baseline=known)
        for trial in trials(random, SCENARIOS[:4] if arguments.smoke else SCENARIOS, arguments.servers)
        for known in (False, True)
    ]
    groups: dict[tuple[str, bool], list[Outcome]] = {}
    for each in outcomes:
        groups.setdefault((each.trial.scenario.name, each.with_baseline), []).append(each)
    print("Speed-up of whole requests; errors and shares in %.\n")
    print_table(HEADS, (row(name, among) for (name, _), among in groups.items()))
    end(arguments, missed(outcomes))


if __name__ == "__main__":
    main()
