"""Result of an evaluation: of each window, and of the evaluated one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.depth import Depth
from spec_decode_exporter.analysis.drops.drop import DropStatus
from spec_decode_exporter.analysis.end_to_end import EndToEnd
from spec_decode_exporter.analysis.evaluated_window import EvaluatedWindow
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.finding import Finding
from spec_decode_exporter.analysis.missing_evidence import Need
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.speculation_setting import UNKNOWN_SETTING, SpeculationSetting
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_bounds import Bounds


class EngineAdvice(NamedTuple):
    """Recommended action and number of draft tokens."""

    action: Action = Action.COLLECT
    tokens: int | None = None


NO_ADVICE = EngineAdvice()


class WindowEvaluation(NamedTuple):
    """Cost, bounds and speed-ups of one window."""

    cost: Cost | None
    """None if unknown."""
    assumed: Cost
    """The cost, or that of any drafter if it is unknown."""
    bounds: Bounds
    speedup: SpeedupRange | None
    """Speed-up at the possible costs."""
    request: EndToEnd | None = None
    """Speed-up of whole requests."""


class Evaluated(NamedTuple):
    """Evaluated window with its cost and its bounds."""

    choice: EvaluatedWindow
    result: WindowEvaluation
    missing: tuple[Need, ...] = ()
    """Evidence that a verdict needs, any one of them; empty with a verdict."""

    @property
    def cost(self) -> Cost | None:
        """Cost of speculation in the window."""
        return self.result.cost

    @property
    def bounds(self) -> Bounds:
        """Bounds of the window."""
        return self.result.bounds


class Conclusion(Protocol):
    """Verdict and advice about an engine."""

    @property
    def state(self) -> State:
        """State of speculation."""

    @property
    def verdict(self) -> Verdict:
        """Verdict by the evaluated window."""

    @property
    def action(self) -> Action:
        """Recommended action."""

    @property
    def recommended(self) -> Depth | None:
        """Recommended number of draft tokens."""

    @property
    def cost(self) -> Cost | None:
        """Cost of speculation in the longest window."""

    @property
    def evaluated(self) -> Evaluated | None:
        """Evaluated window; None without an evaluation."""

    def completed(self) -> Evaluation:
        """Return the whole evaluation."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of an evaluation. Values that need a cost are absent if the cost is unknown."""

    state: State
    verdict: Verdict = Verdict.INSUFFICIENT
    action: Action = Action.COLLECT
    costs: tuple[Cost | None, ...] = ()
    """Cost of speculation in each window, at the load of its draft tokens."""
    crossover: float | None = None
    """Running requests above which speculation does not pay."""
    bounds: tuple[Bounds, ...] = ()
    """Bounds of each window."""
    depths: tuple[Depth, ...] = ()
    marginal_benefits: tuple[float, ...] = ()
    """Marginal benefit of each depth."""
    recommended: Depth | None = None
    findings: tuple[Finding, ...] = ()
    faster: FasterMethod | None = None
    """Better method, as long as an experiment shows one."""
    requests: tuple[EndToEnd | None, ...] = ()
    """Speed-up of whole requests in each window."""
    request_baseline: RequestBaseline | None = None
    """Requests without speculation, if they are known."""
    evaluated: Evaluated | None = None
    """Window of the verdict, the advice, the depths and the findings, with its cost and bounds."""
    setting: SpeculationSetting = UNKNOWN_SETTING
    drops: DropStatus = field(default_factory=DropStatus)
    """Drops at the moment of the evaluation."""
    wall: float = 0.0
    """Unix time of the evaluation."""

    def completed(self) -> Evaluation:
        """Return the whole evaluation: itself."""
        return self

    @property
    def cost(self) -> Cost | None:
        """Cost of speculation in the longest window."""
        return self.costs[-1] if self.costs else None

    @property
    def request(self) -> EndToEnd | None:
        """Speed-up of whole requests in the longest window."""
        return self.requests[-1] if self.requests else None


UNREACHABLE = Evaluation(State.UNREACHABLE)
