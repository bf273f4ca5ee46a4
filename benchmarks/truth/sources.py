"""Sources of a cost, one adapter each: a cell and its polls to the exporter's own evaluation.

An adapter returns None where the source does not apply to a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random

from benchmarks.truth.cells import Cell
from benchmarks.truth.feed import LENGTHS, FedEngine, windows
from benchmarks.truth.models import Method
from benchmarks.truth.traffic import Counts
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, Knowledge
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.comparison_settings import CostSettings, LoadCost
from spec_decode_exporter.window.engine_windows import Window

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


class Recording:
    """A cell with its polls; the adapters share them."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        random = Random(cell.seed + 1)
        self.operator_error = 1 + random.uniform(-OPERATOR_ERROR, OPERATOR_ERROR)
        self.replica_error = 1 + random.gauss(0, REPLICA_ERROR)
        self.day_error = 1 + random.gauss(0, DAY_ERROR)

    @cached_property
    def drafting(self) -> list[Counts]:
        """Polls while it drafts, for a whole longest window."""
        return list(self.cell.traffic(0).seconds(DRAFTING_SECONDS, self.cell.step_seconds))

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """Windows of the exporter while it drafts."""
        return windows(self.drafting)

    def plain(self, factor: float = 1.0, *, speculates: bool = False) -> list[Counts]:
        """Return polls without drafts; ``factor`` multiplies the time of a step."""
        step = factor * self.cell.plain_at(self.cell.running, speculates=speculates)
        return list(self.cell.traffic(1).seconds(PLAIN_SECONDS, step, drafts=False))

    def assumptions(self, cost: CostSettings | None = None) -> Assumptions:
        """Return the exporter's knowledge of the engine."""
        speculation = Speculation(method=self.cell.method.value, tokens=self.cell.server.tokens)
        return Assumptions(speculation=speculation, cost=cost)

    def by_cost(self, cost: CostSettings | None) -> Reported:
        """Return the evaluation with a configured cost, and nothing measured."""
        assumptions = self.assumptions(cost)
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
    ratio = max(0.0, recording.cell.cost_at(KNOWN_LOAD)) * recording.operator_error
    return recording.by_cost(CostSettings(draft_cost_ratio=ratio, running_requests=KNOWN_LOAD))


def configured_by_loads(recording: Recording) -> Reported:
    random = Random(recording.cell.seed + 2)
    loads = tuple(
        LoadCost(
            running_requests=load,
            draft_cost_ratio=max(0.0, recording.cell.cost_at(load))
            * (1 + random.uniform(-OPERATOR_ERROR, OPERATOR_ERROR)),
        )
        for load in KNOWN_LOADS
    )
    return recording.by_cost(CostSettings(loads=loads))


def typical(recording: Recording) -> Reported:
    return recording.by_cost(None)


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
