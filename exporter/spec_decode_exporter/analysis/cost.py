"""Cost of drafting: c for each draft token and c0 for each step, in plain decode steps of the target model.

c is the cost of one more draft token, drafted and verified. c0 is the additional cost of a step, independent
of its draft tokens. A decode step that drafts t tokens takes 1 + c0 + c·t plain steps. docs/semantics.md
states the sources of c and their limits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.typical_costs import method_cost
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of speculation at one load."""

    draft_cost_ratio: float
    """c: one more draft token, drafted and verified, in plain decode steps."""
    fixed_cost_ratio: float
    """c0: a step that drafts, independent of its draft tokens, in plain decode steps."""
    source: CostSource
    running_requests: float | None
    """Load of the cost; None if it is known without one."""

    def speaks_for(self, running_requests: float | None) -> bool:
        """Return whether the cost is valid at a load: between half and twice its own load.

        A cost without a load is valid at every load.
        """
        known = self.running_requests
        if known is None:
            return True
        return running_requests is not None and known / 2 <= running_requests <= 2 * known


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Cost of speculation by load, interpolated linearly between known loads."""

    loads: tuple[LoadCost, ...]
    """Known costs, ascending by load; at least one."""
    source: CostSource
    fixed_cost_ratio: float = 0.0
    """Part of c0 that is the same at every load."""
    fixed_tokens: float = 0.0
    """Part of c0 that is proportional to c, in draft tokens."""

    def at(self, running_requests: float) -> Cost:
        """Return the cost at a load; beyond the known loads that of the nearest, with its load."""
        load, ratio = self._between(running_requests)
        return Cost(ratio, self.fixed_cost_ratio + self.fixed_tokens * ratio, self.source, load)

    def _between(self, running_requests: float) -> tuple[float, float]:
        loads = self.loads
        above = bisect_left(loads, running_requests, key=lambda load: load.running_requests)
        if above in {0, len(loads)}:
            end = loads[0 if above == 0 else -1]
            return end.running_requests, end.draft_cost_ratio
        begin, end = loads[above - 1], loads[above]
        share = (running_requests - begin.running_requests) / (end.running_requests - begin.running_requests)
        rise = end.draft_cost_ratio - begin.draft_cost_ratio
        return running_requests, begin.draft_cost_ratio + share * rise


def cost_curve(
    settings: CostSettings | None, measured: Sequence[MeasuredCost], method: str
) -> CostCurve | None:
    """Return the configured or else the measured cost by load; None if it is not known by load.

    ``measured`` is the result of ``StepTimes.costs`` for the same method.
    """
    if settings is not None:
        known = settings.loads
        return CostCurve(known, CostSource.CONFIGURED, settings.fixed_cost_ratio) if known else None
    if not measured:
        return None
    loads = (
        LoadCost(running_requests=each.running_requests, draft_cost_ratio=each.draft_cost_ratio)
        for each in measured
    )
    return CostCurve(tuple(loads), measured[0].source, fixed_tokens=fixed_tokens(method))


def cost_of(
    settings: CostSettings | None,
    measured: Sequence[MeasuredCost],
    method: str,
    running_requests: float | None,
) -> Cost | None:
    """Return the cost of speculation at a load, from the most certain source; None if unknown.

    At an unknown load, a cost configured by load is that of the lowest load, and is not valid for the present
    one.
    """
    if settings is not None and settings.ratio is not None:
        return Cost(
            settings.ratio, settings.fixed_cost_ratio, CostSource.CONFIGURED, settings.running_requests
        )
    curve = cost_curve(settings, measured, method)
    if curve is not None and running_requests is not None:
        return curve.at(running_requests)
    if curve is not None and curve.source is CostSource.CONFIGURED:
        return curve.at(curve.loads[0].running_requests)
    typical = method_cost(method)
    if typical is None:
        return None
    return Cost(typical.draft_cost_ratio, typical.fixed_cost_ratio, CostSource.TYPICAL, None)


def fixed_tokens(method: str) -> float:
    """Return the typical fixed cost of a method in draft tokens, or 0: it splits a measured cost."""
    typical = method_cost(method)
    return 0.0 if typical is None else typical.fixed_tokens
