"""Sources of a cost, one adapter each: a cell and its polls to the exporter's own evaluation.

An adapter returns None where the source does not apply to a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from benchmarks.truth.cells import Cell
from benchmarks.truth.feed import LENGTHS, FedEngine, windows
from benchmarks.truth.kinds import ChangingCell
from benchmarks.truth.shapes import Method
from benchmarks.truth.step_traffic import Truth
from benchmarks.truth.traffic import Counts, population
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, Knowledge
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.window.history import Window

STEADY = "steady"
"""Kind of traffic of a cell: a fixed number of requests, each with a prompt beside the others."""
DRAFTING_SECONDS = int(LENGTHS[-1]) + 10
PLAIN_SECONDS = 120
"""Of the pause, of the time before speculation, and of the baseline of the experiment."""
KNOWN_LOAD = 4
"""Load at which the operator measured one cost."""
KNOWN_LOADS = (1, 4, 16, 64, 256)
OPERATOR_ERROR = 0.10
"""Largest error of the operator's number."""
REPLICA_ERROR = 0.015
"""Standard deviation of the step time between replicas: clocks and neighbours."""
DAY_ERROR = 0.04
"""The same between days on one server: driver, clocks, prompts."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Evaluation of a cell by the exporter."""

    verdict: str
    lower: float | None
    upper: float | None
    source: str
    """Source of the cost that the exporter used; empty without one."""
    seconds: float = LENGTHS[-1]
    """Length of the window that it judged."""


class Recording:
    """A cell with its polls; the adapters share them."""

    def __init__(self, cell: Cell, kind: str = STEADY) -> None:
        self.cell = cell
        self._changing = None if kind == STEADY else ChangingCell(cell, kind)
        self._random = Random(cell.seed + 1)
        self.operator_error = 1 + self._random.uniform(-OPERATOR_ERROR, OPERATOR_ERROR)
        self.replica_error = 1 + self._random.gauss(0, REPLICA_ERROR)
        self.day_error = 1 + self._random.gauss(0, DAY_ERROR)

    @cached_property
    def drafting(self) -> list[Counts]:
        """Polls while it drafts, for a whole longest window."""
        if self._changing is not None:
            return [counts for counts, _ in self._changed]
        step = self.cell.pace.step_seconds
        return list(self.cell.traffic(0).seconds(DRAFTING_SECONDS, lambda _: step))

    @cached_property
    def _changed(self) -> list[tuple[Counts, Truth]]:
        assert self._changing is not None
        return list(self._changing.traffic(0).seconds(DRAFTING_SECONDS))

    def truth(self, seconds: float) -> float:
        """Return the speed-up over the last seconds; that of steady traffic is always the same."""
        if self._changing is None:
            return self.cell.truth
        truths = [truth for _, truth in self._changed]
        return truths[-1].since(truths[max(0, len(truths) - 1 - round(seconds))])

    def cost_at(self, running: int) -> float:
        """Return what an operator would measure: for traffic that changes, without prompts in between."""
        if self._changing is None:
            return self.cell.cost_at(running)
        mix = replace(self.cell.mix, hit_ratio=1.0)
        return replace(self.cell, server=self._changing.server, mix=mix).cost_at(running)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """Windows of the exporter while it drafts."""
        return windows(self.drafting)

    @property
    def length_is_inside(self) -> bool | None:
        """Return whether the bounds of the acceptance length contain the truth; None without bounds.

        They depend on no cost, so they are the control of all sources: no bounds of a speed-up can be better.
        """
        bounds = WindowFigures(self.windows[-1]).acceptance_length_bounds
        if bounds is None:
            return None
        cell = self.cell
        return bounds.lower <= population(cell.mix, cell.server.tokens).acceptance_length <= bounds.upper

    def plain(self, factor: float = 1.0, *, speculates: bool = False) -> list[Counts]:
        """Return polls without drafts; ``factor`` multiplies the time of a step."""
        if self._changing is not None:
            traffic = self._changing.traffic(1, drafts=False, speculates=speculates)
            return [counts.slowed(factor) for counts, _ in traffic.seconds(PLAIN_SECONDS)]
        step = factor * self.cell.plain_at(self.cell.running, speculates=speculates)
        steady = self.cell.traffic(1)
        return list(steady.seconds(PLAIN_SECONDS, lambda _: step, drafts=False))

    def assumptions(self, cost: CostSettings | None = None) -> Assumptions:
        """Return the exporter's knowledge of the engine."""
        speculation = Speculation(method=self.cell.method.value, tokens=self.cell.server.tokens)
        return Assumptions(speculation=speculation, cost=cost)

    def by_cost(self, cost: CostSettings) -> Reported:
        """Return the evaluation with a configured cost."""
        return self.by(self.assumptions(cost))

    def by(self, assumptions: Assumptions) -> Reported:
        """Return the evaluation with these assumptions, and nothing measured."""
        known = Knowledge(assumptions.speculation, assumptions.cost_model(()), has_drafted=True)
        return reported(Evaluation(self.windows, known))


def reported(evaluation: Evaluation) -> Reported:
    cost, judged = evaluation.longest.cost, evaluation.verdict_window
    bounds = judged.speedup_bounds
    return Reported(
        verdict=str(evaluation.verdict.value),
        lower=None if bounds is None else bounds.lower,
        upper=None if bounds is None else bounds.upper,
        source="" if cost is None else str(cost.source.value),
        seconds=judged.window.seconds,
    )


def experiment(recording: Recording) -> Reported:
    """Evaluate with the step times of a replica that serves the same model without speculation."""
    plain = FedEngine(Assumptions())
    plain.poll(recording.plain(recording.replica_error), speculates=False)
    engine = FedEngine(recording.assumptions())
    engine.monitor.use_experiments([plain.monitor.learned], None)
    engine.poll(recording.drafting)
    return reported(engine.snapshot().evaluation)


def measured(recording: Recording) -> Reported | None:
    """Evaluate after a pause of drafting at the same load; searches on the host go on in a pause."""
    if recording.cell.method is Method.NGRAM:
        return None
    engine = FedEngine(recording.assumptions())
    pause = recording.plain(speculates=True)
    engine.poll(pause)
    engine.poll(counts.after(pause[-1]) for counts in recording.drafting)
    return reported(engine.snapshot().evaluation)


def baseline(recording: Recording) -> Reported:
    """Evaluate after the target served the model without speculation, on another day."""
    engine = FedEngine(recording.assumptions())
    engine.poll(recording.plain(recording.day_error), speculates=False)
    engine.poll(recording.drafting, process=PLAIN_SECONDS)
    return reported(engine.snapshot().evaluation)


def configured_with_load(recording: Recording) -> Reported:
    """Evaluate with the operator's number and its load, 4."""
    ratio = max(0.0, recording.cost_at(KNOWN_LOAD)) * recording.operator_error
    return recording.by_cost(CostSettings(draft_cost_ratio=ratio, running_requests=KNOWN_LOAD))


def configured_by_loads(recording: Recording) -> Reported:
    random = Random(recording.cell.seed + 2)
    loads = tuple(
        LoadCost(
            running_requests=load,
            draft_cost_ratio=max(0.0, recording.cost_at(load))
            * (1 + random.uniform(-OPERATOR_ERROR, OPERATOR_ERROR)),
        )
        for load in KNOWN_LOADS
    )
    return recording.by_cost(CostSettings(loads=loads))


def typical(recording: Recording) -> Reported:
    return recording.by(recording.assumptions())


@dataclass(frozen=True, slots=True)
class Source:
    """A source with its goals."""

    name: str
    adapter: Callable[[Recording], Reported | None]
    labels: tuple[str, ...]
    """``source`` labels under which the exporter may report it."""
    decided_goal: float | None = None
    """Least share of cells with a verdict other than ``unclear`` and ``insufficient``."""


SOURCES = (
    Source("experiment", experiment, ("experiment",), 0.6),
    Source("measured", measured, ("measured",), 0.6),
    Source("baseline", baseline, ("baseline",), 0.6),
    Source("configured, its load", configured_with_load, ("configured",)),
    Source("configured, by loads", configured_by_loads, ("configured",), 0.6),
    Source("typical", typical, ("typical", "")),
)
