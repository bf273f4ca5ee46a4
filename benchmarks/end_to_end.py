"""Speed-up of whole requests, compared with the truth of a model: lost prefix cache, long prompts, queues.

    python -m benchmarks.end_to_end [--smoke] [--seed 1]

Each scenario serves one kind of traffic twice, without speculation and with it. The truth is the mean time of
a finished request without speculation over that with it, of ten minutes each; the exporter's own code gets
the last five minutes with speculation, and either nothing else or the two minutes without it before. The cost
of drafting is configured as the model has it, except with a baseline. The exit status is 1 if a goal is
missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import fsum
from random import Random

from benchmarks.options import end, parsed, parser
from benchmarks.table import percent, print_table
from benchmarks.truth.cells import Cell
from benchmarks.truth.feed import LENGTHS, FedEngine
from benchmarks.truth.hardware import H100, H200, Efficiency
from benchmarks.truth.server import Host, Server
from benchmarks.truth.shapes import DENSE_8B, DENSE_70B, MOE_30B, Method, Target
from benchmarks.truth.traffic import Counts, Mix, Traffic, pace, plain_seconds
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot

SETTLING_SECONDS = 60
"""Time that is not counted: the places fill, and the queue finds its length."""
PLAIN_SECONDS = 120
TRUE_SECONDS = 600
MAX_MEAN_ERROR = 0.10
"""Goal: mean error of the reported speed-up of requests, relative to the truth."""
MIN_INSIDE = 0.90
PAYS = frozenset({"healthy", "optimal"})
SLOWER = 0.97
TARGETS = ((DENSE_8B, Method.EAGLE3, 3), (DENSE_70B, Method.EAGLE3, 3), (MOE_30B, Method.MTP, 2))
ACCEPTANCES = (0.55, 0.80)
LOADS = (4, 32)
ANSWER_CONTEXT = 200
"""Mean tokens of an answer that are in the cache while it is decoded."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Prompts and arrivals, without and with speculation."""

    name: str
    prompt_tokens: float
    hit_ratio: float
    """Prefix hits without speculation."""
    drafting_hit_ratio: float
    """Prefix hits with it."""
    utilisation: float | None = None
    """Arrivals over the greatest rate that the server without speculation completes; None: a closed loop."""


SCENARIOS = (
    Scenario("short prompts", 200, 0.0, 0.0),
    Scenario("cached prompts", 4000, 0.85, 0.85),
    Scenario("lost prefix cache", 4000, 0.85, 0.0),
    Scenario("long prompts", 12_000, 0.0, 0.0),
    Scenario("queue", 500, 0.0, 0.0, 0.8),
    Scenario("queue and lost prefix cache", 1000, 0.85, 0.0, 0.4),
)


class Trial:
    """One server in one scenario, served without and with speculation."""

    def __init__(self, scenario: Scenario, cell: Cell) -> None:
        self.scenario, self.cell = scenario, cell
        self._plain_mix = self._mix(scenario.hit_ratio)
        self._drafting_mix = self._mix(scenario.drafting_hit_ratio)

    def _mix(self, hit_ratio: float) -> Mix:
        tokens = self.scenario.prompt_tokens
        return replace(self.cell.mix, prompt_tokens=tokens, hit_ratio=hit_ratio)

    @cached_property
    def plain(self) -> list[Counts]:
        """Polls without speculation."""
        return list(self._polls(drafts=False))

    @cached_property
    def drafting(self) -> list[Counts]:
        """Polls with speculation."""
        return list(self._polls(drafts=True))

    def _polls(self, *, drafts: bool) -> Iterator[Counts]:
        """Serve, and yield the counters of every second after the first minute."""
        mix = self._drafting_mix if drafts else self._plain_mix

        @cache
        def step_seconds(running: int) -> float:
            server = self.cell.server
            return pace(server, mix, running).step_seconds if drafts else plain_seconds(server, mix, running)

        random = Random(self.cell.seed * 7 + drafts)
        traffic = Traffic(random, self.cell.server, mix, self.cell.running, rate=self._rate)
        polls = traffic.seconds(SETTLING_SECONDS + TRUE_SECONDS, step_seconds, drafts=drafts)
        return (counts for second, counts in enumerate(polls) if second >= SETTLING_SECONDS - 1)

    @cached_property
    def _rate(self) -> float | None:
        """Requests per second; None for a closed loop."""
        if self.scenario.utilisation is None:
            return None
        server, running, mix = self.cell.server, self.cell.running, self._plain_mix
        decoding = mix.mean_answer_tokens * plain_seconds(server, mix, running)
        return self.scenario.utilisation * running / (decoding + server.prompt_seconds(mix.computed_tokens))

    @cached_property
    def truth(self) -> float:
        """Mean time of a request without speculation over that with it."""
        return _mean_request(self.plain) / _mean_request(self.drafting)

    @cached_property
    def cost_ratio(self) -> float:
        """Cost of a draft token, as the operator measured it: of decoding alone."""
        server, running = self.cell.server, self.cell.running
        state = pace(server, replace(self.cell.mix, prompt_tokens=0.0), running)
        ratio = state.step_seconds / server.plain_seconds(running)
        return max(0.0, (ratio - 1) / (state.coverage * state.draft_length))

    def report(self, *, with_baseline: bool) -> EngineSnapshot:
        """Return what the exporter reports."""
        speculation = Speculation(method=self.cell.method.value, tokens=self.cell.server.tokens)
        cost = None if with_baseline else CostSettings(draft_cost_ratio=self.cost_ratio)
        engine = FedEngine(Assumptions(speculation=speculation, cost=cost))
        if with_baseline:
            engine.poll(self.plain[-PLAIN_SECONDS:], speculates=False)
        seconds = int(LENGTHS[-1]) + 10
        engine.poll(self.drafting[-seconds:], process=PLAIN_SECONDS)
        return engine.snapshot()


def _mean_request(polls: Sequence[Counts]) -> float:
    first, last = polls[0], polls[-1]
    finished = last.finished_requests - first.finished_requests
    return (last.end_to_end_nanoseconds - first.end_to_end_nanoseconds) / finished


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
        """True if requests are slower and the verdict is healthy or optimal."""
        return self.truth < SLOWER and self.verdict in PAYS


def outcome(trial: Trial, *, with_baseline: bool) -> Outcome:
    report = trial.report(with_baseline=with_baseline)
    request = report.evaluation.request
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


def trials(seed: int, *, smoke: bool) -> Iterator[Trial]:
    servers = list(product(TARGETS, ACCEPTANCES, LOADS))
    for place, scenario in enumerate(SCENARIOS[:3] if smoke else SCENARIOS):
        context = scenario.prompt_tokens + ANSWER_CONTEXT
        for number, (served, acceptance, running) in enumerate(servers[:1] if smoke else servers):
            seed_of_cell = seed * 1000 + place * 100 + number
            yield Trial(
                scenario, Cell(_server(*served, context), Mix(acceptance, 0.12), running, seed_of_cell)
            )


def _server(target: Target, method: Method, tokens: int, context: float) -> Server:
    drafter = next(each for each in target.drafters if each.method is method)
    gpu = H100 if target is DENSE_8B else H200
    host = Host(1e-3, 8e-6, is_plain_overlapped=True, is_drafting_overlapped=True)
    return Server(target, drafter, tokens, gpu, Efficiency(0.75, 0.55, 4.0), host, 0.35, context)


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
    among = [each for each in outcomes if each.with_baseline and each.value is not None]
    found = ["slower requests are reported healthy"] if any(each.is_false for each in among) else []
    if not among:
        return ["the speed-up of requests is not available"]
    errors = [abs(each.error or 0.0) for each in among]
    if fsum(errors) / len(errors) > MAX_MEAN_ERROR:
        found.append("mean error")
    bounded = [each for each in among if each.lower is not None]
    if bounded and sum(each.is_inside for each in bounded) < MIN_INSIDE * len(bounded):
        found.append("truth inside")
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options)
    outcomes = [
        outcome(trial, with_baseline=known)
        for trial in trials(arguments.seed, smoke=arguments.smoke)
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
