"""Immutable state of one engine after a poll, which readers share."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

from spec_decode_exporter.drops.drop import DropStatus
from spec_decode_exporter.analysis.evaluation_result import Evaluation
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.learned.plain_period import PlainPeriod
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets, Sample
from spec_decode_exporter.window.engine_history import EngineTotals
from spec_decode_exporter.window.ledger import Window


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """Immutable state of one engine after a poll."""

    totals: EngineTotals
    broken: frozenset[Check]
    windows: tuple[Window, ...]
    """Windows, ascending by length; empty if the engine is gone."""
    latencies: dict[Latency, Buckets]
    """Histograms over the longest window."""
    reported: Sample | None
    """Newest sample; None if the engine is gone."""
    speculation: Speculation
    tokens: int
    """K; 0 if unknown."""
    evaluation: Evaluation
    drops: DropStatus
    reference_acceptance_ratio: float | None
    """Acceptance rate of the reference at this K."""
    baseline: PlainPeriod | None = None
    """Newest period without speculation of the model on its target; None without one."""
    figures: tuple[WindowFigures, ...] = field(init=False, repr=False, compare=False)
    """The figures of each window, computed once for all readers."""
    evaluated: WindowFigures | None = field(init=False, repr=False, compare=False)
    """The figures of the evaluated window; None without an evaluation."""

    def __post_init__(self) -> None:
        its = self.evaluation.evaluated
        evaluated = WindowFigures(its.choice.window, its.cost, its.bounds) if its else None
        object.__setattr__(self, "evaluated", evaluated)
        parts = zip_longest(self.windows, self.evaluation.costs, self.evaluation.bounds)
        figures = (
            WindowFigures(window, cost, bounds) for window, cost, bounds in parts if window is not None
        )
        object.__setattr__(self, "figures", tuple(figures))

    def engine_reported(self, gauge: Gauge) -> float | None:
        """Return a ratio that the engine itself reports, if it has no counters that can be used."""
        sample = self.reported
        usable = sample is not None and sample[Counter.DRAFTS] is not None
        return None if sample is None or usable else sample.gauge(gauge)
