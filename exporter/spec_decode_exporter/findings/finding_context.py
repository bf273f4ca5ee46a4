"""Inputs of the findings, and the preconditions of their rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.depth import Depth
from spec_decode_exporter.drops.drop import DropStatus
from spec_decode_exporter.analysis.evaluated_window import EvaluatedWindow
from spec_decode_exporter.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State, is_whole
from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.positions import drafts_with, position_acceptance_ratios, tells_positions
from spec_decode_exporter.figures.server_load import drafting_requests
from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import Window

Values = Mapping[str, float]
"""Numbers of a finding, by name."""


@dataclass(frozen=True, slots=True)
class FindingContext:
    """Inputs of the findings about an engine, over the evaluated window."""

    window: Window
    policy: Policy
    state: State
    verdict: Verdict
    length: Estimate | None = None
    """Bounds of the acceptance length."""
    cost: Cost | None = None
    depth: Depth | None = None
    """Recommended number of draft tokens."""
    crossover: float | None = None
    """Running requests above which speculation does not pay."""
    latencies: Mapping[Latency, Buckets] = field(default_factory=dict)
    broken: frozenset[Check] = frozenset()
    speculation: Speculation = field(default_factory=Speculation)
    drops: DropStatus = field(default_factory=DropStatus)
    recent_length: float | None = None
    """Acceptance length over the shortest window."""
    faster: FasterMethod | None = None
    """Another method that is significantly faster (95 %), by an experiment."""
    speedup: SpeedupRange | None = None
    """Speed-up at the possible costs."""
    assumed_cost: Cost | None = None
    """The cost, or that of any drafter if it is unknown."""
    break_even_cost: Estimate | None = None
    cost_settings: CostSettings | None = None
    request_baseline: RequestBaseline | None = None
    """Requests of the same model without speculation."""
    evaluated: EvaluatedWindow | None = None
    """Choice of the window."""
    wall: float = 0.0
    """Unix time of the newest poll."""

    @property
    def is_whole(self) -> bool:
        """Return whether the evaluated window covers a whole longest one."""
        return is_whole(self.window) if self.evaluated is None else self.evaluated.is_whole

    @property
    def drafts(self) -> int:
        """D; 0 if drafts are not counted."""
        return self.window[Counter.DRAFTS] or 0

    @property
    def tokens(self) -> int:
        """K."""
        return len(self.window.positions)

    @property
    def running(self) -> float | None:
        """Running requests that the cost of drafting depends on."""
        return drafting_requests(self.window)

    def survival(self, position: int) -> float | None:
        """Return p_i; None if the engine does not count its positions. -1 is the last position.

        None also if a schedule changes K and too few drafts had the position.
        """
        if not self.tokens or not tells_positions(self.window) or self.lacks(position):
            return None
        return position_acceptance_ratios(self.window)[position]

    def lacks(self, position: int) -> bool:
        """Return whether a schedule changes K and too few drafts had a position; -1 is the last."""
        number = drafts_with(self.window, position % self.tokens)
        return number is not None and number < self.policy.min_drafts


def always(_: FindingContext) -> bool:
    """Precondition: none."""
    return True


def covered(context: FindingContext) -> bool:
    """Precondition: the window is not partial."""
    return not context.window.partial


def drafting(context: FindingContext) -> bool:
    """Precondition: the window has enough drafts."""
    return covered(context) and context.drafts >= context.policy.min_drafts


def below(name: str, value: float | None, threshold: float) -> Values | None:
    """Return a value and its threshold if the value is below it."""
    return {name: value, "threshold": threshold} if value is not None and value < threshold else None


def above(name: str, value: float | None, threshold: float) -> Values | None:
    """Return a value and its threshold if the value is above it."""
    return {name: value, "threshold": threshold} if value is not None and value > threshold else None
